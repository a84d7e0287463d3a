#include "gguf/header.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <xxhash.h>

#include <inferno/error.hpp>

#include "gguf/diagnosis.hpp"
#include "gguf/limits.hpp"
#include "platform/quote.hpp"

namespace inferno::gguf {
namespace {

// The fewest bytes an entry can take; a count that needs more than the file has is refused unread.
constexpr std::uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;  // key of one byte, type, one-byte value
constexpr std::uint64_t kMinTensorBytes =
    8 + 1 + 4 + 8 + 4 + 8;  // name of one byte, one dimension, type, offset
constexpr std::uint64_t kMinStringBytes = 8;
constexpr std::uint64_t kMinArrayBytes = 4 + 8;

class HeaderParser {
 public:
  HeaderParser(const ByteSource& source, std::string_view file_name)
      : source_(source), cursor_(source), file_name_(file_name) {}

  Header parse();

 private:
  [[noreturn]] void fail(std::string_view field, std::uint64_t offset, std::string_view expected,
                         std::string_view found) const;
  void require(std::string_view field, std::uint64_t bytes) const;
  template <typename T>
  T number(std::string_view field) {
    require(field, sizeof(T));
    return cursor_.number<T>();
  }
  std::uint64_t count(std::string_view field, std::uint64_t limit, std::uint64_t min_bytes);
  std::uint64_t string_length(std::string_view field, std::uint64_t limit);
  std::string name(std::string_view field, std::uint64_t limit);
  ValueType value_type(std::string_view field);
  void check_booleans(std::string_view field, std::uint64_t size);

  void entries(std::uint64_t entry_count, Metadata* out);
  void value(ValueType type, Value* out);
  void array(std::uint32_t depth, Array* out);
  void array_of_strings(std::uint64_t size, Array* out);
  void array_of_arrays(std::uint64_t size, std::uint32_t depth, Array* out);
  template <typename T>
  void array_of_numbers(std::uint64_t size, Array* out);
  void read_alignment(ValueType type);
  void refuse_duplicate_key(const std::string& key, std::uint64_t offset);

  void tensors(std::uint64_t tensor_count);
  TensorInfo tensor(std::uint64_t& offset_field);
  void check_data(const std::vector<std::uint64_t>& offset_fields);

  const ByteSource& source_;
  Cursor cursor_;
  std::string_view file_name_;
  Header header_;
  std::string place_;  ///< the entry or tensor at hand, for messages
  std::uint64_t nested_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> keys_;  ///< hash of a key to the offset of its length
};

void HeaderParser::fail(std::string_view field, std::uint64_t offset, std::string_view expected,
                        std::string_view found) const {
  throw Error(fmt::format("{}: {}{}{}: expected {} at byte {}, found {}", file_name_, place_,
                          place_.empty() ? "" : ": ", field, expected, offset, found));
}

void HeaderParser::require(std::string_view field, std::uint64_t bytes) const {
  if (cursor_.remaining() >= bytes) return;
  fail(field, cursor_.position(), fmt::format("{} bytes", bytes),
       fmt::format("the end of the file after {} bytes; it is cut off", cursor_.remaining()));
}

std::uint64_t HeaderParser::count(std::string_view field, std::uint64_t limit, std::uint64_t min_bytes) {
  const std::uint64_t at = cursor_.position();
  const auto found = number<std::uint64_t>(field);
  if (found > limit) fail(field, at, fmt::format("at most {}", limit), fmt::format("{}", found));
  if (found > cursor_.remaining() / min_bytes) {
    fail(field, at,
         fmt::format("at most {} in the {} bytes that follow", cursor_.remaining() / min_bytes,
                     cursor_.remaining()),
         fmt::format("{}; the file is cut off or damaged", found));
  }
  return found;
}

std::uint64_t HeaderParser::string_length(std::string_view field, std::uint64_t limit) {
  const std::uint64_t at = cursor_.position();
  const auto length = number<std::uint64_t>(field);
  if (length > limit)
    fail(field, at, fmt::format("a length of at most {}", limit), fmt::format("{}", length));
  if (length > cursor_.remaining()) {
    fail(field, at, fmt::format("a length of at most {} (the bytes that follow)", cursor_.remaining()),
         fmt::format("{}; the file is cut off or damaged", length));
  }
  return length;
}

std::string HeaderParser::name(std::string_view field, std::uint64_t limit) {
  const std::uint64_t at = cursor_.position();
  std::string result(string_length(field, limit), '\0');
  if (result.empty()) fail(field, at, "at least one byte", "an empty string");
  cursor_.read(std::as_writable_bytes(std::span(result)));
  return result;
}

ValueType HeaderParser::value_type(std::string_view field) {
  const std::uint64_t at = cursor_.position();
  const auto found = number<std::uint32_t>(field);
  if (found >= kValueTypes) {
    fail(field, at, fmt::format("a value type from 0 to {}", kValueTypes - 1), fmt::format("{}", found));
  }
  return static_cast<ValueType>(found);
}

/// In pieces, because a gigabyte of booleans is to be refused within a second, too.
void HeaderParser::check_booleans(std::string_view field, std::uint64_t size) {
  std::array<std::uint8_t, 4096> piece{};
  while (size != 0) {
    const std::uint64_t at = cursor_.position();
    const auto found =
        std::span(piece).first(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), size)));
    require(field, found.size());
    cursor_.read(std::as_writable_bytes(found));
    const auto bad = std::find_if(found.begin(), found.end(), [](std::uint8_t byte) { return byte > 1; });
    if (bad != found.end()) {
      fail(field, at + static_cast<std::uint64_t>(bad - found.begin()), "a boolean of 0 or 1",
           fmt::format("{}", *bad));
    }
    size -= found.size();
  }
}

