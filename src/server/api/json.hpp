#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace inferno::api {

/// Nesting beyond this is refused, wherever it stands: whoever walks the tree may be recursive.
inline constexpr std::size_t kMaxJsonDepth = 100;
/// Values of one request together, keys not counted: a body of commas must not cost many times its size.
inline constexpr std::size_t kMaxJsonValues = 1'000'000;

/// A value of a request's body. Objects keep the order of their keys; of equal keys the last one counts, in
/// the place of the first.
class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;

  class Object {
   public:
    /// In order.
    const std::vector<Member>& members() const { return members_; }
    std::vector<Member>& members() { return members_; }
    /// nullptr if there is none. Takes the logarithm of their number, once `index` has been called.
    const Json* find(std::string_view key) const;
    /// Once all members are in: settles equal keys.
    void index();

   private:
    std::vector<Member> members_;
    std::vector<std::uint32_t> sorted_;  ///< places by key; empty while there are few
  };

  /// An integer beyond 64 bits: its digits.
  struct BigInteger {
    std::string digits;
    double value = 0;
  };

  Json();  ///< null
  ~Json();
  Json(Json&& other) noexcept;
  Json& operator=(Json&& other) noexcept;
  Json(const Json&) = delete;
  Json& operator=(const Json&) = delete;
  explicit Json(bool value) : value_(value) {}
  explicit Json(std::int64_t value) : value_(value) {}
  explicit Json(std::uint64_t value) : value_(value) {}
  explicit Json(double value) : value_(value) {}
  explicit Json(std::string value) : value_(std::move(value)) {}
  explicit Json(BigInteger value) : value_(std::make_unique<BigInteger>(std::move(value))) {}
  explicit Json(Array value) : value_(std::make_unique<Array>(std::move(value))) {}
  explicit Json(Object value) : value_(std::make_unique<Object>(std::move(value))) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&value_); }
  /// Integers beyond those.
  const std::uint64_t* unsigned_integer() const { return std::get_if<std::uint64_t>(&value_); }
  const BigInteger* big_integer() const { return held<BigInteger>(); }
  const double* real() const { return std::get_if<double>(&value_); }
  const std::string* string() const { return std::get_if<std::string>(&value_); }
  std::string* string() { return std::get_if<std::string>(&value_); }
  const Array* array() const { return held<Array>(); }
  Array* array() { return const_cast<Array*>(held<Array>()); }
  const Object* object() const { return held<Object>(); }
  Object* object() { return const_cast<Object*>(held<Object>()); }

  /// "a string", "null", … as messages say it.
  std::string_view type_name() const;

 private:
  template <typename T>
  const T* held() const {
    const auto* pointer = std::get_if<std::unique_ptr<T>>(&value_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string,
               std::unique_ptr<BigInteger>, std::unique_ptr<Array>, std::unique_ptr<Object>>
      value_;
};

/// Reads a request's body. Throws ApiError (400) for what is no JSON (with the byte's place), for text that
/// is not UTF-8, lone surrogates and numbers beyond a double, for nesting beyond kMaxJsonDepth and for more
/// than kMaxJsonValues values. A byte order mark is skipped.
Json parse_json(std::string_view text);

/// The value as JSON text, without blanks; keys in their order.
std::string dump_json(const Json& value);

}  // namespace inferno::api
