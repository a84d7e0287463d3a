#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace inferno::quant {

/// Tensor type ids as GGUF stores them. Only the types inferno reads are named.
enum class TensorType : std::uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q5_0 = 6, q8_0 = 8, bf16 = 30 };

/// One block format: how many elements a block holds, how many bytes it takes, how to decode it.
/// A further format is one small file that defines a Format and one line in `formats()`.
struct Format {
  TensorType type;
  std::string_view name;         ///< lower case, as `--type` takes it: "q8_0"
  std::uint32_t block_elements;  ///< elements per block; a row is a multiple of it
  std::uint32_t block_bytes;
  /// Decodes `blocks` whole blocks at `source` to `blocks * block_elements` floats, exactly.
  void (*decode)(const std::byte* source, std::size_t blocks, float* target);
  /// Encodes `blocks * block_elements` floats; rounds as the format's reference quantizer does. Block formats
  /// throw Error on values that are not finite or need a scale beyond float16.
  void (*encode)(const float* source, std::size_t blocks, std::byte* target);
  /// For formats whose block is 32 integers with one float16 scale: `blocks` blocks as integers `values`
  /// [blocks][32] and the scales' bits `scales` [blocks]; an element is integer * scale. nullptr for others.
  void (*integers)(const std::byte* source, std::size_t blocks, std::int8_t* values, std::uint16_t* scales);
};

/// Every format inferno reads, in the order of its type id.
std::span<const Format> formats();

/// The format with this type id, or nullptr.
const Format* find_format(std::uint32_t type_id);

/// The format with this name (any case), or nullptr.
const Format* find_format(std::string_view name);

/// The format of a known type.
const Format& format_of(TensorType type);

/// The accepted names for an error message: "f32 (0), f16 (1), ...".
std::string accepted_formats();

}  // namespace inferno::quant