Header HeaderParser::parse() {
  if (const std::string problem = diagnose_start(source_); !problem.empty()) {
    throw Error(fmt::format("{}: {}", file_name_, problem));
  }
  cursor_.seek(4);
  header_.version = number<std::uint32_t>("version");
  header_.alignment = kDefaultAlignment;
  const std::uint64_t tensor_count = count("tensor count", kMaxTensors, kMinTensorBytes);
  const std::uint64_t entry_count = count("metadata entry count", kMaxEntries, kMinEntryBytes);

  const std::uint64_t metadata_start = cursor_.position();
  entries(entry_count, nullptr);
  tensors(tensor_count);

  // Everything has been checked: now the values may take memory.
  cursor_.seek(metadata_start);
  nested_ = 0;
  header_.metadata.reserve(entry_count);
  entries(entry_count, &header_.metadata);
  return std::move(header_);
}

void HeaderParser::entries(std::uint64_t entry_count, Metadata* out) {
  for (std::uint64_t index = 0; index < entry_count; ++index) {
    place_ = fmt::format("metadata entry {} of {}", index + 1, entry_count);
    const std::uint64_t at = cursor_.position();
    std::string key = name("key", kMaxKeyBytes);
    place_ = fmt::format("metadata key {}", quote(key));
    if (out == nullptr) refuse_duplicate_key(key, at);
    const ValueType type = value_type("value type");
    if (out == nullptr) {
      if (key == kAlignmentKey) {
        read_alignment(type);
      } else {
        value(type, nullptr);
      }
    } else {
      Value read{std::uint8_t{0}};
      value(type, &read);
      out->emplace_back(std::move(key), std::move(read));
    }
  }
  place_.clear();
}

void HeaderParser::refuse_duplicate_key(const std::string& key, std::uint64_t offset) {
  // Keys are kept as hashes: a file may have 65,536 keys of 64 KiB each. A match is compared in full.
  const auto [earlier, fresh] = keys_.emplace(XXH3_64bits(key.data(), key.size()), offset);
  if (fresh) return;
  std::uint64_t length = 0;
  source_.read(earlier->second, std::as_writable_bytes(std::span(&length, 1)));
  if (length != key.size()) return;
  std::string other(key.size(), '\0');
  source_.read(earlier->second + sizeof length, std::as_writable_bytes(std::span(other)));
  if (other == key)
    fail("key", offset, "each key once", fmt::format("it again, first at byte {}", earlier->second));
}

void HeaderParser::read_alignment(ValueType type) {
  const std::uint64_t at = cursor_.position();
  if (type != ValueType::u32)
    fail("value type", at - 4, "u32 (4)",
         fmt::format("{} ({})", value_type_name(type), static_cast<std::uint32_t>(type)));
  const auto found = number<std::uint32_t>("value");
  if (!is_alignment(found)) {
    fail("value", at, fmt::format("a power of two from {} to {}", kMinAlignment, kMaxAlignment),
         fmt::format("{}", found));
  }
  header_.alignment = found;
}

