#include <cmath>

#include "backend/vulkan/kernels/fixtures.hpp"
#include "quant/half.hpp"

namespace inferno::gpu {
namespace {

using arith::multiply;

constexpr std::initializer_list<std::size_t> kWidths = {1, 31, 32, 50, 96, 256, 1000, 1024, 5120};
constexpr std::size_t kTokens = 3;

class VulkanVectorTest : public VulkanKernelTest {
 protected:
  /// What kernels that quantize write for vectors [T][columns]: `values` padded, `quants` and `scales`.
  struct Written {
    std::unique_ptr<Buffer> floats;
    std::unique_ptr<Buffer> quants;
    std::unique_ptr<Buffer> scales;
  };
  static Written written(std::size_t columns) {
    const std::size_t elements = kTokens * padded(columns);
    return {results<float>(elements), results<std::int8_t>(elements), results<float>(elements / 32)};
  }
  static void check_quants(const Written& actual, std::span<const float> expected, std::size_t columns) {
    const auto quantized = quantize_rows(expected, columns);
    EXPECT_EQ(read<std::int8_t>(*actual.quants), quantized.values) << columns << " columns";
    EXPECT_TRUE(same(read<float>(*actual.scales), quantized.scales)) << columns << " columns";
  }
};

TEST_F(VulkanVectorTest, Norm) {
  Random random(1);
  for (const auto columns : kWidths) {
    const auto x = random.activations(kTokens * columns, columns > 200);
    const auto weight = random.vector(columns, 2.0F);
    std::vector<float> weighted;
    std::vector<float> factors;
    const float inverse_length = 1.0F / static_cast<float>(columns);
    for (std::size_t t = 0; t < kTokens; ++t) {
      const auto token = std::span(x).subspan(t * columns, columns);
      for (std::size_t i = 0; i < columns; ++i) weighted.push_back(multiply(token[i], weight[i]));
      factors.push_back(arith::inverse_rms(token, inverse_length, 1e-6F));
    }
    const auto x_buffer = buffer(pad_rows(std::span<const float>(x), columns));
    const auto weight_buffer = buffer(pad_rows(std::span<const float>(weight), columns));
    const auto to = written(columns);
    const auto factor_buffer = results<float>(kTokens);
    run(Kernel::norm, {*x_buffer, *weight_buffer, *to.floats, *to.quants, *to.scales, *factor_buffer},
        NormConstants{u32(columns), u32(padded(columns)), inverse_length, 1e-6F, kWriteQuants | kWriteFloats},
        {1, kTokens});
    EXPECT_TRUE(same(read<float>(*factor_buffer), factors)) << columns << " columns";
    EXPECT_TRUE(same(read<float>(*to.floats), pad_rows(std::span<const float>(weighted), columns)));
    check_quants(to, weighted, columns);
  }
}

TEST_F(VulkanVectorTest, NormWritesWhatItIsAskedFor) {
  Random random(2);
  const std::size_t columns = 96;
  const auto x = buffer(pad_rows(std::span<const float>(random.vector(kTokens * columns)), columns));
  const auto to = written(columns);
  const auto factors = results<float>(kTokens);
  for (const auto write : {0U, kWriteFloats, kWriteQuants}) {
    const auto floats = read<std::uint32_t>(*to.floats);
    const auto quants = read<std::uint32_t>(*to.quants);
    run(Kernel::norm, {*x, *x, *to.floats, *to.quants, *to.scales, *factors},
        NormConstants{u32(columns), u32(padded(columns)), 1.0F / 96, 1e-6F, write}, {1, kTokens});
    EXPECT_EQ(read<std::uint32_t>(*to.floats) != floats, write == kWriteFloats);
    EXPECT_EQ(read<std::uint32_t>(*to.quants) != quants, write == kWriteQuants);
  }
}

TEST_F(VulkanVectorTest, Quantize) {
  Random random(3);
  for (const auto columns : kWidths) {
    auto x = random.activations(kTokens * columns, true);
    x[0] = 0x1p-149F;
    const auto x_buffer = buffer(pad_rows(std::span<const float>(x), columns));
    const auto to = written(columns);
    run(Kernel::quantize, {*x_buffer, *to.quants, *to.scales},
        QuantizeConstants{u32(columns), u32(padded(columns))}, {u32(padded(columns) / 256), kTokens});
    check_quants(to, x, columns);
  }
}

TEST_F(VulkanVectorTest, Swiglu) {
  if (!device().capabilities().keeps_subnormals) GTEST_SKIP() << "some of these products are subnormal";
  Random random(4);
  for (const auto columns : kWidths) {
    // Up stands behind gate, a few columns further than it must.
    const std::size_t up_offset = columns + 3;
    const std::size_t in_stride = up_offset + columns + 2;
    auto gate_up = random.vector(kTokens * in_stride, 8.0F);
    for (std::size_t i = 0; i < gate_up.size(); i += 17)
      gate_up[i] = std::ldexp(gate_up[i], random.integer(-90, 20));
    gate_up[1] = kInfinity;
    gate_up[in_stride] = -kInfinity;
    gate_up[2 * in_stride] = kNaN;
    std::vector<float> expected;
    for (std::size_t t = 0; t < kTokens; ++t) {
      for (std::size_t i = 0; i < columns; ++i) {
        expected.push_back(arith::swiglu(gate_up[t * in_stride + i], gate_up[t * in_stride + up_offset + i]));
      }
    }
    const auto from = buffer(gate_up);
    const auto to = written(columns);
    run(Kernel::swiglu, {*from, *to.floats, *to.quants, *to.scales},
        SwigluConstants{u32(columns), u32(up_offset), u32(in_stride), u32(padded(columns)),
                        kWriteFloats | kWriteQuants},
        {u32(padded(columns) / 256), kTokens});
    EXPECT_TRUE(same(read<float>(*to.floats), pad_rows(std::span<const float>(expected), columns)));
    check_quants(to, expected, columns);
  }
}

TEST_F(VulkanVectorTest, AddAndGather) {
  Random random(5);
  for (const auto columns : kWidths) {
    const auto x = random.activations(kTokens * columns, true);
    const auto branch = random.activations(kTokens * columns);
    std::vector<float> sum;
    for (std::size_t i = 0; i < x.size(); ++i) sum.push_back(arith::add(x[i], branch[i]));
    const auto x_buffer = buffer(pad_rows(std::span<const float>(x), columns));
    const auto branch_buffer = buffer(pad_rows(std::span<const float>(branch), columns));
    const Grid grid{u32(padded(columns) / 256), kTokens};
    run(Kernel::add, {*x_buffer, *branch_buffer}, AddConstants{u32(columns), u32(padded(columns))}, grid);
    EXPECT_TRUE(same(read<float>(*x_buffer), pad_rows(std::span<const float>(sum), columns)));

    const std::vector<std::uint32_t> map = {2, 0, 2};
    const auto map_buffer = buffer(map);
    const auto gathered = buffer(std::vector<float>(kTokens * padded(columns)));
    run(Kernel::gather, {*x_buffer, *map_buffer, *gathered},
        GatherConstants{u32(columns), u32(padded(columns))}, grid);
    const auto rows = read<float>(*gathered);
    for (std::size_t i = 0; i < map.size(); ++i) {
      EXPECT_TRUE(same(row_of(rows, i, columns, padded(columns)), row_of(sum, map[i], columns, columns)));
    }
  }
}

class VulkanEmbeddingTest : public VulkanVectorTest {
 protected:
  /// Embeds with a table of `rows` that is bound from `first_row` on; `expected(row)` is a row of the table.
  template <typename Expected>
  static void check(Kernel kernel, const std::vector<std::byte>& packed, std::size_t rows,
                    std::size_t columns, const Expected& expected) {
    constexpr std::uint32_t kFirstRow = 100;
    const auto last = static_cast<std::int32_t>(kFirstRow + rows - 1);
    const std::vector<std::int32_t> tokens = {last, 99, 100, last + 1, 0};  // three of other pieces
    const auto token_buffer = buffer(tokens);
    const auto table = buffer(packed);
    const auto x = results<float>(tokens.size() * padded(columns));
    const auto segments = u32(padded(columns) / 256);
    run(kernel, {*token_buffer, *table, *x},
        EmbedConstants{u32(columns), segments, kFirstRow, u32(rows), u32(padded(columns))},
        {segments, u32(tokens.size())});
    const auto actual = read<float>(*x);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      std::vector<float> row(columns, unwritten<float>());
      if (tokens[t] >= 100 && tokens[t] <= last) row = expected(static_cast<std::size_t>(tokens[t] - 100));
      EXPECT_TRUE(same(row_of(actual, t, columns, padded(columns)), row))
          << kernel_name(kernel) << ", token " << t;
    }
  }
};

TEST_F(VulkanEmbeddingTest, Int8) {
  Random random(6);
  for (const std::size_t columns : {32U, 96U, 256U, 1024U}) {
    const auto matrix = random_q8(21, columns, random);
    check(Kernel::embed_q8, matrix.packed, 21, columns, [&](std::size_t row) {
      std::vector<float> values;
      for (std::size_t i = row * columns; i < (row + 1) * columns; ++i)
        values.push_back(matrix.scales[i / 32] * static_cast<float>(matrix.values[i]));
      return values;
    });
  }
}

TEST_F(VulkanEmbeddingTest, Floats) {
  Random random(7);
  const std::pair<FloatFormat, Kernel> kinds[] = {{FloatFormat::f32, Kernel::embed_f32},
                                                  {FloatFormat::f16, Kernel::embed_f16},
                                                  {FloatFormat::bf16, Kernel::embed_bf16}};
  for (const auto& [format, kernel] : kinds) {
    for (const std::size_t columns : {1U, 50U, 300U}) {
      const auto matrix = random_floats(13, columns, format, random);
      check(kernel, matrix.packed, 13, columns, [&](std::size_t row) {
        const auto values = row_of(matrix.values, row, columns, columns);
        return std::vector<float>(values.begin(), values.end());
      });
    }
  }
}

}  // namespace
}  // namespace inferno::gpu
