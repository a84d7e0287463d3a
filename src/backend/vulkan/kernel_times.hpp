#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/gpu/kernels.hpp"
#include "backend/vulkan/functions.hpp"
#include "backend/vulkan/handle.hpp"

namespace inferno::vulkan {

/// The moments at which a recording's dispatches ended: number 0 is its beginning, number i + 1 the end of
/// dispatch i.
struct Stamps {
  /// Dispatches that a recording's pool has room for; later ones are not timed.
  static constexpr std::uint32_t kMost = 4095;

  Handle<VkQueryPool> pool;
  std::vector<gpu::Kernel> kernels;  ///< of the dispatches
};

/// What the device's time goes to, kernel by kernel. Stamps keep dispatches apart that could have overlapped
/// and cost about a microsecond each: shares are to be trusted more than sums.
class KernelTimes {
 public:
  /// `nanoseconds`: of a tick; `valid_bits`: of a stamp.
  KernelTimes(double nanoseconds, std::uint32_t valid_bits)
      : nanoseconds_(nanoseconds), valid_bits_(valid_bits) {}

  /// `ticks`: [1 + kernels].
  void add(std::span<const gpu::Kernel> kernels, std::span<const std::uint64_t> ticks);
  /// A line for each kernel that ran, the most expensive first; empty if none did.
  std::string table() const;

 private:
  struct Total {
    std::uint64_t dispatches = 0;
    double nanoseconds = 0;
    double longest = 0;
  };

  double nanoseconds_;
  std::uint32_t valid_bits_;
  std::array<Total, gpu::kKernelCount> totals_;
};

}  // namespace inferno::vulkan