void HeaderParser::value(ValueType type, Value* out) {
  const auto scalar = [&]<typename T>(T) {
    const T found = number<T>("value");
    if (out != nullptr) *out = Value(found);
  };
  switch (type) {
    case ValueType::u8:
      return scalar(std::uint8_t{});
    case ValueType::i8:
      return scalar(std::int8_t{});
    case ValueType::u16:
      return scalar(std::uint16_t{});
    case ValueType::i16:
      return scalar(std::int16_t{});
    case ValueType::u32:
      return scalar(std::uint32_t{});
    case ValueType::i32:
      return scalar(std::int32_t{});
    case ValueType::f32:
      return scalar(float{});
    case ValueType::u64:
      return scalar(std::uint64_t{});
    case ValueType::i64:
      return scalar(std::int64_t{});
    case ValueType::f64:
      return scalar(double{});
    case ValueType::boolean: {
      if (out == nullptr) return check_booleans("value", 1);
      *out = Value(number<std::uint8_t>("value") != 0);
      return;
    }
    case ValueType::string: {
      const std::uint64_t length = string_length("value", std::numeric_limits<std::uint64_t>::max());
      if (out == nullptr) return cursor_.skip(length);
      std::string text(length, '\0');
      cursor_.read(std::as_writable_bytes(std::span(text)));
      *out = Value(std::move(text));
      return;
    }
    case ValueType::array: {
      if (out == nullptr) return array(1, nullptr);
      Array list;
      array(1, &list);
      *out = Value(std::move(list));
      return;
    }
  }
}

void HeaderParser::array(std::uint32_t depth, Array* out) {
  if (depth > kMaxArrayDepth) {
    fail("value", cursor_.position(), fmt::format("arrays nested at most {} deep", kMaxArrayDepth),
         "one more level");
  }
  const ValueType type = value_type("array element type");
  const std::uint64_t at = cursor_.position();
  const auto size = number<std::uint64_t>("array length");
  const std::uint64_t min_bytes = type == ValueType::string  ? kMinStringBytes
                                  : type == ValueType::array ? kMinArrayBytes
                                                             : value_type_bytes(type);
  if (size > cursor_.remaining() / min_bytes) {
    fail("array length", at,
         fmt::format("at most {} elements of type {} in the {} bytes that follow",
                     cursor_.remaining() / min_bytes, value_type_name(type), cursor_.remaining()),
         fmt::format("{}; the file is cut off or damaged", size));
  }
  if (type == ValueType::string || type == ValueType::array) {
    if (size > kMaxStrings - nested_) {
      fail("array length", at,
           fmt::format("at most {} strings and arrays in all arrays of the file", kMaxStrings),
           fmt::format("{} after {} others", size, nested_));
    }
    nested_ += size;
  }
  if (out != nullptr) out->element_type = type;
  switch (type) {
    case ValueType::u8:
      return array_of_numbers<std::uint8_t>(size, out);
    case ValueType::i8:
      return array_of_numbers<std::int8_t>(size, out);
    case ValueType::u16:
      return array_of_numbers<std::uint16_t>(size, out);
    case ValueType::i16:
      return array_of_numbers<std::int16_t>(size, out);
    case ValueType::u32:
      return array_of_numbers<std::uint32_t>(size, out);
    case ValueType::i32:
      return array_of_numbers<std::int32_t>(size, out);
    case ValueType::f32:
      return array_of_numbers<float>(size, out);
    case ValueType::u64:
      return array_of_numbers<std::uint64_t>(size, out);
    case ValueType::i64:
      return array_of_numbers<std::int64_t>(size, out);
    case ValueType::f64:
      return array_of_numbers<double>(size, out);
    case ValueType::boolean:
      if (out != nullptr) return array_of_numbers<std::uint8_t>(size, out);
      return check_booleans("array element", size);
    case ValueType::string:
      return array_of_strings(size, out);
    case ValueType::array:
      return array_of_arrays(size, depth, out);
  }
}

template <typename T>
void HeaderParser::array_of_numbers(std::uint64_t size, Array* out) {
  if (out == nullptr) return cursor_.skip(size * sizeof(T));
  std::vector<T> list(size);
  cursor_.read(std::as_writable_bytes(std::span(list)));
  out->elements = std::move(list);
}

void HeaderParser::array_of_strings(std::uint64_t size, Array* out) {
  constexpr std::uint64_t kAnyLength = std::numeric_limits<std::uint64_t>::max();
  if (out == nullptr) {
    for (std::uint64_t i = 0; i < size; ++i) cursor_.skip(string_length("array element", kAnyLength));
    return;
  }
  std::vector<std::string> list;
  list.reserve(size);
  for (std::uint64_t i = 0; i < size; ++i) {
    std::string& text = list.emplace_back(string_length("array element", kAnyLength), '\0');
    cursor_.read(std::as_writable_bytes(std::span(text)));
  }
  out->elements = std::move(list);
}

void HeaderParser::array_of_arrays(std::uint64_t size, std::uint32_t depth, Array* out) {
  if (out == nullptr) {
    for (std::uint64_t i = 0; i < size; ++i) array(depth + 1, nullptr);
    return;
  }
  std::vector<Array> list(size);
  for (Array& element : list) array(depth + 1, &element);
  out->elements = std::move(list);
}

