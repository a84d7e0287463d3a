#include <algorithm>

#include "backend/kernels/fixtures.hpp"

namespace inferno::cpu {
namespace {

constexpr float kEpsilon = 1e-6F;

/// What a batch holds shows in products: with the matrix whose rows are single ones, y[i] = value i * scale.
/// The contract's vector, multiplied out the same way.
std::vector<float> values_of(const arith::QuantizedVector& x) {
  std::vector<float> result;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    result.push_back(arith::multiply(arith::to_float(x.values[i]), x.scales[i / 32]));
  }
  return result;
}

/// The integers of one column after the other, read back through a matrix of unit rows.
std::vector<float> values_of(const KernelSet& kernels, const QuantizedBatch& batch, std::uint32_t token,
                             std::uint32_t tokens) {
  const auto columns = batch.columns;
  const std::size_t row_bytes = columns / 32 * 34;
  std::vector<std::byte> unit(row_bytes * columns);
  for (std::size_t row = 0; row < columns; ++row) {
    for (std::size_t block = 0; block < columns / 32; ++block) {
      unit[row * row_bytes + block * 34 + 1] = std::byte{0x3C};  // 1.0 as a half
    }
    unit[row * row_bytes + row / 32 * 34 + 2 + row % 32] = std::byte{1};
  }
  const Matrix matrix{quant::find_format(std::string_view("q8_0")), columns, columns, unit.data(), "unit"};
  PackedMatrix packed{nullptr, columns, columns};
  std::vector<std::byte> bytes(packed.total_bytes());
  EXPECT_EQ(pack_panels(matrix, 0, packed.panels(), bytes.data()), kAllFinite);
  packed.bytes = bytes.data();
  std::vector<float> y(std::size_t{tokens} * columns);
  kernels.matmul(packed, 0, packed.panels(), batch, tokens, nullptr, y.data(), columns);
  return {y.begin() + static_cast<std::ptrdiff_t>(token) * columns,
          y.begin() + static_cast<std::ptrdiff_t>(token + 1) * columns};
}

class KernelVectors : public KernelTest {};

TEST_P(KernelVectors, Quantize) {
  Random random(1);
  for (const std::uint32_t columns : {32U, 96U, 512U, 544U}) {
    for (const std::uint32_t tokens : {1U, 7U, 17U}) {
      const Batch batch(tokens, columns);
      std::vector<std::vector<float>> x;
      for (std::uint32_t t = 0; t < tokens; ++t) {
        x.push_back(random.activations(columns));
        kernels().quantize(x[t].data(), batch.view(), t);
      }
      for (const auto t : {0U, tokens / 2, tokens - 1}) {
        ASSERT_TRUE(
            same(values_of(kernels(), batch.view(), t, tokens), values_of(arith::quantize_vector(x[t]))))
            << columns << " columns, token " << t;
      }
    }
  }
}

/// Blocks around every threshold of the contract, and a NaN in each place of a block.
TEST_P(KernelVectors, QuantizeAtTheEdges) {
  Random random(2);
  const auto check = [&](const std::vector<float>& x) {
    const Batch batch(1, 32);
    kernels().quantize(x.data(), batch.view(), 0);
    // A broken block is not a number, all of it; a whole product would be, too.
    EXPECT_TRUE(same(values_of(kernels(), batch.view(), 0, 1), values_of(arith::quantize_vector(x))));
  };
  for (const std::uint32_t bits :
       {arith::kTinyBits - 1, arith::kTinyBits, arith::kTinyBits + 1, arith::kHugeBits - 1, arith::kHugeBits,
        0x7F7FFFFFU, 0x7F800000U, 0x7F800001U, 0x7FC00000U, 0xFF800000U, 0xFFFFFFFFU, 0x80000000U,
        0x00000001U, 0x80000001U}) {
    for (std::size_t place = 0; place < 32; place += 5) {
      std::vector<float> x(32, 0.0F);
      x[place] = arith::float_from_bits(bits);
      check(x);
      x = random.vector(32);
      x[place] = arith::float_from_bits(bits);
      check(x);
    }
  }
  // Halves between two integers round to the even one.
  std::vector<float> x(32, 0.5F);
  x[0] = 127.0F;
  for (std::size_t i = 1; i < 32; ++i) x[i] = static_cast<float>(i) - 15.5F;
  check(x);
}

TEST_P(KernelVectors, NormQuantize) {
  Random random(3);
  for (const std::uint32_t width : {1U, 24U, 32U, 33U, 96U, 576U, 1024U, 1040U, 3072U}) {
    const auto columns = (width + 31) / 32 * 32;
    const float inverse_length = 1.0F / static_cast<float>(width);
    const Batch batch(5, columns);
    for (std::uint32_t token = 0; token < 5; ++token) {
      const auto x = random.vector(width, 4.0F);
      const auto weight = random.vector(width, 2.0F);
      std::vector<float> weighted(width);
      std::transform(x.begin(), x.end(), weight.begin(), weighted.begin(), arith::multiply);
      const float factor = kernels().norm_quantize(x.data(), weight.data(), width, inverse_length, kEpsilon,
                                                   batch.view(), token);
      EXPECT_EQ(factor, arith::inverse_rms(x, inverse_length, kEpsilon)) << width;
      if (columns <= 576) {
        std::vector<float> expected = values_of(arith::quantize_vector(weighted));
        ASSERT_TRUE(same(values_of(kernels(), batch.view(), token, token + 1), expected)) << width;
      }
      std::vector<float> floats(width + 1, -3.0F);
      weighted.push_back(-3.0F);
      EXPECT_EQ(kernels().norm_float(x.data(), weight.data(), width, inverse_length, kEpsilon, floats.data()),
                factor);
      EXPECT_TRUE(same(floats, weighted)) << width;
    }
  }
}

TEST_P(KernelVectors, NormOfSomethingBrokenIsNotANumber) {
  std::vector<float> x(64, 1.0F);
  const std::vector<float> weight(64, 1.0F);
  const Batch batch(1, 64);
  x[40] = kNaN;
  EXPECT_TRUE(
      std::isnan(kernels().norm_quantize(x.data(), weight.data(), 64, 1.0F / 64, kEpsilon, batch.view(), 0)));
  const auto values = values_of(kernels(), batch.view(), 0, 1);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_TRUE(std::isnan(values[63]));
}

/// exp and the reciprocal at close steps over all that is not clamped, and beyond.
TEST_P(KernelVectors, Swiglu) {
  std::vector<float> gate;
  for (float x = -200.0F; x < 200.0F; x += 0.0107F) gate.push_back(x);
  for (const std::uint32_t bits :
       {0x00000000U, 0x80000000U, 0x00000001U, 0x80000001U, 0x7F7FFFFFU, 0xFF7FFFFFU, 0x7F800000U,
        0xFF800000U, 0x7FC00000U, 0xFFC00000U, 0x7F800001U, 0x7FFFFFFFU}) {
    gate.push_back(arith::float_from_bits(bits));
  }
  Random random(4);
  auto up = random.vector(gate.size(), 5.0F);
  up[17] = kNaN;
  up[18] = kInfinity;
  std::vector<float> expected;
  for (std::size_t i = 0; i < gate.size(); ++i) expected.push_back(arith::swiglu(gate[i], up[i]));
  for (const std::size_t count : {gate.size(), std::size_t{1}, std::size_t{15}, std::size_t{17}}) {
    auto actual = gate;
    kernels().swiglu(actual.data(), up.data(), count);
    EXPECT_TRUE(same(std::span(actual).first(count), std::span(expected).first(count)));
    EXPECT_TRUE(same(std::span(actual).subspan(count), std::span(gate).subspan(count)));
  }
}

TEST_P(KernelVectors, Add) {
  Random random(5);
  for (const std::size_t count : {1U, 15U, 16U, 17U, 100U}) {
    auto y = random.vector(count + 1);
    const auto x = random.vector(count);
    auto expected = y;
    for (std::size_t i = 0; i < count; ++i) expected[i] = arith::add(expected[i], x[i]);
    kernels().add(y.data(), x.data(), count);
    EXPECT_TRUE(same(y, expected));
  }
}

TEST_P(KernelVectors, NormRotate) {
  Random random(6);
  for (const std::uint32_t head_dim : {2U, 24U, 32U, 64U, 80U, 96U, 128U, 256U}) {
    const auto weight = random.vector(head_dim, 2.0F);
    const auto sine = random.vector(head_dim / 2);
    const auto cosine = random.vector(head_dim / 2);
    const float inverse_length = 1.0F / static_cast<float>(head_dim);
    auto head = random.vector(head_dim + 1, 3.0F);
    auto expected = head;
    const auto inside = std::span(expected).first(head_dim);
    const float factor = arith::inverse_rms(inside, inverse_length, kEpsilon);
    for (std::size_t i = 0; i < head_dim; ++i) {
      expected[i] = arith::multiply(arith::multiply(expected[i], factor), weight[i]);
    }
    arith::rotate(inside, sine, cosine);
    kernels().norm_rotate(head.data(), weight.data(), head_dim, inverse_length, kEpsilon, sine.data(),
                          cosine.data());
    EXPECT_TRUE(same(head, expected)) << head_dim;
  }
}

INFERNO_FOR_EACH_KERNEL_SET(KernelVectors);

}  // namespace
}  // namespace inferno::cpu
