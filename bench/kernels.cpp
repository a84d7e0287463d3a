// What each kernel of each set reaches on one core, beside what the core can do at best.
#include <algorithm>
#include <benchmark/benchmark.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/kernels/kernel_set.hpp"
#include "bench/peak_kernels.hpp"

namespace inferno::cpu {
namespace {

/// More than any second-level cache, so that a product with few tokens waits for memory (or for a large third
/// level: the read limit is measured over as much).
constexpr std::size_t kColdBytes = std::size_t{256} << 20U;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Zeroed memory at 64 bytes, as kernels like it.
template <typename T>
class Buffer {
 public:
  explicit Buffer(std::size_t count)
      : data_(static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64)), std::free) {
    if (data_ == nullptr) std::abort();
    std::memset(static_cast<void*>(data_.get()), 0, count * sizeof(T));
  }
  T* data() const { return data_.get(); }
  T& operator[](std::size_t i) const { return data_.get()[i]; }

 private:
  std::unique_ptr<T, void (*)(void*)> data_;
};

struct Limits {
  double read_gb_per_second = 0;
  double int8_gops = 0;
};

Limits measure_limits() {
  Limits limits;
  const auto& peak = bench::best_supported(bench::int8_kernels());
  const auto& read = bench::best_supported(bench::read_kernels());
  const Buffer<std::byte> memory(kColdBytes);
  constexpr std::uint64_t kIterations = 2'000'000;
  for (int i = 0; i < 8; ++i) {
    auto start = std::chrono::steady_clock::now();
    peak.run(kIterations);
    limits.int8_gops = std::max(
        limits.int8_gops, static_cast<double>(kIterations) * peak.operations / seconds_since(start) * 1e-9);
    start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(read.run(memory.data(), kColdBytes, bench::kReadAhead[i % 2]));
    limits.read_gb_per_second =
        std::max(limits.read_gb_per_second, static_cast<double>(kColdBytes) / seconds_since(start) * 1e-9);
  }
  std::printf("one core: reads %.1f GB/s, %.0f int8 GOP/s (%s)\n", limits.read_gb_per_second,
              limits.int8_gops, std::string(peak.name).c_str());
  return limits;
}

/// Rates beside their limits. `bytes` and `operations` are an iteration's; 0 leaves a rate out.
void report(benchmark::State& state, const Limits& limits, double bytes, double operations) {
  const auto rate = [&](double amount, double unit) {
    return benchmark::Counter(amount / unit, benchmark::Counter::kIsIterationInvariantRate);
  };
  if (bytes > 0) {
    state.counters["GB/s"] = rate(bytes, 1e9);
    state.counters["%read"] = rate(100 * bytes, 1e9 * limits.read_gb_per_second);
  }
  if (operations > 0) {
    state.counters["GOP/s"] = rate(operations, 1e9);
    state.counters["%int8"] = rate(100 * operations, 1e9 * limits.int8_gops);
  }
}

std::vector<float> ramp(std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i * 37 % 101) * 0.02F - 1.0F;
  return x;
}

