#include "gguf/value.hpp"

#include <array>
#include <limits>
#include <type_traits>

namespace inferno::gguf {
namespace {

struct TypeEntry {
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<TypeEntry, kValueTypes> kTypes{{{"u8", 1},
                                                     {"i8", 1},
                                                     {"u16", 2},
                                                     {"i16", 2},
                                                     {"u32", 4},
                                                     {"i32", 4},
                                                     {"f32", 4},
                                                     {"bool", 1},
                                                     {"string", 0},
                                                     {"array", 0},
                                                     {"u64", 8},
                                                     {"i64", 8},
                                                     {"f64", 8}}};

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

}  // namespace

std::string_view value_type_name(ValueType type) {
  const auto index = static_cast<std::uint32_t>(type);
  return index < kValueTypes ? kTypes[index].name : "unknown";
}

std::size_t value_type_bytes(ValueType type) {
  const auto index = static_cast<std::uint32_t>(type);
  return index < kValueTypes ? kTypes[index].bytes : 0;
}

std::size_t element_bytes(ValueType type) {
  if (type == ValueType::string) return sizeof(std::string);
  if (type == ValueType::array) return sizeof(Array);
  return value_type_bytes(type);
}

bool Array::operator==(const Array& other) const {
  return element_type == other.element_type && elements == other.elements;
}

bool say_the_same(const Value& a, const Value& b) {
  if (a.as_unsigned() && a.as_unsigned() == b.as_unsigned()) return true;
  if (a.as_signed() && a.as_signed() == b.as_signed()) return true;
  return a.storage() == b.storage();
}

std::optional<std::uint64_t> Value::as_unsigned() const {
  return std::visit(
      [](const auto& value) -> std::optional<std::uint64_t> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (kIsInteger<T>) {
          if (value >= T{0}) return static_cast<std::uint64_t>(value);
        }
        return std::nullopt;
      },
      storage_);
}

std::optional<std::int64_t> Value::as_signed() const {
  return std::visit(
      [](const auto& value) -> std::optional<std::int64_t> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::uint64_t>) {
          if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            return std::nullopt;
        }
        if constexpr (kIsInteger<T>) return static_cast<std::int64_t>(value);
        return std::nullopt;
      },
      storage_);
}

std::optional<double> Value::as_number() const {
  return std::visit(
      [](const auto& value) -> std::optional<double> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (kIsInteger<T> || std::is_floating_point_v<T>) return static_cast<double>(value);
        return std::nullopt;
      },
      storage_);
}

std::optional<bool> Value::as_bool() const {
  const bool* value = std::get_if<bool>(&storage_);
  return value == nullptr ? std::nullopt : std::optional<bool>(*value);
}

}  // namespace inferno::gguf
