#include "gguf/tensor_table.hpp"

#include <fmt/format.h>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gguf/limits.hpp"
#include "platform/quote.hpp"

namespace inferno::gguf {
namespace {

/// Dimensions into `info`; returns how many elements they make.
std::uint64_t read_shape(HeaderFields& fields, TensorInfo& info) {
  std::uint64_t at = fields.position();
  const auto dimensions = fields.number<std::uint32_t>("dimension count");
  if (dimensions == 0 || dimensions > kMaxDimensions) {
    fields.fail("dimension count", at, fmt::format("1 to {}", kMaxDimensions), fmt::format("{}", dimensions));
  }
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    at = fields.position();
    const auto dimension = fields.number<std::uint64_t>("dimension");
    if (dimension == 0) fields.fail(fmt::format("dimension {}", i), at, "at least 1", "0");
    constexpr std::uint64_t kMaxTensorElements = std::numeric_limits<std::int64_t>::max();
    if (dimension > kMaxTensorElements / elements) {
      fields.fail(fmt::format("dimension {}", i), at,
                  fmt::format("at most {} elements in all", kMaxTensorElements),
                  fmt::format("{} times {}", dimension, elements));
    }
    elements *= dimension;
    info.shape.push_back(dimension);
  }
  return elements;
}

const quant::TensorLayout* read_type(HeaderFields& fields) {
  const std::uint64_t at = fields.position();
  const auto type_id = fields.number<std::uint32_t>("type");
  const auto* layout = quant::find_layout(type_id);
  if (layout != nullptr) return layout;
  fields.fail("type", at,
              fmt::format("a tensor type that is known, up to {}; inferno runs {}",
                          quant::tensor_layouts().back().type_id, quant::accepted_formats()),
              fmt::format("{}", type_id));
}

/// Sets `offset_field` to where the entry's offset stands.
TensorInfo read_tensor(HeaderFields& fields, std::uint64_t alignment, std::uint64_t& offset_field) {
  TensorInfo info;
  info.declared_at = fields.position();
  info.name = fields.name("name", kMaxTensorName);
  fields.set_place(fmt::format("tensor {}", quote(info.name)));
  const std::uint64_t shape_at = fields.position() + 4;
  const std::uint64_t elements = read_shape(fields, info);
  info.layout = read_type(fields);
  info.format = quant::find_format(info.layout->type_id);
  if (info.shape[0] % info.layout->block_elements != 0) {
    fields.fail(
        "dimension 0", shape_at,
        fmt::format("a multiple of {} (a block of {})", info.layout->block_elements, info.layout->name),
        fmt::format("{}", info.shape[0]));
  }
  const std::uint64_t blocks = elements / info.layout->block_elements;
  if (blocks > std::numeric_limits<std::uint64_t>::max() / info.layout->block_bytes) {
    fields.fail("shape", shape_at, "a size in bytes that fits 64 bits", fmt::format("{} elements", elements));
  }
  info.bytes = blocks * info.layout->block_bytes;

  offset_field = fields.position();
  info.offset = fields.number<std::uint64_t>("offset");
  if (info.offset % alignment != 0) {
    fields.fail("offset", offset_field, fmt::format("a multiple of the alignment {}", alignment),
                fmt::format("{}", info.offset));
  }
  return info;
}

/// Ranges are checked against the file's size first, so no sum below can wrap.
void check_data(HeaderFields& fields, Header& header, const std::vector<std::uint64_t>& offset_fields) {
  const std::uint64_t size = fields.source().size();
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    const TensorInfo& info = header.tensors[i];
    fields.set_place(fmt::format("tensor {}", quote(info.name)));
    const std::uint64_t available = size > header.data_start ? size - header.data_start : 0;
    if (info.bytes > available || info.offset > available - info.bytes) {
      fields.fail(
          "data", offset_fields[i],
          fmt::format("{} bytes of data at offset {} after byte {}, as declared", info.bytes, info.offset,
                      header.data_start),
          fmt::format("a file of {} bytes with {} bytes in its data section; it is cut off or damaged, "
                      "fetch it again",
                      size, available));
    }
    if (i > 0) {
      const TensorInfo& previous = header.tensors[i - 1];
      if (info.offset < previous.offset + previous.bytes) {
        const bool overlaps = info.offset + info.bytes > previous.offset;
        fields.fail(
            "offset", offset_fields[i],
            fmt::format("at least {}, the end of tensor {} before it (tensors stand in ascending order)",
                        previous.offset + previous.bytes, quote(previous.name)),
            fmt::format("{}, {}", info.offset,
                        overlaps ? "which overlaps that tensor" : "a descending offset"));
      }
    }
    header.data_end = header.data_start + info.offset + info.bytes;
  }
  fields.set_place({});
}

}  // namespace

void read_tensor_table(HeaderFields& fields, std::uint64_t tensor_count, Header& header) {
  std::vector<std::uint64_t> offset_fields(tensor_count);
  header.tensors.reserve(tensor_count);
  std::unordered_map<std::string_view, std::uint64_t> names;
  for (std::uint64_t index = 0; index < tensor_count; ++index) {
    fields.set_place(fmt::format("tensor {} of {}", index + 1, tensor_count));
    header.tensors.push_back(read_tensor(fields, header.alignment, offset_fields[index]));
    const TensorInfo& info = header.tensors.back();
    const auto [earlier, fresh] = names.emplace(info.name, index);
    if (!fresh) {
      fields.fail("name", info.declared_at, "each tensor once",
                  fmt::format("it again, first as tensor {}", earlier->second + 1));
    }
  }
  fields.set_place({});
  header.data_start = align_up(fields.position(), header.alignment);
  header.data_end = fields.position();
  check_data(fields, header, offset_fields);
}

}  // namespace inferno::gguf
