#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace inferno::gguf {

/// Metadata value types, numbered as the file stores them.
enum class ValueType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

inline constexpr std::uint32_t kValueTypes = 13;

/// "u32", "array", ...; "unknown" for a number that is no type.
std::string_view value_type_name(ValueType type);

/// Bytes of one number or boolean in the file; 0 for strings and arrays, whose lengths stand before them.
std::size_t value_type_bytes(ValueType type);

/// Bytes of one element of an array in memory, texts and nested elements not counted.
std::size_t element_bytes(ValueType type);

/// An array, stored flat by element type so that its memory is in proportion to its bytes in the file.
/// Booleans are stored as bytes.
struct Array {
  ValueType element_type = ValueType::u8;
  std::variant<std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::uint16_t>,
               std::vector<std::int16_t>, std::vector<std::uint32_t>, std::vector<std::int32_t>,
               std::vector<float>, std::vector<std::string>, std::vector<Array>, std::vector<std::uint64_t>,
               std::vector<std::int64_t>, std::vector<double>>
      elements;

  std::size_t size() const {
    return std::visit([](const auto& list) { return list.size(); }, elements);
  }
  bool operator==(const Array& other) const;
};

/// One metadata value, and where it stands in its file.
class Value {
 public:
  using Storage =
      std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t, float,
                   bool, std::string, Array, std::uint64_t, std::int64_t, double>;

  template <typename T>
    requires std::constructible_from<Storage, T>
  // NOLINTNEXTLINE(google-explicit-constructor): a value is a value
  Value(T value, std::optional<std::uint64_t> offset = std::nullopt)
      : storage_(std::move(value)), offset_(offset) {}

  /// Alternatives stand in the order of ValueType.
  ValueType type() const { return static_cast<ValueType>(storage_.index()); }
  const Storage& storage() const { return storage_; }
  /// The byte of the file at which it starts (a string or an array: its length or element type); nothing for
  /// a value that was made in memory.
  std::optional<std::uint64_t> offset() const { return offset_; }

  /// Any integer type holding a value >= 0.
  std::optional<std::uint64_t> as_unsigned() const;
  /// Any integer type whose value fits.
  std::optional<std::int64_t> as_signed() const;
  /// Any number.
  std::optional<double> as_number() const;
  std::optional<bool> as_bool() const;
  const std::string* as_string() const { return std::get_if<std::string>(&storage_); }
  const Array* as_array() const { return std::get_if<Array>(&storage_); }

 private:
  Storage storage_;
  std::optional<std::uint64_t> offset_;
};

/// Whether two values say the same, wherever they stand: integers of different types do if they are equal.
bool say_the_same(const Value& a, const Value& b);

/// Key and value, in file order.
using Metadata = std::vector<std::pair<std::string, Value>>;

}  // namespace inferno::gguf
