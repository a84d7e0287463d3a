#include "backend/gpu/meter.hpp"

#include <algorithm>
#include <chrono>

namespace inferno::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kLeastBytes = std::uint64_t{1} << 20U;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30U;
/// What a workgroup of measure_read reads.
constexpr std::uint64_t kGroupBytes = std::uint64_t{kMeasureThreads} * kMeasureUnits * 16;
constexpr std::uint32_t kPattern = 0x5A3C96E1U;
/// Rounds of the loops of measure_int8 and measure_fp32, and most workgroups of theirs.
constexpr std::uint32_t kRounds = 64;
constexpr std::uint32_t kMostGroups = 16384;
constexpr double kReadSeconds = 0.02;
constexpr double kPeakSeconds = 0.002;
constexpr int kRuns = 10;

double seconds_of(Device& device, const Recording& recording, std::uint32_t times) {
  const auto start = Clock::now();
  device.submit(recording, times);
  device.wait();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Meter::Meter(Device& device, std::uint64_t buffer_bytes) : device_(device) {
  const std::uint64_t room = std::min({kMostBytes, device.capabilities().max_range, device.free_bytes() / 2});
  bytes_ = std::max(std::min(std::max(buffer_bytes, kLeastBytes), room) / kGroupBytes, std::uint64_t{1}) *
           kGroupBytes;
  const auto groups = static_cast<std::uint32_t>(bytes_ / kGroupBytes);
  data_ = device.create_buffer(bytes_, Memory::device, "measuring");
  const std::uint64_t threads = std::uint64_t{std::max(groups, kMostGroups)} * kMeasureThreads;
  sink_ = device.create_buffer(threads * sizeof(std::uint32_t), Memory::device, "measuring");
  device.run_once([this](Recorder& recorder) { recorder.fill(*data_, kPattern); });
  const auto recorder = device.record();
  recorder->dispatch(Kernel::measure_read, {*data_, *sink_}, MeasureConstants{kMeasureUnits}, {groups});
  reading_ = recorder->finish();
}

double Meter::read_gb_per_second() {
  std::uint32_t times = 1;
  seconds_of(device_, *reading_, times);  // wakes the device
  double seconds = 0;
  while ((seconds = seconds_of(device_, *reading_, times)) < kReadSeconds) times *= 2;
  return static_cast<double>(bytes_) * times / seconds / 1e9;
}

/// Billions of operations a second, of a kernel of which an invocation does so many in each round: the best
/// of many short runs, each of as many workgroups as take long enough.
double Meter::peak(Kernel kernel, double operations) {
  double best = 0;
  const std::uint32_t most = std::min(kMostGroups, device_.capabilities().max_groups);
  for (std::uint32_t groups = 16; groups <= most; groups *= 2) {
    const auto recorder = device_.record();
    recorder->dispatch(kernel, {*sink_}, MeasureConstants{kRounds}, {groups});
    const auto recording = recorder->finish();
    seconds_of(device_, *recording, 1);
    double shortest = seconds_of(device_, *recording, 1);
    if (shortest < kPeakSeconds && groups * 2 <= most) continue;
    for (int run = 1; run < kRuns; ++run) shortest = std::min(shortest, seconds_of(device_, *recording, 1));
    best = operations * kRounds * groups * kMeasureThreads / shortest / 1e9;
    break;
  }
  return best;
}

DeviceLimits Meter::limits() {
  const DeviceCapabilities& can = device_.capabilities();
  DeviceLimits limits;
  limits.buffer_bytes = bytes_;
  limits.read_gb_per_second = read_gb_per_second();
  limits.int8_gops =
      peak(Kernel::measure_int8, can.matrix_int8 ? kMeasureMatrixOperations : kMeasureInt8Operations);
  limits.fp32_gflops = peak(Kernel::measure_fp32, kMeasureFloatOperations);
  limits.int8_kernel = can.matrix_int8   ? "products of matrices"
                       : can.integer_dot ? "dot products of four"
                                         : "multiplies";
  limits.fp32_kernel = "multiply-adds";
  return limits;
}

}  // namespace inferno::gpu
