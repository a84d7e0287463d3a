#include "bench/machine_limits.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <inferno/error.hpp>

#include "bench/peak_kernels.hpp"
#include "platform/page_memory.hpp"

namespace inferno::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMaxThreads = 4096;
constexpr std::uint64_t kMinBuffer = std::uint64_t{1} << 20U;
constexpr std::uint64_t kMaxBuffer = std::uint64_t{1} << 30U;
/// Kernels prefetch past the end of what they read.
constexpr std::size_t kSlack = std::size_t{1} << 13U;
// Many short runs rather than a few long ones: on a machine that others use as well, one of them is left
// alone.
constexpr int kRuns = 15;
constexpr double kRunSeconds = 0.01;
constexpr double kReadSeconds = 0.1;

/// Runs `work(index)` in `threads` threads that start together; seconds from the first start to the last end.
double run_together(std::uint32_t threads, const std::function<void(std::uint32_t)>& work) {
  struct Times {
    Clock::time_point start, end;
  };
  std::vector<Times> times(threads);
  std::atomic<std::uint32_t> waiting = threads;
  const auto body = [&](std::uint32_t index) {
    waiting.fetch_sub(1);
    // More threads than processors would wait for one another's time slices if they did not yield.
    while (waiting.load() != 0) std::this_thread::yield();
    times[index].start = Clock::now();
    work(index);
    times[index].end = Clock::now();
  };
  std::vector<std::thread> team;
  team.reserve(threads);
  try {
    for (std::uint32_t i = 1; i < threads; ++i) team.emplace_back(body, i);
  } catch (const std::system_error& error) {
    waiting = 0;
    for (auto& thread : team) thread.join();
    throw Error(fmt::format("bench: cannot start {} threads: {}", threads, error.what()));
  }
  body(0);
  for (auto& thread : team) thread.join();
  const auto start = std::min_element(times.begin(), times.end(), [](const auto& a, const auto& b) {
                       return a.start < b.start;
                     })->start;
  const auto end = std::max_element(times.begin(), times.end(), [](const auto& a, const auto& b) {
                     return a.end < b.end;
                   })->end;
  return std::chrono::duration<double>(end - start).count();
}

/// The most that `work(index, iterations)` reaches, in units per second of all threads, where one iteration
/// is worth `units`. Iterations are chosen so that a run takes about kRunSeconds.
double best_rate(std::uint32_t threads, double units,
                 const std::function<void(std::uint32_t, std::uint64_t)>& work) {
  std::uint64_t iterations = 1;
  double seconds = 0;
  const auto once = [&] {
    return run_together(threads, [&](std::uint32_t index) { work(index, iterations); });
  };
  // In the thread's own time: a run that waited for a processor looks long enough and is not.
  const auto own_seconds = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  };
  while (true) {
    const auto start = own_seconds();
    work(0, iterations);
    seconds = own_seconds() - start;
    if (seconds >= kRunSeconds / 4) break;
    iterations *= 2;
  }
  iterations = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(static_cast<double>(iterations) * kRunSeconds / seconds));
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    best = std::max(best, units * static_cast<double>(iterations) * threads / once());
  }
  return best;
}

double measure_peak(std::uint32_t threads, const PeakKernel& kernel) {
  return best_rate(threads, kernel.operations,
                   [&](std::uint32_t, std::uint64_t iterations) { kernel.run(iterations); }) /
         1e9;
}

}  // namespace

/// Huge pages where the system likes: a limit should not be set by page tables.
struct MachineProbe::Buffer {
  explicit Buffer(std::size_t bytes) : memory(bytes + kSlack) {
    std::memset(memory.data(), 1, memory.size());
  }

  PageMemory memory;
  std::atomic<std::uint64_t> sink = 0;
};

MachineProbe::MachineProbe(std::uint32_t threads, std::uint64_t buffer_bytes) : threads_(threads) {
  if (threads == 0 || threads > kMaxThreads) {
    throw UsageError(fmt::format("bench: {} threads; expected 1 to {}", threads, kMaxThreads));
  }
  const auto wanted = std::clamp(buffer_bytes, kMinBuffer, kMaxBuffer);
  share_ = std::max<std::size_t>(wanted / threads / kReadStep, 1) * kReadStep;
  buffer_ = std::make_unique<Buffer>(share_ * threads);
  double best = 0;
  std::size_t best_ahead = 0;
  for (const auto ahead : kReadAhead) {
    ahead_ = ahead;
    if (const auto rate = read_gb_per_second(); rate > best) {
      best = rate;
      best_ahead = ahead;
    }
  }
  ahead_ = best_ahead;
}

MachineProbe::~MachineProbe() = default;

double MachineProbe::read_gb_per_second() {
  const auto& kernel = best_supported(read_kernels());
  std::uint64_t iterations = 1;
  const auto read = [&](std::uint32_t index) {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < iterations; ++i) {
      sum += kernel.run(buffer_->memory.data() + share_ * index, share_, ahead_);
    }
    buffer_->sink += sum;
  };
  const auto bytes = [&] { return static_cast<double>(iterations) * static_cast<double>(share_) * threads_; };
  double seconds = 0;
  while ((seconds = run_together(threads_, read)) < kRunSeconds) iterations *= 2;
  double total_bytes = bytes();
  while (seconds < kReadSeconds) {
    total_bytes += bytes();
    seconds += run_together(threads_, read);
  }
  return total_bytes / seconds / 1e9;
}

MachineLimits MachineProbe::limits() {
  const auto& int8 = best_supported(int8_kernels());
  const auto& fp32 = best_supported(fp32_kernels());
  MachineLimits limits;
  limits.threads = threads_;
  limits.buffer_bytes = share_ * threads_;
  limits.read_gb_per_second = read_gb_per_second();
  limits.int8_gops = measure_peak(threads_, int8);
  limits.fp32_gflops = measure_peak(threads_, fp32);
  limits.int8_kernel = int8.name;
  limits.fp32_kernel = fp32.name;
  return limits;
}

MachineLimits best_peaks(const MachineLimits& a, const MachineLimits& b) {
  auto best = a;
  best.int8_gops = std::max(a.int8_gops, b.int8_gops);
  best.fp32_gflops = std::max(a.fp32_gflops, b.fp32_gflops);
  return best;
}

}  // namespace inferno::bench
