#include "backend/vulkan/kernel_times.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <numeric>

namespace inferno::vulkan {

void KernelTimes::add(std::span<const gpu::Kernel> kernels, std::span<const std::uint64_t> ticks) {
  const std::uint64_t mask = valid_bits_ >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << valid_bits_) - 1;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    Total& total = totals_[static_cast<std::size_t>(kernels[i])];
    const double took = static_cast<double>((ticks[i + 1] - ticks[i]) & mask) * nanoseconds_;
    total.dispatches += 1;
    total.nanoseconds += took;
    total.longest = std::max(total.longest, took);
  }
}

std::string KernelTimes::table() const {
  std::array<std::size_t, gpu::kKernelCount> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [this](std::size_t a, std::size_t b) { return totals_[a].nanoseconds > totals_[b].nanoseconds; });
  const double all = std::accumulate(totals_.begin(), totals_.end(), 0.0,
                                     [](double sum, const Total& total) { return sum + total.nanoseconds; });
  std::string text;
  for (const std::size_t kernel : order) {
    const Total& total = totals_[kernel];
    if (total.dispatches == 0) continue;
    fmt::format_to(std::back_inserter(text),
                   "{:<16} {:>9} dispatches {:>11.3f} ms {:>5.1f} % {:>9.2f} us each, "
                   "{:.2f} at most\n",
                   gpu::kernel_name(static_cast<gpu::Kernel>(kernel)), total.dispatches,
                   total.nanoseconds / 1e6, all > 0 ? 100 * total.nanoseconds / all : 0,
                   total.nanoseconds / 1e3 / static_cast<double>(total.dispatches), total.longest / 1e3);
  }
  return text;
}

}  // namespace inferno::vulkan
