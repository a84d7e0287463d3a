#include "gguf/writer.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <span>
#include <type_traits>
#include <unordered_set>

#include <inferno/error.hpp>

#include "gguf/limits.hpp"
#include "platform/atomic_file.hpp"
#include "platform/quote.hpp"

namespace inferno::gguf {
namespace {

/// Bytes of a row-wise buffer between two calls of Fill, so that files larger than memory can be written.
constexpr std::uint64_t kChunkBytes = 4U << 20U;

/// The header as it grows. A string, because GCC 12 sees an overflow where a vector of bytes grows.
class Bytes {
 public:
  template <typename T>
  void number(T value) {
    append(std::as_bytes(std::span(&value, 1)));
  }
  void text(std::string_view value) {
    number(static_cast<std::uint64_t>(value.size()));
    bytes_ += value;
  }
  void append(std::span<const std::byte> bytes) {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void pad(std::uint64_t alignment) { bytes_.resize(align_up(bytes_.size(), alignment)); }
  std::span<const std::byte> get() const { return std::as_bytes(std::span(bytes_)); }

  /// What the reader will count: it refuses more.
  MetadataBudget& budget() { return budget_; }

 private:
  std::string bytes_;
  MetadataBudget budget_;
};

void take_bytes(Bytes& out, std::uint64_t bytes, std::string_view key) {
  if (out.budget().take_bytes(bytes)) return;
  throw Error(
      fmt::format("metadata key {}: expected at most {} bytes of memory for all keys and values, found more",
                  quote(key), kMaxValueBytes));
}

void write_text(Bytes& out, std::string_view text, std::string_view key) {
  take_bytes(out, MetadataBudget::text_bytes(text.size()), key);
  out.text(text);
}

/// The place of an element type's list among the alternatives of Array::elements.
std::size_t list_index(ValueType type) {
  const auto index = static_cast<std::size_t>(type);
  if (type == ValueType::boolean) return 0;  // stored as bytes
  return index < static_cast<std::size_t>(ValueType::boolean) ? index : index - 1;
}

void write_array(Bytes& out, const Array& array, std::string_view key, std::uint32_t depth) {
  if (static_cast<std::uint32_t>(array.element_type) >= kValueTypes ||
      array.elements.index() != list_index(array.element_type)) {
    throw Error(fmt::format("metadata key {}: expected a list of its element type {}, found another",
                            quote(key), value_type_name(array.element_type)));
  }
  if (depth > kMaxArrayDepth) {
    throw Error(fmt::format("metadata key {}: expected arrays nested at most {} deep, found more", quote(key),
                            kMaxArrayDepth));
  }
  if (!out.budget().take_elements(array.size())) {
    throw Error(fmt::format("metadata key {}: expected at most {} elements in all arrays, found more",
                            quote(key), kMaxElements));
  }
  take_bytes(out, MetadataBudget::array_bytes(array.size(), element_bytes(array.element_type)), key);
  out.number(static_cast<std::uint32_t>(array.element_type));
  out.number(static_cast<std::uint64_t>(array.size()));
  std::visit(
      [&](const auto& list) {
        using T = typename std::decay_t<decltype(list)>::value_type;
        if constexpr (std::is_same_v<T, std::string>) {
          for (const std::string& text : list) write_text(out, text, key);
        } else if constexpr (std::is_same_v<T, Array>) {
          for (const Array& element : list) write_array(out, element, key, depth + 1);
        } else {
          out.append(std::as_bytes(std::span(list)));
        }
      },
      array.elements);
  if (array.element_type == ValueType::boolean) {
    const auto& list = std::get<std::vector<std::uint8_t>>(array.elements);
    if (std::any_of(list.begin(), list.end(), [](std::uint8_t element) { return element > 1; })) {
      throw Error(
          fmt::format("metadata key {}: expected booleans of 0 or 1, found another byte", quote(key)));
    }
  }
}

void write_entry(Bytes& out, const std::string& key, const Value& value) {
  take_bytes(out, MetadataBudget::kEntryBytes, key);
  write_text(out, key, key);
  out.number(static_cast<std::uint32_t>(value.type()));
  std::visit(
      [&](const auto& stored) {
        using T = std::decay_t<decltype(stored)>;
        if constexpr (std::is_same_v<T, std::string>) {
          write_text(out, stored, key);
        } else if constexpr (std::is_same_v<T, Array>) {
          write_array(out, stored, key, 1);
        } else if constexpr (std::is_same_v<T, bool>) {
          out.number(static_cast<std::uint8_t>(stored ? 1 : 0));
        } else {
          out.number(stored);
        }
      },
      value.storage());
}

std::uint64_t row_bytes(const quant::Format& format, const std::vector<std::uint64_t>& shape) {
  return shape[0] / format.block_elements * format.block_bytes;
}

std::uint64_t row_count(const std::vector<std::uint64_t>& shape) {
  std::uint64_t rows = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) rows *= shape[i];
  return rows;
}

void check_shape(const std::string& name, const quant::Format& format,
                 const std::vector<std::uint64_t>& shape) {
  const auto fail = [&](const std::string& expected, const std::string& found) {
    throw Error(fmt::format("tensor {}: expected {}, found {}", quote(name), expected, found));
  };
  if (name.empty() || name.size() > kMaxTensorName) {
    fail(fmt::format("a name of 1 to {} bytes", kMaxTensorName), fmt::format("{}", name.size()));
  }
  if (shape.empty() || shape.size() > kMaxDimensions) {
    fail(fmt::format("1 to {} dimensions", kMaxDimensions), fmt::format("{}", shape.size()));
  }
  std::uint64_t elements = 1;
  constexpr std::uint64_t kMaxElements = std::numeric_limits<std::int64_t>::max() / 64;
  for (const std::uint64_t dimension : shape) {
    if (dimension == 0 || dimension > kMaxElements / elements) {
      fail(fmt::format("dimensions of at least 1 and at most {} elements in all", kMaxElements),
           fmt::format("a dimension of {}", dimension));
    }
    elements *= dimension;
  }
  if (shape[0] % format.block_elements != 0) {
    fail(fmt::format("a first dimension that is a multiple of {} (a block of {})", format.block_elements,
                     format.name),
         fmt::format("{}", shape[0]));
  }
}

}  // namespace

void Writer::add(std::string key, Value value) {
  metadata_.emplace_back(std::move(key), std::move(value));
}

void Writer::add_tensor(std::string name, quant::TensorType type, std::vector<std::uint64_t> shape,
                        Fill fill) {
  const quant::Format& format = quant::format_of(type);
  check_shape(name, format, shape);
  tensors_.push_back({std::move(name), &format, std::move(shape), std::move(fill)});
}

void Writer::add_tensor(std::string name, quant::TensorType type, std::vector<std::uint64_t> shape,
                        std::span<const std::byte> bytes) {
  const quant::Format& format = quant::format_of(type);
  check_shape(name, format, shape);
  const std::uint64_t row = row_bytes(format, shape);
  if (bytes.size() != row * row_count(shape)) {
    throw Error(fmt::format("tensor {}: expected {} bytes, found {}", quote(name), row * row_count(shape),
                            bytes.size()));
  }
  tensors_.push_back({std::move(name), &format, std::move(shape),
                      [bytes, row](std::uint64_t first_row, std::span<std::byte> target) {
                        std::memcpy(target.data(), bytes.data() + first_row * row, target.size());
                      }});
}

void Writer::write(const std::filesystem::path& path, const Progress& progress) const {
  if (!is_alignment(alignment_)) {
    throw Error(fmt::format("alignment: expected a power of two from {} to {}, found {}", kMinAlignment,
                            kMaxAlignment, alignment_));
  }
  std::unordered_set<std::string_view> names;
  bool names_alignment = false;
  for (const auto& [key, value] : metadata_) {
    if (key.empty() || key.size() > kMaxKeyBytes) {
      throw Error(fmt::format("metadata key {}: expected 1 to {} bytes, found {}", quote(key), kMaxKeyBytes,
                              key.size()));
    }
    if (!names.insert(key).second)
      throw Error(fmt::format("metadata key {}: expected each key once, found it again", quote(key)));
    if (key == kAlignmentKey) {
      names_alignment = true;
      if (value.type() != ValueType::u32 || value.as_unsigned() != alignment_) {
        throw Error(fmt::format(
            "metadata key \"{}\": expected the u32 {} that the writer was made with, found another value",
            key, alignment_));
      }
    }
  }
  if (metadata_.size() >= kMaxEntries || tensors_.size() > kMaxTensors) {
    throw Error(
        fmt::format("{}: expected less than {} metadata entries and at most {} tensors, found {} and {}",
                    quote(path.native()), kMaxEntries, kMaxTensors, metadata_.size(), tensors_.size()));
  }
  const bool adds_alignment = !names_alignment && alignment_ != kDefaultAlignment;

  Bytes header;
  header.append(std::as_bytes(std::span("GGUF", 4)));
  header.number(std::uint32_t{3});
  header.number(static_cast<std::uint64_t>(tensors_.size()));
  header.number(static_cast<std::uint64_t>(metadata_.size() + (adds_alignment ? 1 : 0)));
  if (adds_alignment) write_entry(header, kAlignmentKey, Value(alignment_));
  for (const auto& [key, value] : metadata_) write_entry(header, key, value);
  names.clear();
  std::uint64_t data_bytes = 0;
  for (const Tensor& tensor : tensors_) {
    if (!names.insert(tensor.name).second) {
      throw Error(fmt::format("tensor {}: expected each tensor once, found it again", quote(tensor.name)));
    }
    header.text(tensor.name);
    header.number(static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::uint64_t dimension : tensor.shape) header.number(dimension);
    header.number(static_cast<std::uint32_t>(tensor.format->type));
    header.number(data_bytes);
    constexpr std::uint64_t kMaxDataBytes = std::uint64_t{1}
                                            << 62U;  // a tensor has at most 2^59: no sum wraps
    if (data_bytes > kMaxDataBytes) {
      throw Error(fmt::format("tensor {}: expected at most {} bytes before it, found {}", quote(tensor.name),
                              kMaxDataBytes, data_bytes));
    }
    data_bytes =
        align_up(data_bytes + row_bytes(*tensor.format, tensor.shape) * row_count(tensor.shape), alignment_);
  }
  header.pad(alignment_);

  AtomicFile file(path);
  const std::uint64_t total = header.get().size() + data_bytes;
  std::uint64_t written = 0;
  const auto put = [&](std::span<const std::byte> bytes) {
    file.write(bytes);
    written += bytes.size();
    if (progress) progress(written, total);
  };
  put(header.get());
  std::vector<std::byte> buffer;
  for (const Tensor& tensor : tensors_) {
    const std::uint64_t row = row_bytes(*tensor.format, tensor.shape);
    const std::uint64_t rows = row_count(tensor.shape);
    const std::uint64_t chunk = std::clamp<std::uint64_t>(kChunkBytes / row, 1, rows);
    for (std::uint64_t first = 0; first < rows; first += chunk) {
      buffer.assign(std::min(chunk, rows - first) * row, std::byte{0});
      tensor.fill(first, buffer);
      put(buffer);
    }
    buffer.assign(align_up(written, alignment_) - written, std::byte{0});
    put(buffer);
  }
  file.commit();
}

}  // namespace inferno::gguf
