#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace inferno::quant {

/// How a tensor type lies in a file: enough to find its tensors' ends and to name it, not to decode it.
struct TensorLayout {
  std::uint32_t type_id;         ///< as GGUF stores it
  std::string_view name;         ///< lower case: "q4_k"
  std::uint32_t block_elements;  ///< elements per block; a row is a multiple of it
  std::uint32_t block_bytes;
};

/// Every tensor type that ggml has published, in the order of its id, also those that it has given up since.
/// Most cannot be decoded here: `find_format` says which can.
std::span<const TensorLayout> tensor_layouts();

/// The layout of this type, or nullptr: nobody has published such a type.
const TensorLayout* find_layout(std::uint32_t type_id);

}  // namespace inferno::quant
