#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace inferno::bench {

/// A loop over registers only that keeps one kind of instruction as busy as it gets.
struct PeakKernel {
  std::string_view name;  ///< "AVX-512 VNNI"
  double operations;      ///< per iteration; a multiply and an add are two
  bool (*supported)();    ///< by this processor and its operating system
  void (*run)(std::uint64_t iterations);
};

/// A loop that loads every byte of a buffer once.
struct ReadKernel {
  std::string_view name;
  bool (*supported)();
  /// `bytes` is a multiple of kReadStep, `data` aligned to 64. Prefetches what lies `ahead` bytes further; 0
  /// leaves that to the processor. Returns something that depends on every byte.
  std::uint64_t (*run)(const std::byte* data, std::size_t bytes, std::size_t ahead);
};

inline constexpr std::size_t kReadStep = 256;
/// Distances to prefetch that are worth trying: what covers a memory access at tens of GB/s, and none.
/// Intel's cores read faster with the one, AMD's with the other.
inline constexpr std::array<std::size_t, 2> kReadAhead{4096, 0};

// What this build has for this kind of processor, best first; the last one of each is supported everywhere.
// Wider kernels are compiled by function attributes: the program as a whole still starts on an older
// processor.
std::span<const PeakKernel> int8_kernels();
std::span<const PeakKernel> fp32_kernels();
std::span<const ReadKernel> read_kernels();

/// The first supported one.
template <typename Kernel>
const Kernel& best_supported(std::span<const Kernel> kernels) {
  for (const auto& kernel : kernels) {
    if (kernel.supported()) return kernel;
  }
  return kernels.back();
}

}  // namespace inferno::bench