void matmul(benchmark::State& state, const KernelSet& set, Limits limits) {
  const auto columns = static_cast<std::uint32_t>(state.range(0));
  const auto tokens = static_cast<std::uint32_t>(state.range(1));
  PackedMatrix matrix{.bytes = nullptr, .rows = 0, .columns = columns};
  const auto panel_bytes = PackedMatrix::panel_bytes(matrix.blocks());
  // A few tokens: one megabyte of a large matrix after the other. Many: the same 64 panels again and again,
  // rows of the result as far apart as in a model.
  const bool from_memory = tokens <= 16;
  const auto all_panels = from_memory ? static_cast<std::uint32_t>(kColdBytes / panel_bytes) : 64U;
  const auto panels = from_memory ? std::max(1U, static_cast<std::uint32_t>((1U << 20U) / panel_bytes)) : 64U;
  matrix.rows = all_panels * kPanelRows;
  // Every byte 0x21: integers of -95, scales of 0.0098.
  const Buffer<std::byte> weights(matrix.total_bytes());
  std::memset(weights.data(), 0x21, matrix.total_bytes());
  matrix.bytes = weights.data();
  const std::size_t room = tokens + QuantizedBatch::kSpareTokens;
  const Buffer<std::int8_t> values(room * columns);
  const Buffer<float> scales(room * matrix.blocks());
  const Buffer<std::int32_t> offsets(room * matrix.blocks());
  const QuantizedBatch batch{
      .values = values.data(), .scales = scales.data(), .offsets = offsets.data(), .columns = columns};
  const auto x = ramp(columns);
  for (std::uint32_t t = 0; t < tokens; ++t) set.quantize(x.data(), batch, t);
  const Buffer<float> y(std::size_t{tokens} * matrix.rows);

  std::uint32_t panel = 0;
  for (auto _ : state) {
    set.matmul(matrix, panel, panel + panels, batch, tokens, nullptr, y.data(), matrix.rows);
    panel = panel + 2 * panels <= all_panels ? panel + panels : 0;
  }
  report(state, limits, from_memory ? static_cast<double>(panels) * static_cast<double>(panel_bytes) : 0,
         2.0 * panels * kPanelRows * columns * tokens);
}

/// Heads of 128 dimensions over full cache blocks of 256 positions: from memory for few heads (one token's),
/// again and again the same for many (a prompt's).
class Cache {
 public:
  static constexpr std::uint32_t kDim = 128;
  static constexpr std::uint32_t kBlocks = kDim / 32;
  static constexpr std::uint32_t kPositions = 256;
  static constexpr std::size_t kPlane = std::size_t{kPositions} * kDim;
  static constexpr std::size_t kScales = std::size_t{kPositions} * kBlocks;
  static constexpr std::size_t kHalf = kPlane + kScales * sizeof(float);

  explicit Cache(std::size_t count) : count_(count), memory_(count * 2 * kHalf) {
    std::memset(memory_.data(), 0x21, count * 2 * kHalf);
    for (std::size_t i = 0; i < count; ++i) {
      std::fill_n(view(i).key_scales, kScales, 0.01F);
      std::fill_n(view(i).value_scales, kScales, 0.01F);
    }
  }
  CacheView view(std::size_t index) const {
    std::byte* at = memory_.data() + index % count_ * 2 * kHalf;
    return {.keys = reinterpret_cast<std::uint8_t*>(at),
            .key_scales = reinterpret_cast<float*>(at + kPlane),
            .values = reinterpret_cast<std::int8_t*>(at + kHalf),
            .value_scales = reinterpret_cast<float*>(at + kHalf + kPlane),
            .positions = kPositions};
  }

 private:
  std::size_t count_;
  Buffer<std::byte> memory_;
};

