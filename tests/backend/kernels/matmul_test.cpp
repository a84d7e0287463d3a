#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>

#include "backend/kernels/fixtures.hpp"
#include "quant/half.hpp"

namespace inferno::cpu {
namespace {

/// A matrix of blocks made by hand: every integer of the format, scales of either sign, zero, subnormal and
/// large.
class Weights {
 public:
  Weights(Random& random, std::string_view format, std::uint32_t rows, std::uint32_t columns) {
    matrix_.format = quant::find_format(format);
    matrix_.rows = rows;
    matrix_.columns = columns;
    bytes_.resize(matrix_.total_bytes());
    for (auto& byte : bytes_) byte = static_cast<std::byte>(random.integer(0, 255));
    const std::vector<std::uint16_t> scales{0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0x2C00, 0xA800};
    const auto block_bytes = matrix_.format->block_bytes;
    for (std::size_t at = 0; at < bytes_.size(); at += block_bytes) {
      auto scale = quant::float_to_half(random.uniform(-0.01F, 0.01F));
      if (random.integer(0, 9) == 0) scale = scales[static_cast<std::size_t>(random.integer(0, 6))];
      std::memcpy(&bytes_[at], &scale, sizeof scale);
      // Runs of the least integer, whose magnitude is one more than the largest.
      if (random.integer(0, 9) == 0 && format == "q8_0") std::fill_n(&bytes_[at + 2], 32, std::byte{0x80});
    }
    matrix_.bytes = bytes_.data();
    packed_.rows = rows;
    packed_.columns = columns;
    packed_bytes_.resize(packed_.total_bytes() + 64);
    void* aligned = packed_bytes_.data();
    std::size_t space = packed_bytes_.size();
    std::align(64, packed_.total_bytes(), aligned, space);
    EXPECT_EQ(pack_panels(matrix_, 0, packed_.panels(), static_cast<std::byte*>(aligned)), kAllFinite);
    packed_.bytes = static_cast<std::byte*>(aligned);
  }

  const PackedMatrix& packed() const { return packed_; }

