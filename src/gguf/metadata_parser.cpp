#include "gguf/metadata_parser.hpp"

#include <fmt/format.h>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>
#include <xxhash.h>

#include "gguf/limits.hpp"
#include "platform/quote.hpp"

namespace inferno::gguf {
namespace {

constexpr std::string_view kValue = "value";
constexpr std::string_view kElement = "array element";

/// Reads the key and lets messages name it.
std::string read_key(HeaderFields& fields, std::uint64_t index, std::uint64_t entry_count) {
  fields.set_place(fmt::format("metadata entry {} of {}", index + 1, entry_count));
  std::string key = fields.key();
  fields.set_place(fmt::format("metadata key {}", quote(key)));
  return key;
}

/// Keys by hash, with the offset of their length: a file may have many long ones. A match is compared in
/// full.
class SeenKeys {
 public:
  void refuse_duplicate(const HeaderFields& fields, const std::string& key, std::uint64_t offset) {
    const auto [earlier, fresh] = offsets_.emplace(XXH3_64bits(key.data(), key.size()), offset);
    if (fresh) return;
    std::uint64_t length = 0;
    fields.source().read(earlier->second, std::as_writable_bytes(std::span(&length, 1)));
    if (length != key.size()) return;
    std::string other(key.size(), '\0');
    fields.source().read(earlier->second + sizeof length, std::as_writable_bytes(std::span(other)));
    if (other != key) return;
    fields.fail("key", offset, "each key once", fmt::format("it again, first at byte {}", earlier->second));
  }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> offsets_;
};

std::uint32_t read_alignment(HeaderFields& fields, ValueType type) {
  const std::uint64_t at = fields.position();
  if (type != ValueType::u32) {
    fields.fail("value type", at - 4, "u32 (4)",
                fmt::format("{} ({})", value_type_name(type), static_cast<std::uint32_t>(type)));
  }
  const auto found = fields.number<std::uint32_t>(kValue);
  if (!is_alignment(found)) {
    fields.fail(kValue, at, fmt::format("a power of two from {} to {}", kMinAlignment, kMaxAlignment),
                fmt::format("{}", found));
  }
  return found;
}

void skip_array(HeaderFields& fields, std::uint32_t depth) {
  const auto [type, size] = fields.array_start(depth);
  switch (type) {
    case ValueType::string:
      for (std::uint64_t i = 0; i < size; ++i) fields.skip(fields.text_length(kElement));
      break;
    case ValueType::array:
      for (std::uint64_t i = 0; i < size; ++i) skip_array(fields, depth + 1);
      break;
    case ValueType::boolean:
      fields.skip_booleans(kElement, size);
      break;
    default:
      fields.skip(size * value_type_bytes(type));
  }
}

void skip_value(HeaderFields& fields, ValueType type) {
  switch (type) {
    case ValueType::string:
      return fields.skip(fields.text_length(kValue));
    case ValueType::array:
      return skip_array(fields, 1);
    case ValueType::boolean:
      static_cast<void>(fields.boolean(kValue));
      return;
    default:
      fields.skip_number(kValue, value_type_bytes(type));
  }
}

std::string read_text(HeaderFields& fields, std::string_view field) {
  std::string text(fields.text_length(field), '\0');
  fields.read(std::as_writable_bytes(std::span(text)));
  return text;
}

template <typename T>
std::vector<T> read_numbers(HeaderFields& fields, std::uint64_t size) {
  std::vector<T> list(size);
  fields.read(std::as_writable_bytes(std::span(list)));
  return list;
}

Array read_array(HeaderFields& fields, std::uint32_t depth) {
  const auto [type, size] = fields.array_start(depth);
  switch (type) {
    case ValueType::u8:
    case ValueType::boolean:
      return {type, read_numbers<std::uint8_t>(fields, size)};
    case ValueType::i8:
      return {type, read_numbers<std::int8_t>(fields, size)};
    case ValueType::u16:
      return {type, read_numbers<std::uint16_t>(fields, size)};
    case ValueType::i16:
      return {type, read_numbers<std::int16_t>(fields, size)};
    case ValueType::u32:
      return {type, read_numbers<std::uint32_t>(fields, size)};
    case ValueType::i32:
      return {type, read_numbers<std::int32_t>(fields, size)};
    case ValueType::f32:
      return {type, read_numbers<float>(fields, size)};
    case ValueType::u64:
      return {type, read_numbers<std::uint64_t>(fields, size)};
    case ValueType::i64:
      return {type, read_numbers<std::int64_t>(fields, size)};
    case ValueType::f64:
      return {type, read_numbers<double>(fields, size)};
    case ValueType::string: {
      std::vector<std::string> list;
      list.reserve(size);
      for (std::uint64_t i = 0; i < size; ++i) list.push_back(read_text(fields, kElement));
      return {type, std::move(list)};
    }
    case ValueType::array: {
      std::vector<Array> list;
      list.reserve(size);
      for (std::uint64_t i = 0; i < size; ++i) list.push_back(read_array(fields, depth + 1));
      return {type, std::move(list)};
    }
  }
  return {};
}

Value read_value(HeaderFields& fields, ValueType type) {
  const std::uint64_t at = fields.position();
  switch (type) {
    case ValueType::u8:
      return {fields.number<std::uint8_t>(kValue), at};
    case ValueType::i8:
      return {fields.number<std::int8_t>(kValue), at};
    case ValueType::u16:
      return {fields.number<std::uint16_t>(kValue), at};
    case ValueType::i16:
      return {fields.number<std::int16_t>(kValue), at};
    case ValueType::u32:
      return {fields.number<std::uint32_t>(kValue), at};
    case ValueType::i32:
      return {fields.number<std::int32_t>(kValue), at};
    case ValueType::f32:
      return {fields.number<float>(kValue), at};
    case ValueType::u64:
      return {fields.number<std::uint64_t>(kValue), at};
    case ValueType::i64:
      return {fields.number<std::int64_t>(kValue), at};
    case ValueType::f64:
      return {fields.number<double>(kValue), at};
    case ValueType::boolean:
      return {fields.boolean(kValue), at};
    case ValueType::string:
      return {read_text(fields, kValue), at};
    case ValueType::array:
      return {read_array(fields, 1), at};
  }
  return std::uint8_t{0};
}

}  // namespace

std::uint32_t check_metadata(HeaderFields& fields, std::uint64_t entry_count) {
  std::uint32_t alignment = kDefaultAlignment;
  SeenKeys seen;
  for (std::uint64_t index = 0; index < entry_count; ++index) {
    const std::uint64_t at = fields.position();
    const std::string key = read_key(fields, index, entry_count);
    seen.refuse_duplicate(fields, key, at);
    const ValueType type = fields.value_type("value type");
    if (key == kAlignmentKey) {
      alignment = read_alignment(fields, type);
    } else {
      skip_value(fields, type);
    }
  }
  fields.set_place({});
  return alignment;
}

Metadata read_metadata(HeaderFields& fields, std::uint64_t entry_count) {
  Metadata metadata;
  metadata.reserve(entry_count);
  for (std::uint64_t index = 0; index < entry_count; ++index) {
    std::string key = read_key(fields, index, entry_count);
    const ValueType type = fields.value_type("value type");
    metadata.emplace_back(std::move(key), read_value(fields, type));
  }
  fields.set_place({});
  return metadata;
}

}  // namespace inferno::gguf
