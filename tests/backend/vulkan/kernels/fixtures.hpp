#pragma once

#include <cstdint>
#include <gtest/gtest.h>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arith/vectors.hpp"
#include "backend/gpu/device.hpp"
#include "backend/kernels/fixtures.hpp"
#include "backend/vulkan/test_device.hpp"

namespace inferno::gpu {

using cpu::kInfinity;
using cpu::kNaN;
using cpu::Random;
using cpu::same;

/// A test of kernels, one at a time, against what src/arith defines.
class VulkanKernelTest : public testing::Test {
 protected:
  void SetUp() override { device_ = &test::shared_test_device(); }
  static Device& device() { return *device_; }

  template <typename T>
  static std::unique_ptr<Buffer> buffer(const std::vector<T>& values) {
    return test::buffer_of(device(), std::span<const T>(values));
  }
  /// A buffer for `count` results, full of a pattern that no kernel writes.
  template <typename T>
  static std::unique_ptr<Buffer> results(std::size_t count) {
    return buffer(std::vector<T>(count, unwritten<T>()));
  }
  /// What `results` is full of.
  template <typename T>
  static T unwritten() {
    T value{};
    std::fill_n(reinterpret_cast<unsigned char*>(&value), sizeof(T), std::uint8_t{0xA5});
    return value;
  }
  template <typename T>
  static std::vector<T> read(const Buffer& from) {
    return test::values_of<T>(device(), from, from.bytes() / sizeof(T));
  }
  template <typename Constants>
  static void run(Kernel kernel, std::initializer_list<Slice> buffers, const Constants& constants,
                  Grid grid) {
    device().run_once([&](Recorder& recorder) { recorder.dispatch(kernel, buffers, constants, grid); });
  }

  inline static Device* device_ = nullptr;
};

/// A test of kernels that multiply int8: without and with the instruction for it.
class VulkanDotTest : public VulkanKernelTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override;
};

inline std::string dot_name(const testing::TestParamInfo<bool>& with_dot) {
  return with_dot.param ? "IntegerDot" : "Plain";
}

#define INFERNO_WITHOUT_AND_WITH_DOT(Suite) INSTANTIATE_TEST_SUITE_P(Vulkan, Suite, testing::Bool(), dot_name)

constexpr std::uint32_t u32(std::size_t value) {
  return static_cast<std::uint32_t>(value);
}

constexpr std::size_t padded(std::size_t columns) {
  return (columns + kPadColumns - 1) / kPadColumns * kPadColumns;
}

/// [rows][columns] with every row padded to 256 columns with zeros.
template <typename T>
std::vector<T> pad_rows(std::span<const T> values, std::size_t columns) {
  const std::size_t rows = values.size() / columns;
  std::vector<T> result(rows * padded(columns));
  for (std::size_t row = 0; row < rows; ++row) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(row * columns), columns,
                result.begin() + static_cast<std::ptrdiff_t>(row * padded(columns)));
  }
  return result;
}

/// One row out of padded ones.
template <typename T>
std::span<const T> row_of(const std::vector<T>& values, std::size_t row, std::size_t columns,
                          std::size_t stride) {
  return std::span(values).subspan(row * stride, columns);
}

/// Vectors as kernels take them: int8 [T][C256] and scales [T][C256 / 32].
struct QuantizedRows {
  std::vector<arith::QuantizedVector> rows;
  std::vector<std::int8_t> values = {};
  std::vector<float> scales = {};
};
QuantizedRows quantize_rows(std::span<const float> x, std::size_t columns);

/// A matrix of int8 in blocks of 32 with half scales, and how it lies on the device.
struct Q8Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<std::int8_t> values = {};         // [rows][columns]
  std::vector<std::uint16_t> half_scales = {};  // [rows][columns / 32]
  std::vector<float> scales = {};               // the same as floats
  std::vector<std::byte> packed = {};
};
Q8Matrix random_q8(std::size_t rows, std::size_t columns, Random& random);

enum class FloatFormat : std::uint8_t { f32, f16, bf16 };

struct FloatMatrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<float> values = {};  // [rows][columns]
  std::vector<std::byte> packed = {};
};
FloatMatrix random_floats(std::size_t rows, std::size_t columns, FloatFormat format, Random& random);

}  // namespace inferno::gpu