  /// The contract's product with one vector.
  std::vector<float> times(std::span<const float> x) const {
    const auto quantized = arith::quantize_vector(x);
    const std::size_t blocks = matrix_.columns / 32;
    std::vector<std::int8_t> integers(matrix_.columns);
    std::vector<std::uint16_t> halves(blocks);
    std::vector<float> scales(blocks);
    std::vector<float> y;
    for (std::uint32_t row = 0; row < matrix_.rows; ++row) {
      matrix_.format->integers(matrix_.row(row), blocks, integers.data(), halves.data());
      std::transform(halves.begin(), halves.end(), scales.begin(), quant::half_to_float);
      y.push_back(arith::quantized_dot(integers, scales, quantized));
    }
    return y;
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<std::byte> packed_bytes_;
  Matrix matrix_;
  PackedMatrix packed_;
};

constexpr float kUntouched = -12345.0F;

class KernelMatmul : public KernelTest {
 protected:
  /// All of x times the panels [first, end) of the weights, against the contract.
  void check(const Weights& weights, const std::vector<std::vector<float>>& x, std::uint32_t first,
             std::uint32_t end, std::span<const float> factors, std::size_t spare) {
    const auto& matrix = weights.packed();
    const auto tokens = static_cast<std::uint32_t>(x.size());
    const Batch batch(tokens, matrix.columns);
    for (std::uint32_t t = 0; t < tokens; ++t) kernels().quantize(x[t].data(), batch.view(), t);
    const std::size_t stride = matrix.rows + spare;
    std::vector<float> y(tokens * stride, kUntouched);
    kernels().matmul(matrix, first, end, batch.view(), tokens, factors.empty() ? nullptr : factors.data(),
                     y.data(), stride);
    for (std::uint32_t t = 0; t < tokens; ++t) {
      auto expected = weights.times(x[t]);
      for (float& value : expected) {
        if (!factors.empty()) value = arith::multiply(value, factors[t]);
      }
      expected.resize(stride, kUntouched);
      const auto begin = std::min<std::size_t>(std::size_t{first} * kPanelRows, matrix.rows);
      const auto stop = std::min<std::size_t>(std::size_t{end} * kPanelRows, matrix.rows);
      std::fill(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(begin), kUntouched);
      std::fill(expected.begin() + static_cast<std::ptrdiff_t>(stop), expected.end(), kUntouched);
      ASSERT_TRUE(same(std::span(y).subspan(t * stride, stride), expected))
          << "token " << t << " of " << tokens;
    }
  }
};

TEST_P(KernelMatmul, EqualsTheContractOnOddShapes) {
  Random random(1);
  for (const std::uint32_t rows : {1U, 15U, 16U, 17U, 49U, 100U}) {
    for (const std::uint32_t columns : {32U, 64U, 288U, 1024U, 3072U}) {
      const Weights weights(random, "q8_0", rows, columns);
      for (const std::size_t tokens : {1U, 2U, 3U, 7U, 12U, 13U, 100U}) {
        if (tokens * columns * rows > 10'000'000) continue;
        std::vector<std::vector<float>> x;
        for (std::size_t t = 0; t < tokens; ++t) x.push_back(random.activations(columns));
        SCOPED_TRACE(testing::Message()
                     << rows << " rows, " << columns << " columns, " << tokens << " tokens");
        check(weights, x, 0, weights.packed().panels(), {}, 0);
      }
    }
  }
}

TEST_P(KernelMatmul, EveryNumberOfTokens) {
  Random random(2);
  const Weights weights(random, "q8_0", 48, 320);
  std::vector<std::vector<float>> x;
  for (std::size_t tokens = 1; tokens <= 40; ++tokens) {
    x.push_back(random.activations(320));
    check(weights, x, 0, 3, random.vector(tokens), 5);
  }
}

TEST_P(KernelMatmul, ManyTokens) {
  Random random(3);
  const Weights weights(random, "q8_0", 33, 96);
  std::vector<std::vector<float>> x;
  for (std::size_t t = 0; t < 530; ++t) x.push_back(random.activations(96));
  check(weights, x, 0, 3, random.vector(x.size()), 0);
}

TEST_P(KernelMatmul, PanelsOfOneShare) {
  Random random(4);
  const Weights weights(random, "q8_0", 100, 544);
  for (const std::size_t tokens : {1U, 9U, 30U}) {
    std::vector<std::vector<float>> x;
    for (std::size_t t = 0; t < tokens; ++t) x.push_back(random.activations(544));
    for (const auto& [first, end] : {std::pair{0U, 0U}, {0U, 1U}, {1U, 4U}, {3U, 7U}, {6U, 7U}, {2U, 6U}}) {
      SCOPED_TRACE(testing::Message() << "panels " << first << " to " << end);
      check(weights, x, first, end, random.vector(tokens), 3);
    }
  }
}

TEST_P(KernelMatmul, OtherFormats) {
  Random random(5);
  for (const char* format : {"q4_0", "q5_0"}) {
    const Weights weights(random, format, 37, 416);
    for (const std::size_t tokens : {1U, 5U, 20U}) {
      std::vector<std::vector<float>> x;
      for (std::size_t t = 0; t < tokens; ++t) x.push_back(random.activations(416));
      SCOPED_TRACE(format);
      check(weights, x, 0, 3, {}, 0);
    }
  }
}

TEST_P(KernelMatmul, BrokenActivationsStayInTheirToken) {
  Random random(6);
  const Weights weights(random, "q8_0", 20, 512);
  std::vector<std::vector<float>> x;
  for (std::size_t t = 0; t < 24; ++t) x.push_back(random.activations(512, t % 3 == 1));
  std::vector<float> factors = random.vector(x.size());
  factors[3] = kNaN;
  factors[4] = kInfinity;
  check(weights, x, 0, 2, factors, 0);
}

/// The largest sums that a block can have, of either sign.
TEST_P(KernelMatmul, Extremes) {
  Random random(7);
  const Weights weights(random, "q8_0", 64, 256);
  std::vector<std::vector<float>> x{std::vector<float>(256, 1.0F), std::vector<float>(256, -1.0F),
                                    std::vector<float>(256, 0.0F), std::vector<float>(256, -0.0F)};
  for (std::size_t i = 1; i < 256; i += 2) x[1][i] = 1.0F;
  check(weights, x, 0, 4, {}, 0);
}

INFERNO_FOR_EACH_KERNEL_SET(KernelMatmul);

}  // namespace
}  // namespace inferno::cpu
