#include "backend/vulkan/kernels/fixtures.hpp"

namespace inferno::gpu {
namespace {

constexpr float kEpsilon = 1e-6F;

/// A vector, the weight of its norm, and the norm with a matrix after it as the contract has it.
struct NormedProduct {
  std::vector<float> x;
  std::vector<float> weight;
  Q8Matrix matrix;
  std::vector<float> expected;  // [rows]

  NormedProduct(std::size_t rows, std::size_t columns, bool broken, Random& random)
      : x(random.activations(columns, broken)),
        weight(random.vector(columns, 2.0F)),
        matrix(random_q8(rows, columns, random)) {
    std::vector<float> weighted;
    for (std::size_t i = 0; i < columns; ++i) weighted.push_back(arith::multiply(x[i], weight[i]));
    const auto quantized = arith::quantize_vector(weighted);
    const float factor = arith::inverse_rms(x, inverse_length(), kEpsilon);
    for (std::size_t row = 0; row < rows; ++row) {
      expected.push_back(arith::multiply(
          arith::quantized_dot(row_of(matrix.values, row, columns, columns),
                               row_of(matrix.scales, row, columns / 32, columns / 32), quantized),
          factor));
    }
  }
  float inverse_length() const { return 1.0F / static_cast<float>(x.size()); }
  std::uint32_t segments() const { return u32(padded(x.size()) / kPadColumns); }
};

class VulkanFusedTest : public VulkanDotTest {
 protected:
  static void check_product(std::size_t rows, std::size_t columns, bool broken = false) {
    Random random(u32(rows + columns));
    const NormedProduct product(rows, columns, broken, random);
    constexpr std::size_t kFirst = 3;
    auto expected = std::vector<float>(rows + 2 * kFirst, 7.0F);
    const auto y = buffer(expected);
    std::copy(product.expected.begin(), product.expected.end(), expected.begin() + kFirst);
    const auto segments = product.segments();
    run(Kernel::norm_matvec_q8,
        {*buffer(product.matrix.packed), *buffer(pad_rows(std::span<const float>(product.x), columns)),
         *buffer(pad_rows(std::span<const float>(product.weight), columns)), *y},
        NormMatrixConstants{u32(rows), segments, kFirst, fused_lanes(segments), product.inverse_length(),
                            kEpsilon},
        fused_grid(u32(rows), segments));
    ASSERT_TRUE(same(read<float>(*y), expected)) << rows << " x " << columns;
  }

  static void check_swiglu(std::size_t width, std::size_t columns, bool broken = false) {
    Random random(u32(width + columns));
    const NormedProduct product(2 * width, columns, broken, random);
    std::vector<float> activated;
    for (std::size_t i = 0; i < width; ++i)
      activated.push_back(arith::swiglu(product.expected[i], product.expected[width + i]));
    activated.resize(padded(width));
    const auto activated_buffer = buffer(std::vector<float>(padded(width)));
    const auto segments = product.segments();
    run(Kernel::norm_swiglu_q8,
        {*buffer(product.matrix.packed), *buffer(pad_rows(std::span<const float>(product.x), columns)),
         *buffer(pad_rows(std::span<const float>(product.weight), columns)), *activated_buffer},
        NormSwigluConstants{u32(width), segments, fused_lanes(segments), product.inverse_length(), kEpsilon},
        fused_grid(u32(width), segments));
    ASSERT_TRUE(same(read<float>(*activated_buffer), activated)) << width << " x " << columns;
  }

  static void check_added_product(std::size_t rows, std::size_t columns, bool broken = false) {
    Random random(u32(rows + columns));
    const auto x = random.activations(columns, broken);
    const auto matrix = random_q8(rows, columns, random);
    const auto quantized = arith::quantize_vector(x);
    constexpr std::size_t kFirst = 5;
    auto expected = random.vector(rows + 2 * kFirst);
    const auto y = buffer(expected);
    for (std::size_t row = 0; row < rows; ++row) {
      float& sum = expected[kFirst + row];
      sum = arith::add(
          sum, arith::quantized_dot(row_of(matrix.values, row, columns, columns),
                                    row_of(matrix.scales, row, columns / 32, columns / 32), quantized));
    }
    const auto segments = u32(padded(columns) / kPadColumns);
    run(Kernel::quantize_matvec_q8,
        {*buffer(matrix.packed), *buffer(pad_rows(std::span<const float>(x), columns)), *y},
        QuantizeMatrixConstants{u32(rows), segments, kFirst, fused_lanes(segments)},
        fused_grid(u32(rows), segments));
    ASSERT_TRUE(same(read<float>(*y), expected)) << rows << " x " << columns;
  }
};

TEST_P(VulkanFusedTest, NormAndProduct) {
  check_product(50, 96);
  check_product(1, 32);
  check_product(70, 256);
  check_product(17, 992);
  check_product(300, 1024);
  check_product(33, 2560, true);
  check_product(20, 8192);
}

TEST_P(VulkanFusedTest, NormGateUpAndSwiglu) {
  check_swiglu(8, 32);
  check_swiglu(48, 96);
  check_swiglu(320, 1024);
  check_swiglu(32, 992, true);
  check_swiglu(40, 2560);
  check_swiglu(32, 8192);
}

TEST_P(VulkanFusedTest, QuantizeProductAndAddition) {
  check_added_product(50, 96);
  check_added_product(1, 32);
  check_added_product(70, 256);
  check_added_product(33, 768, true);
  check_added_product(300, 1024);
  check_added_product(64, 2048);
  check_added_product(9, 3072);
  check_added_product(24, 4128);
  check_added_product(17, 25600, true);
}

INFERNO_WITHOUT_AND_WITH_DOT(VulkanFusedTest);

}  // namespace
}  // namespace inferno::gpu
