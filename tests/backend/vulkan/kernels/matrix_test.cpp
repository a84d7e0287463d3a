#include <algorithm>

#include "backend/vulkan/kernels/fixtures.hpp"

namespace inferno::gpu {
namespace {

struct Shape {
  std::size_t rows;
  std::size_t columns;
  std::size_t tokens;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.rows << " x " << shape.columns << " times " << shape.tokens;
}

/// Where products go: behind columns that must stay as they are, with factors and added to what is there, or
/// not.
struct Target {
  std::uint32_t first_out = 0;
  bool use_factors = false;
  bool accumulate = false;
};

constexpr std::initializer_list<Target> kTargets = {
    {}, {.first_out = 3, .use_factors = true}, {.accumulate = true}};

class VulkanMatrixTest : public VulkanDotTest {
 protected:
  /// Runs `kernel` and compares with `sums` [tokens][rows]; `inputs` are the buffers in front of the factors.
  static void check(Kernel kernel, Grid grid, std::initializer_list<const Buffer*> inputs, const Shape& shape,
                    const std::vector<float>& sums, Random& random) {
    for (const auto& target : kTargets) {
      const std::size_t stride = shape.rows + target.first_out + 5;
      const auto before = random.vector(shape.tokens * stride);
      const auto factors = random.vector(shape.tokens);
      auto expected = before;
      for (std::size_t t = 0; t < shape.tokens; ++t) {
        for (std::size_t row = 0; row < shape.rows; ++row) {
          float& y = expected[t * stride + target.first_out + row];
          float sum = sums[t * shape.rows + row];
          if (target.use_factors) sum = arith::multiply(sum, factors[t]);
          y = target.accumulate ? arith::add(y, sum) : sum;
        }
      }
      const auto y = buffer(before);
      const auto factor_buffer = buffer(factors);
      const auto segments = static_cast<std::uint32_t>(padded(shape.columns) / kPadColumns);
      const MatrixConstants constants{.rows = static_cast<std::uint32_t>(shape.rows),
                                      .segments = segments,
                                      .tokens = static_cast<std::uint32_t>(shape.tokens),
                                      .first_out = target.first_out,
                                      .y_stride = static_cast<std::uint32_t>(stride),
                                      .lanes = matvec_lanes(segments),
                                      .use_factors = target.use_factors ? 1U : 0U,
                                      .accumulate = target.accumulate ? 1U : 0U};
      std::vector<Slice> slices;
      for (const auto* input : inputs) slices.emplace_back(*input);
      slices.emplace_back(*factor_buffer);
      slices.emplace_back(*y);
      device().run_once([&](Recorder& recorder) {
        recorder.dispatch(kernel, slices, std::as_bytes(std::span(&constants, 1)), grid);
      });
      ASSERT_TRUE(same(read<float>(*y), expected))
          << kernel_name(kernel) << ", " << shape << ", written from " << target.first_out << " on";
    }
  }

  static std::uint32_t segments_of(const Shape& shape) {
    return static_cast<std::uint32_t>(padded(shape.columns) / kPadColumns);
  }
  static Grid vector_grid(const Shape& shape) {
    return matvec_grid(static_cast<std::uint32_t>(shape.rows), segments_of(shape));
  }
  static Grid tile_grid(const Shape& shape) {
    return matmul_grid(static_cast<std::uint32_t>(shape.rows), static_cast<std::uint32_t>(shape.tokens));
  }

  static void check_q8(const Shape& shape, bool vector, bool tiles, bool broken = false) {
    Random random(static_cast<std::uint32_t>(shape.rows + 7 * shape.columns + shape.tokens));
    const auto matrix = random_q8(shape.rows, shape.columns, random);
    const auto x = quantize_rows(random.activations(shape.tokens * shape.columns, broken), shape.columns);
    std::vector<float> sums;
    for (const auto& token : x.rows) {
      for (std::size_t row = 0; row < shape.rows; ++row) {
        sums.push_back(arith::quantized_dot(
            std::span(matrix.values).subspan(row * shape.columns, shape.columns),
            std::span(matrix.scales).subspan(row * shape.columns / 32, shape.columns / 32), token));
      }
    }
    const auto weights = buffer(matrix.packed);
    const auto values = buffer(x.values);
    const auto scales = buffer(x.scales);
    if (vector)
      check(Kernel::matvec_q8, vector_grid(shape), {weights.get(), values.get(), scales.get()}, shape, sums,
            random);
    if (tiles)
      check(Kernel::matmul_q8, tile_grid(shape), {weights.get(), values.get(), scales.get()}, shape, sums,
            random);
  }

