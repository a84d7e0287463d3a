#pragma once

#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "arith/vectors.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"

namespace inferno::cpu {

/// A test that runs once for every kernel set of this build, and is skipped, visibly, for those that this
/// processor cannot run.
class KernelTest : public testing::TestWithParam<const KernelSet*> {
 protected:
  void SetUp() override;
  const KernelSet& kernels() const { return *GetParam(); }
};

/// The set's name as a test name takes it.
std::string set_name(const testing::TestParamInfo<const KernelSet*>& info);

#define INFERNO_FOR_EACH_KERNEL_SET(Suite) \
  INSTANTIATE_TEST_SUITE_P(Kernels, Suite, testing::ValuesIn(kernel_sets()), set_name)

/// Equal as floats are, or both NaN. Names the first that differs.
testing::AssertionResult same(std::span<const float> actual, std::span<const float> expected);

/// Numbers for tests, the same every time.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}

  float uniform(float low, float high);
  int integer(int low, int high);  ///< both ends included
  std::vector<float> vector(std::size_t count, float largest = 1.0F);
  /// Activations as they come, and as they should not: blocks of 32 that are ordinary, zero, tiny, huge, hold
  /// single outliers; with `broken`, infinities and NaN as well.
  std::vector<float> activations(std::size_t count, bool broken = false);

 private:
  std::mt19937 engine_;
};

/// A quantized batch and its memory, filled with rubbish first.
class Batch {
 public:
  Batch(std::size_t tokens, std::uint32_t columns);
  const QuantizedBatch& view() const { return view_; }

 private:
  std::vector<std::int8_t> values_;
  std::vector<float> scales_;
  std::vector<std::int32_t> offsets_;
  QuantizedBatch view_;
};

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace inferno::cpu
