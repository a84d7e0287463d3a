#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace inferno {

/// Counts durations by size.
class LatencyHistogram {
 public:
  /// Upper ends of the buckets in seconds; one more bucket has what is longer.
  static constexpr std::array<double, 18> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                     0.075, 0.1,    0.25,  0.5,  1.0,   2.5,
                                                     5.0,   10.0,   25.0,  50.0, 100,   250};

  void add(double seconds) {
    std::size_t bucket = 0;
    while (bucket < kBounds.size() && seconds > kBounds[bucket]) ++bucket;
    ++counts_[bucket];
    seconds_ += seconds;
  }

  /// By bucket; not cumulative.
  const std::array<std::uint64_t, kBounds.size() + 1>& counts() const { return counts_; }
  double seconds() const { return seconds_; }  ///< all together

 private:
  std::array<std::uint64_t, kBounds.size() + 1> counts_ = {};
  double seconds_ = 0;
};

}  // namespace inferno