void attention(benchmark::State& state, const KernelSet& set, Limits limits) {
  const auto heads = static_cast<std::uint32_t>(state.range(0));
  const bool from_memory = heads <= 8;
  const Cache cache(from_memory ? kColdBytes / (2 * Cache::kHalf) : 4);
  const auto head = ramp(Cache::kDim);
  const std::size_t parts = std::size_t{heads} * Cache::kBlocks;
  const Buffer<std::int8_t> values(parts * 32);
  const Buffer<float> scales(parts);
  const Buffer<std::int32_t> offsets(parts);
  for (std::uint32_t h = 0; h < heads; ++h) {
    const std::size_t at = std::size_t{h} * Cache::kBlocks;
    set.quantize_query(head.data(), Cache::kDim, 0.1F, values.data() + at * 32, scales.data() + at,
                       offsets.data() + at);
  }
  const QueryGroup query{.values = values.data(),
                         .scales = scales.data(),
                         .offsets = offsets.data(),
                         .heads = heads,
                         .blocks = Cache::kBlocks};
  const Buffer<float> scores(std::size_t{heads} * Cache::kPositions);
  const Buffer<std::byte> integers(parts * SplitWeights::kBytes);
  const Buffer<float> weight_scales(parts);
  const Buffer<std::int32_t> sums(parts * 32);
  std::size_t split = 0;
  for (auto _ : state) {
    const auto view = cache.view(split++);
    set.scores(query, view, Cache::kPositions, scores.data(), Cache::kPositions);
    for (std::size_t h = 0; h < heads; ++h) {
      float maximum = 0;
      float denominator = 0;
      float* row = scores.data() + h * Cache::kPositions;
      set.softmax(row, Cache::kPositions, &maximum, &denominator);
      set.quantize_weights(row, view.value_scales, Cache::kPositions, Cache::kBlocks,
                           integers.data() + h * Cache::kBlocks * SplitWeights::kBytes,
                           weight_scales.data() + h * Cache::kBlocks);
    }
    std::memset(sums.data(), 0, parts * 32 * sizeof(std::int32_t));
    set.weigh_values({integers.data(), weight_scales.data()}, heads, Cache::kBlocks, view, 0,
                     Cache::kPositions, sums.data());
  }
  report(state, limits, from_memory ? 2.0 * Cache::kHalf : 0, 4.0 * Cache::kPositions * Cache::kDim * heads);
}

void norm_quantize(benchmark::State& state, const KernelSet& set, Limits limits) {
  const auto width = static_cast<std::uint32_t>(state.range(0));
  const auto x = ramp(width);
  const std::size_t room = std::size_t{1 + QuantizedBatch::kSpareTokens} * width;
  const Buffer<std::int8_t> values(room);
  const Buffer<float> scales(room / 32);
  const Buffer<std::int32_t> offsets(room / 32);
  const QuantizedBatch batch{
      .values = values.data(), .scales = scales.data(), .offsets = offsets.data(), .columns = width};
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        set.norm_quantize(x.data(), x.data(), width, 1.0F / static_cast<float>(width), 1e-6F, batch, 0));
  }
  report(state, limits, 2.0 * width * sizeof(float), 0);
}

void swiglu(benchmark::State& state, const KernelSet& set, Limits limits) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const auto up = ramp(count);
  auto gate = up;
  for (auto _ : state) {
    std::memcpy(gate.data(), up.data(), count * sizeof(float));
    set.swiglu(gate.data(), up.data(), count);
    benchmark::ClobberMemory();
  }
  report(state, limits, 3.0 * static_cast<double>(count) * sizeof(float), 0);
}

void add_benchmarks(const KernelSet& set, const Limits& limits) {
  const auto name = [&](const char* kernel) { return std::string(set.name) + "/" + kernel; };
  benchmark::RegisterBenchmark(name("matmul").c_str(), matmul, std::cref(set), limits)
      ->ArgNames({"columns", "tokens"})
      ->ArgsProduct({{1024, 3072}, {1, 4, 8, 48, 512}});
  benchmark::RegisterBenchmark(name("attention").c_str(), attention, std::cref(set), limits)
      ->ArgName("heads")
      ->Args({2})
      ->Args({16});
  benchmark::RegisterBenchmark(name("norm_quantize").c_str(), norm_quantize, std::cref(set), limits)
      ->ArgName("width")
      ->Args({1024});
  benchmark::RegisterBenchmark(name("swiglu").c_str(), swiglu, std::cref(set), limits)
      ->ArgName("count")
      ->Args({3072});
}

}  // namespace
}  // namespace inferno::cpu

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const auto limits = inferno::cpu::measure_limits();
  for (const auto* set : inferno::cpu::kernel_sets()) {
    if (set->supported()) {
      inferno::cpu::add_benchmarks(*set, limits);
    } else {
      std::printf("%s is not measured: it needs a processor with %s\n", std::string(set->name).c_str(),
                  std::string(set->needs).c_str());
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
