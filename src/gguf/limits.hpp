#pragma once

#include <cstddef>
#include <cstdint>

/// Bounds that reader and writer share. Where the format's specification gives none, they are far above what
/// real files have; they bound the memory that a header takes, whatever the size of the file: kMaxValueBytes
/// for the metadata, some tens of megabytes for the largest tensor table.
namespace inferno::gguf {

inline constexpr std::uint64_t kMaxEntries = 65536;   ///< metadata entries; real files: under 100
inline constexpr std::uint64_t kMaxTensors = 65536;   ///< of all shards together; real files: under 10,000
inline constexpr std::uint64_t kMaxKeyBytes = 65535;  ///< the specification's
inline constexpr std::uint64_t kMaxTensorName = 255;  ///< bytes; the specification says 64
inline constexpr std::uint32_t kMaxDimensions = 4;    ///< the specification's
inline constexpr std::uint32_t kMaxArrayDepth = 8;    ///< arrays in arrays; real files: 1
/// In all arrays of a file: tokens, types, scores and merges of a vocabulary of a million. Real files:
/// 800,000.
inline constexpr std::uint64_t kMaxElements = 1U << 22U;
/// Of memory for all keys and values of a file, as MetadataBudget counts it. Qwen3's take 12 MB, a vocabulary
/// of a million with as many merges 100 MB.
inline constexpr std::uint64_t kMaxValueBytes = 128U << 20U;
inline constexpr std::uint64_t kMaxShards = 65535;  ///< `split.count` is a u16

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

/// Counts what the metadata of one file takes in memory, each value with all that surrounds it there.
class MetadataBudget {
 public:
  /// Of a key and its value without their texts and elements.
  static constexpr std::uint64_t kEntryBytes = 128;
  /// At most, of one allocation beside what it holds.
  static constexpr std::uint64_t kAllocationBytes = 32;

  /// Memory for the text of a key, value or element. Short ones need no allocation.
  static constexpr std::uint64_t text_bytes(std::uint64_t length) {
    return length < 16 ? 0 : length + kAllocationBytes;
  }
  /// Memory for an array's elements, whose texts and own elements are not counted here.
  static constexpr std::uint64_t array_bytes(std::uint64_t size, std::uint64_t element_bytes) {
    return size == 0 ? 0 : size * element_bytes + kAllocationBytes;
  }

  /// False if these bytes are too many; they are not counted then.
  constexpr bool take_bytes(std::uint64_t bytes) { return take(bytes, kMaxValueBytes, bytes_); }
  /// The same for elements of arrays.
  constexpr bool take_elements(std::uint64_t count) { return take(count, kMaxElements, elements_); }

  constexpr std::uint64_t bytes() const { return bytes_; }
  constexpr std::uint64_t elements() const { return elements_; }

 private:
  static constexpr bool take(std::uint64_t count, std::uint64_t limit, std::uint64_t& taken) {
    if (count > limit - taken) return false;
    taken += count;
    return true;
  }

  std::uint64_t bytes_ = 0;
  std::uint64_t elements_ = 0;
};

}  // namespace inferno::gguf
