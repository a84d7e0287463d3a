#include "bench/machine_limits.hpp"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <thread>  // MachineProbe starts threads: ThreadSanitizer should see it
#include <vector>

#include <inferno/error.hpp>

#include "bench/peak_kernels.hpp"

namespace inferno::bench {
namespace {

constexpr std::size_t kBytes = 1 << 16;
constexpr std::size_t kSlack = 1 << 13;  // kernels prefetch ahead

struct FreeDeleter {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

TEST(PeakKernels, EverySupportedOneRuns) {
  int ran = 0;
  for (const auto& kernels : {int8_kernels(), fp32_kernels()}) {
    ASSERT_FALSE(kernels.empty());
    EXPECT_TRUE(kernels.back().supported()) << kernels.back().name;
    for (const auto& kernel : kernels) {
      EXPECT_GT(kernel.operations, 0);
      EXPECT_FALSE(kernel.name.empty());
      if (!kernel.supported()) continue;
      kernel.run(100);
      ++ran;
    }
  }
  EXPECT_GE(ran, 2);
}

TEST(ReadKernels, EverySupportedOneReadsEveryWord) {
  const std::unique_ptr<std::byte, FreeDeleter> buffer(
      static_cast<std::byte*>(std::aligned_alloc(64, kBytes + kSlack)));
  std::uint64_t expected = 0;
  std::vector<std::uint64_t> words((kBytes + kSlack) / 8);
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = i * 0x9E37'79B9'7F4A'7C15U;
    if (i < kBytes / 8) expected ^= words[i];
  }
  std::memcpy(buffer.get(), words.data(), words.size() * 8);
  EXPECT_TRUE(read_kernels().back().supported());
  for (const auto& kernel : read_kernels()) {
    if (!kernel.supported()) continue;
    for (const auto ahead : kReadAhead) {
      EXPECT_EQ(kernel.run(buffer.get(), kBytes, ahead), expected) << kernel.name;
    }
  }
}

TEST(MachineLimits, AllFiguresAreMeasured) {
  const auto limits = MachineProbe(2, 3'000'000).limits();
  EXPECT_EQ(limits.threads, 2U);
  EXPECT_NEAR(static_cast<double>(limits.buffer_bytes), 3e6, 1000);
  // How little a busy machine leaves under a sanitizer nobody knows.
  EXPECT_GT(limits.read_gb_per_second, 0);
  EXPECT_GT(limits.int8_gops, 0);
  EXPECT_GT(limits.fp32_gflops, 0);
  EXPECT_LT(limits.read_gb_per_second, 1e5);
  EXPECT_LT(limits.int8_gops, 1e7);
  EXPECT_FALSE(limits.int8_kernel.empty());
  EXPECT_FALSE(limits.fp32_kernel.empty());
}

TEST(MachineLimits, BufferHasALeastSize) {
  EXPECT_NEAR(static_cast<double>(MachineProbe(1, 1).limits().buffer_bytes), 1 << 20, 256);
}

TEST(MachineLimits, SenselessThreadsAreRefused) {
  EXPECT_THROW(MachineProbe(0, 1 << 20), UsageError);
  EXPECT_THROW(MachineProbe(4'000'000'000, 1 << 20), UsageError);
}

TEST(MachineLimits, BestPeaksTakesTheHigherOfEach) {
  MachineLimits a;
  a.read_gb_per_second = 10;
  a.int8_gops = 5;
  a.fp32_gflops = 7;
  a.int8_kernel = "x";
  MachineLimits b;
  b.read_gb_per_second = 9;
  b.int8_gops = 6;
  b.fp32_gflops = 7;
  const auto best = best_peaks(a, b);
  EXPECT_EQ(best.read_gb_per_second, 10);
  EXPECT_EQ(best.int8_gops, 6);
  EXPECT_EQ(best.fp32_gflops, 7);
  EXPECT_EQ(best.int8_kernel, "x");
}

}  // namespace
}  // namespace inferno::bench