void HeaderParser::tensors(std::uint64_t tensor_count) {
  std::vector<std::uint64_t> offset_fields(tensor_count);
  header_.tensors.reserve(tensor_count);
  std::unordered_map<std::string_view, std::uint64_t> names;
  for (std::uint64_t index = 0; index < tensor_count; ++index) {
    place_ = fmt::format("tensor {} of {}", index + 1, tensor_count);
    const std::uint64_t at = cursor_.position();
    header_.tensors.push_back(tensor(offset_fields[index]));
    const auto [earlier, fresh] = names.emplace(header_.tensors.back().name, index);
    if (!fresh) {
      fail("name", at, "each tensor once", fmt::format("it again, first as tensor {}", earlier->second + 1));
    }
  }
  place_.clear();
  header_.data_start = align_up(cursor_.position(), header_.alignment);
  header_.data_end = cursor_.position();
  check_data(offset_fields);
}

TensorInfo HeaderParser::tensor(std::uint64_t& offset_field) {
  TensorInfo info;
  info.name = name("name", kMaxTensorName);
  place_ = fmt::format("tensor {}", quote(info.name));

  std::uint64_t at = cursor_.position();
  const auto dimensions = number<std::uint32_t>("dimension count");
  if (dimensions == 0 || dimensions > kMaxDimensions) {
    fail("dimension count", at, fmt::format("1 to {}", kMaxDimensions), fmt::format("{}", dimensions));
  }
  const std::uint64_t shape_at = cursor_.position();
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    at = cursor_.position();
    const auto dimension = number<std::uint64_t>("dimension");
    if (dimension == 0) fail(fmt::format("dimension {}", i), at, "at least 1", "0");
    constexpr std::uint64_t kMaxElements = std::numeric_limits<std::int64_t>::max();
    if (dimension > kMaxElements / elements) {
      fail(fmt::format("dimension {}", i), at, fmt::format("at most {} elements in all", kMaxElements),
           fmt::format("{} times {}", dimension, elements));
    }
    elements *= dimension;
    info.shape.push_back(dimension);
  }

  at = cursor_.position();
  const auto type_id = number<std::uint32_t>("type");
  info.format = quant::find_format(type_id);
  if (info.format == nullptr) {
    fail("type", at, fmt::format("one of {}", quant::accepted_formats()),
         fmt::format("{}; convert the model to one of these", describe_type_id(type_id)));
  }
  if (info.shape[0] % info.format->block_elements != 0) {
    fail("dimension 0", shape_at,
         fmt::format("a multiple of {} (a block of {})", info.format->block_elements, info.format->name),
         fmt::format("{}", info.shape[0]));
  }
  const std::uint64_t blocks = elements / info.format->block_elements;
  if (blocks > std::numeric_limits<std::uint64_t>::max() / info.format->block_bytes) {
    fail("shape", shape_at, "a size in bytes that fits 64 bits", fmt::format("{} elements", elements));
  }
  info.bytes = blocks * info.format->block_bytes;

  offset_field = cursor_.position();
  info.offset = number<std::uint64_t>("offset");
  if (info.offset % header_.alignment != 0) {
    fail("offset", offset_field, fmt::format("a multiple of the alignment {}", header_.alignment),
         fmt::format("{}", info.offset));
  }
  return info;
}

/// Ranges are checked against the file's size first, so no sum below can wrap.
void HeaderParser::check_data(const std::vector<std::uint64_t>& offset_fields) {
  const std::uint64_t size = source_.size();
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) {
    const TensorInfo& info = header_.tensors[i];
    place_ = fmt::format("tensor {}", quote(info.name));
    const std::uint64_t available = size > header_.data_start ? size - header_.data_start : 0;
    if (info.bytes > available || info.offset > available - info.bytes) {
      fail("data", offset_fields[i],
           fmt::format("{} bytes of data at offset {} after byte {}, as declared", info.bytes, info.offset,
                       header_.data_start),
           fmt::format("a file of {} bytes with {} bytes in its data section; it is cut off or damaged, "
                       "fetch it again",
                       size, available));
    }
    if (i > 0) {
      const TensorInfo& previous = header_.tensors[i - 1];
      if (info.offset < previous.offset + previous.bytes) {
        const bool overlaps = info.offset + info.bytes > previous.offset;
        fail("offset", offset_fields[i],
             fmt::format("at least {}, the end of tensor {} before it (tensors stand in ascending order)",
                         previous.offset + previous.bytes, quote(previous.name)),
             fmt::format("{}, {}", info.offset,
                         overlaps ? "which overlaps that tensor" : "a descending offset"));
      }
    }
    header_.data_end = header_.data_start + info.offset + info.bytes;
  }
  place_.clear();
}

}  // namespace

Header parse_header(const ByteSource& source, std::string_view file_name) {
  return HeaderParser(source, file_name).parse();
}

const Value* find_value(const Metadata& metadata, std::string_view key) {
  for (const auto& [name, value] : metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

}  // namespace inferno::gguf
