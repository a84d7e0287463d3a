#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/decimal.hpp"

namespace inferno::grammar {

enum class JsonKind : std::uint8_t { null, boolean, number, string, array, object };

/// One value of a document. Numbers keep their digits, objects their order.
struct Json {
  JsonKind kind = JsonKind::null;
  bool boolean = false;
  std::string text = {};                   ///< of a string: decoded; of a number: as written
  std::vector<Json> items = {};            ///< of an array, or the values of an object
  std::vector<std::string> keys = {};      ///< of an object, as many as items
  std::vector<std::uint32_t> by_key = {};  ///< of an object: its members' indexes, ascending by key
  const Json* parent = nullptr;
  std::uint32_t index = 0;  ///< in the parent's items

  bool is(JsonKind other) const { return kind == other; }
  /// A member of an object; nullptr if there is none (or this is no object).
  const Json* find(std::string_view key) const;
  /// JSON pointer from the document's root: "/properties/a".
  std::string path() const;
  Decimal number() const { return Decimal(text); }
};

/// "an object", "a number", ...
std::string_view json_kind_name(JsonKind kind);

/// JSON from anyone: at most kMaxSchemaBytes, kMaxSchemaDepth levels; no key twice in one object. Throws
/// SchemaError.
std::unique_ptr<const Json> parse_document(std::string_view text);

inline constexpr std::size_t kMaxSchemaBytes = std::size_t{4} << 20U;
inline constexpr std::size_t kMaxSchemaDepth = 128;

/// Follows a JSON pointer ("" or "/a/0"); nullptr if it leads nowhere.
const Json* follow_pointer(const Json& root, std::string_view pointer);

/// Whether two values are equal as JSON Schema has it: 1 and 1.0 are, members' order does not count.
bool equal(const Json& a, const Json& b);

/// Text as a JSON string in quotes, in the one form that this module writes: short escapes where there are
/// any, \u00xx for other control characters, everything else as it is.
std::string json_string(std::string_view text);

/// Of UTF-8 text (valid, it comes from a parser), the characters.
std::u32string code_points(std::string_view text);

}  // namespace inferno::grammar