  /// `width` rows of gate, then as many of up.
  static void check_swiglu(std::size_t width, std::size_t columns, std::size_t tokens, bool broken = false) {
    Random random(static_cast<std::uint32_t>(width + 7 * columns + tokens));
    const auto matrix = random_q8(2 * width, columns, random);
    const auto x = quantize_rows(random.activations(tokens * columns, broken), columns);
    const auto factors = random.vector(tokens, 2.0F);
    const auto stride = padded(width);
    std::vector<float> expected(tokens * stride);
    std::vector<std::int8_t> expected_quants(tokens * stride);
    std::vector<float> expected_scales(tokens * stride / 32);
    for (std::size_t t = 0; t < tokens; ++t) {
      const auto product = [&](std::size_t row) {
        return arith::multiply(
            arith::quantized_dot(std::span(matrix.values).subspan(row * columns, columns),
                                 std::span(matrix.scales).subspan(row * columns / 32, columns / 32),
                                 x.rows[t]),
            factors[t]);
      };
      const auto row = std::span(expected).subspan(t * stride, width);
      for (std::size_t i = 0; i < width; ++i) row[i] = arith::swiglu(product(i), product(width + i));
      const auto quantized = arith::quantize_vector(row);
      std::ranges::copy(quantized.values, expected_quants.begin() + static_cast<std::ptrdiff_t>(t * stride));
      std::ranges::copy(quantized.scales,
                        expected_scales.begin() + static_cast<std::ptrdiff_t>(t * stride / 32));
    }
    const auto floats = buffer(std::vector<float>(tokens * stride));
    const auto quants = buffer(std::vector<std::int8_t>(tokens * stride));
    const auto scales = buffer(std::vector<float>(tokens * stride / 32));
    run(Kernel::matmul_swiglu_q8,
        {*buffer(matrix.packed), *buffer(x.values), *buffer(x.scales), *buffer(factors), *floats, *quants,
         *scales},
        MatmulSwigluConstants{static_cast<std::uint32_t>(width),
                              static_cast<std::uint32_t>(padded(columns) / kPadColumns),
                              static_cast<std::uint32_t>(tokens), static_cast<std::uint32_t>(stride),
                              kWriteQuants | kWriteFloats},
        {static_cast<std::uint32_t>(width / 32),
         divide_up(static_cast<std::uint32_t>(tokens), kMatmulTokens)});
    ASSERT_TRUE(same(read<float>(*floats), expected)) << width << " x " << columns << ", " << tokens;
    ASSERT_TRUE(same(read<float>(*scales), expected_scales));
    ASSERT_EQ(read<std::int8_t>(*quants), expected_quants);
  }

  static void check_floats(const Shape& shape, FloatFormat format, Kernel vector, Kernel tiles) {
    Random random(static_cast<std::uint32_t>(shape.rows + 7 * shape.columns + shape.tokens));
    const auto matrix = random_floats(shape.rows, shape.columns, format, random);
    const auto x = random.vector(shape.tokens * shape.columns, 4.0F);
    std::vector<float> sums;
    for (std::size_t t = 0; t < shape.tokens; ++t) {
      for (std::size_t row = 0; row < shape.rows; ++row) {
        sums.push_back(arith::float_dot(row_of(matrix.values, row, shape.columns, shape.columns),
                                        row_of(x, t, shape.columns, shape.columns)));
      }
    }
    const auto weights = buffer(matrix.packed);
    const auto values = buffer(pad_rows(std::span<const float>(x), shape.columns));
    if (shape.tokens <= kMatvecTokens)
      check(vector, vector_grid(shape), {weights.get(), values.get()}, shape, sums, random);
    check(tiles, tile_grid(shape), {weights.get(), values.get()}, shape, sums, random);
  }
};

TEST_P(VulkanMatrixTest, VectorsTimesInt8) {
  for (const auto& shape : std::initializer_list<Shape>{{50, 96, 1},
                                                        {1, 32, 1},
                                                        {7, 256, 3},
                                                        {8, 288, 8},
                                                        {130, 1024, 2},
                                                        {33, 3072, 1},
                                                        {9, 5120, 8},
                                                        {17, 25600, 5}}) {
    check_q8(shape, true, false);
  }
}

TEST_P(VulkanMatrixTest, TilesTimesInt8) {
  for (const auto& shape : std::initializer_list<Shape>{{50, 96, 1},
                                                        {1, 32, 9},
                                                        {64, 256, 64},
                                                        {65, 288, 65},
                                                        {130, 1024, 7},
                                                        {3, 3072, 70},
                                                        {40, 544, 16},
                                                        {3216, 288, 33},
                                                        {17, 4352, 40},
                                                        {200, 800, 200},
                                                        {70, 96, 130},
                                                        {100, 2048, 101},
                                                        {1601, 544, 450}}) {
    check_q8(shape, false, true);
  }
}

TEST_P(VulkanMatrixTest, ValuesThatAreNotFinite) {
  check_q8({20, 320, 8}, true, true, true);
}

TEST_P(VulkanMatrixTest, AsManyRowsAsTheVocabulary) {
  check_q8({151936, 32, 1}, true, false);
}

TEST_P(VulkanMatrixTest, Floats) {
  for (const auto& shape : std::initializer_list<Shape>{
           {50, 96, 1}, {1, 1, 1}, {7, 300, 3}, {8, 256, 8}, {9, 2049, 5}, {70, 50, 66}}) {
    check_floats(shape, FloatFormat::f32, Kernel::matvec_f32, Kernel::matmul_f32);
    check_floats(shape, FloatFormat::f16, Kernel::matvec_f16, Kernel::matmul_f16);
    check_floats(shape, FloatFormat::bf16, Kernel::matvec_bf16, Kernel::matmul_bf16);
  }
}

TEST_P(VulkanMatrixTest, TilesThatActivate) {
  if (!device().has(Kernel::matmul_swiglu_q8)) GTEST_SKIP() << "the device has no such kernel";
  check_swiglu(32, 96, 9);
  check_swiglu(96, 288, 65);
  check_swiglu(160, 1024, 130);
  check_swiglu(64, 2304, 40);
  check_swiglu(800, 544, 500);
  check_swiglu(96, 288, 70, true);
}

INFERNO_WITHOUT_AND_WITH_DOT(VulkanMatrixTest);

}  // namespace
}  // namespace inferno::gpu
