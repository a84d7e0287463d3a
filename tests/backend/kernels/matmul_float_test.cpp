#include <cstring>

#include "backend/kernels/fixtures.hpp"

namespace inferno::cpu {
namespace {

class KernelMatmulFloat : public KernelTest {
 protected:
  void check(const char* format_name, std::uint32_t rows, std::uint32_t columns, std::uint32_t tokens,
             bool broken) {
    SCOPED_TRACE(testing::Message() << format_name << ", " << rows << " rows, " << columns << " columns, "
                                    << tokens << " tokens");
    Random random(rows + columns + tokens);
    const auto& format = *quant::find_format(std::string_view(format_name));
    Matrix matrix{.format = &format, .rows = rows, .columns = columns, .bytes = nullptr, .name = "test"};
    // One byte off every alignment: a file promises none within a row.
    std::vector<std::byte> bytes(matrix.total_bytes() + 1);
    auto weights = random.vector(std::size_t{rows} * columns, 2.0F);
    if (broken) weights[columns / 2] = kInfinity;
    format.encode(weights.data(), weights.size(), bytes.data() + 1);
    matrix.bytes = bytes.data() + 1;
    format.decode(matrix.bytes, weights.size(), weights.data());

    auto x = random.vector(std::size_t{tokens} * columns, 3.0F);
    if (broken) x[columns / 3] = kNaN;
    const auto factors = random.vector(tokens);
    const std::uint32_t first = rows > 4 ? 1 : 0;
    const std::size_t stride = rows + 3;
    for (const bool scaled : {false, true}) {
      std::vector<float> y(tokens * stride, -7.0F);
      kernels().matmul_float(matrix, first, rows, x.data(), tokens, scaled ? factors.data() : nullptr,
                             y.data(), stride);
      std::vector<float> expected(tokens * stride, -7.0F);
      for (std::size_t t = 0; t < tokens; ++t) {
        for (std::size_t row = first; row < rows; ++row) {
          const float sum = arith::float_dot(std::span(weights).subspan(row * columns, columns),
                                             std::span(x).subspan(t * columns, columns));
          expected[t * stride + row] = scaled ? arith::multiply(sum, factors[t]) : sum;
        }
      }
      ASSERT_TRUE(same(y, expected));
    }
  }
};

TEST_P(KernelMatmulFloat, EqualsTheContract) {
  for (const char* format : {"f32", "f16", "bf16"}) {
    for (const std::uint32_t rows : {1U, 5U, 16U, 17U}) {
      for (const std::uint32_t columns : {24U, 96U, 256U, 257U, 640U, 1000U}) {
        for (const std::uint32_t tokens : {1U, 2U, 4U, 5U, 11U}) check(format, rows, columns, tokens, false);
      }
    }
  }
}

TEST_P(KernelMatmulFloat, InfinityAndNan) {
  for (const char* format : {"f32", "f16", "bf16"}) check(format, 9, 300, 6, true);
}

/// Every half, subnormals included, becomes the float that it is.
TEST_P(KernelMatmulFloat, EveryHalf) {
  const auto& format = *quant::find_format(std::string_view("f16"));
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  const Matrix matrix{.format = &format,
                      .rows = 65536,
                      .columns = 1,
                      .bytes = reinterpret_cast<const std::byte*>(halves.data()),
                      .name = "halves"};
  std::vector<float> expected(65536);
  format.decode(matrix.bytes, halves.size(), expected.data());
  const float one = 1.0F;
  std::vector<float> y(65536);
  kernels().matmul_float(matrix, 0, matrix.rows, &one, 1, nullptr, y.data(), y.size());
  EXPECT_TRUE(same(y, expected));
}

INFERNO_FOR_EACH_KERNEL_SET(KernelMatmulFloat);

}  // namespace
}  // namespace inferno::cpu
