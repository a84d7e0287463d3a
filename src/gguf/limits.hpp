#pragma once

#include <cstddef>
#include <cstdint>

/// Bounds that reader and writer share. Where the format's specification gives none, they are far above what
/// real files have; they keep the memory for a header small, whatever the size of the file.
namespace inferno::gguf {

inline constexpr std::uint64_t kMaxEntries = 65536;      ///< metadata entries; real files: under 100
inline constexpr std::uint64_t kMaxTensors = 65536;      ///< per file; real files: under 10,000
inline constexpr std::uint64_t kMaxKeyBytes = 65535;     ///< the specification's
inline constexpr std::uint64_t kMaxTensorName = 255;     ///< bytes; the specification says 64
inline constexpr std::uint32_t kMaxDimensions = 4;       ///< the specification's
inline constexpr std::uint32_t kMaxArrayDepth = 8;       ///< arrays in arrays; real files: 1
inline constexpr std::uint64_t kMaxStrings = 1U << 22U;  ///< in all arrays of a file; real files: 500,000
inline constexpr std::uint64_t kMaxShards = 65535;       ///< `split.count` is a u16

inline constexpr std::uint32_t kDefaultAlignment = 32;
inline constexpr std::uint32_t kMinAlignment = 8;          ///< the specification's: a multiple of 8
inline constexpr std::uint32_t kMaxAlignment = 1U << 24U;  ///< eight huge pages of 2 MiB
inline constexpr const char* kAlignmentKey = "general.alignment";

/// A power of two within the bounds.
constexpr bool is_alignment(std::uint64_t value) {
  return value >= kMinAlignment && value <= kMaxAlignment && (value & (value - 1)) == 0;
}

/// The next multiple of `alignment`, a power of two; `value` is at most 2^63.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace inferno::gguf
