#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "server/api/json.hpp"

namespace inferno::api {

/// Path of an element: "messages[3]".
std::string element_path(const std::string& path, std::size_t place);
/// Throws ApiError: "PATH: expected EXPECTED, found a string".
[[noreturn]] void wrong_type(const std::string& path, std::string_view expected, const Json& found);

/// An integer, also one that is written 1.0 or 1e2; those beyond 64 bits come as the nearest that fits.
/// Nullopt for anything else.
std::optional<std::int64_t> integral(const Json& value);
/// A number; nullopt for anything else.
std::optional<double> real(const Json& value);
/// A number as messages say it: with the digits that were sent, if it is an integer.
std::string number_text(const Json& value);

/// An object of a request with the path that leads to it, so that whatever is wrong with a field is refused
/// with its name. A field that is null counts as not given.
class Fields {
 public:
  /// Throws ApiError if `value` is no object. It must outlive this.
  Fields(const Json& value, std::string path);

  /// nullptr: not given, or null.
  const Json* find(std::string_view name) const;
  std::string path_of(std::string_view name) const;

  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::string> string(std::string_view name) const;
  std::optional<std::int64_t> integer(std::string_view name,
                                      std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                                      std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  /// In [least, most].
  std::optional<float> number(std::string_view name, float least = -std::numeric_limits<float>::max(),
                              float most = std::numeric_limits<float>::max()) const;
  std::optional<Fields> object(std::string_view name) const;
  const Json::Array* array(std::string_view name) const;

  const Json::Object& members() const { return *object_; }

 private:
  const Json::Object* object_;
  std::string path_;
};

}  // namespace inferno::api
