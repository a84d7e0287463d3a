#include <algorithm>

#include "backend/vulkan/kernels/attention_fixtures.hpp"

namespace inferno::gpu {
namespace {

constexpr float kEpsilon = 1e-6F;

class VulkanAttendOneTest : public VulkanDotTest {
 protected:
  static void check(const Heads& heads, const std::vector<std::uint32_t>& positions) {
    check(Kernel::attend_one, heads, positions);
    if (heads.head_dim == 128 && heads.group <= kFused128Group && heads.block_size % 4 == 0)
      check(Kernel::attend_one_128, heads, positions);
  }

  /// Rows of one token at `positions` each, with caches that hold what is before.
  static void check(Kernel kernel, const Heads& heads, const std::vector<std::uint32_t>& positions) {
    Random random(heads.head_dim + heads.group + positions[0]);
    const auto tokens = u32(positions.size());
    const auto last = *std::max_element(positions.begin(), positions.end());
    const auto max_splits = last / 256 + 1;
    const std::size_t width = std::size_t{heads.heads()} * heads.head_dim;
    const std::size_t kv_width = std::size_t{heads.kv_heads} * heads.head_dim;
    const auto key_offset = width + 2;
    const auto value_offset = key_offset + kv_width;
    const auto stride = value_offset + kv_width + 1;
    const auto qkv = random.vector(tokens * stride, 5.0F);
    const auto query_norm = random.vector(heads.head_dim, 2.0F);
    const auto key_norm = random.vector(heads.head_dim, 2.0F);
    const auto rope = random.vector(std::size_t{heads.head_dim} * (last + 1));

    std::vector<std::uint32_t> tables;
    std::vector<std::uint32_t> tiles;
    std::vector<std::uint32_t> slots;
    std::uint32_t blocks = 0;
    for (std::uint32_t t = 0; t < tokens; ++t) {
      tiles.insert(tiles.end(), {t, 1, positions[t], u32(tables.size())});
      const auto row_blocks = positions[t] / heads.block_size + 1;
      for (std::uint32_t i = 0; i < row_blocks; ++i) tables.push_back(blocks + row_blocks - 1 - i);
      slots.insert(slots.end(), {tables.back(), positions[t] % heads.block_size});
      blocks += row_blocks;
    }
    HostCache cache(heads, blocks);
    for (std::uint32_t t = 0; t < tokens; ++t) {
      for (std::uint32_t p = 0; p < positions[t]; ++p) {
        const auto block = tables[tiles[4 * t + 3] + p / heads.block_size];
        for (std::uint32_t kv_head = 0; kv_head < heads.kv_heads; ++kv_head) {
          const auto offset = p % heads.block_size;
          cache.put(cache.key(block, kv_head, offset),
                    arith::quantize_vector(random.vector(heads.head_dim, 3.0F)));
          cache.put(cache.value(block, kv_head, offset),
                    arith::quantize_vector(random.vector(heads.head_dim)));
        }
      }
    }
    const auto cache_buffer = buffer(cache.bytes());

    const auto out_stride = padded(width);
    std::vector<std::int8_t> expected_quants(tokens * out_stride);
    std::vector<float> expected_scales(tokens * out_stride / 32);
    std::vector<float> expected_floats(tokens * out_stride);
    auto heads_of = qkv;
    for (std::uint32_t t = 0; t < tokens; ++t) {
      const auto angles = row_of(rope, positions[t], heads.head_dim, heads.head_dim);
      const auto head_at = [&](std::size_t column) {
        return std::span(heads_of).subspan(t * stride + column, heads.head_dim);
      };
      for (std::uint32_t kv_head = 0; kv_head < heads.kv_heads; ++kv_head) {
        const auto column = kv_head * heads.head_dim;
        cache.put(cache.key(slots[2 * t], kv_head, slots[2 * t + 1]),
                  norm_rotate_quantize(head_at(key_offset + column), key_norm, angles, kEpsilon));
        cache.put(cache.value(slots[2 * t], kv_head, slots[2 * t + 1]),
                  arith::quantize_vector(head_at(value_offset + column)));
      }
      std::vector<arith::QuantizedVector> queries;
      for (std::uint32_t head = 0; head < heads.heads(); ++head) {
        queries.push_back(norm_rotate_quantize(head_at(head * heads.head_dim), query_norm, angles, kEpsilon));
        for (float& scale : queries.back().scales) scale = arith::multiply(scale, heads.softmax_scale());
      }
      const auto table = std::span<const std::uint32_t>(tables).subspan(tiles[4 * t + 3]);
      const auto floats = attended(heads, cache, table, queries, positions[t]);
      std::copy(floats.begin(), floats.end(),
                expected_floats.begin() + static_cast<std::ptrdiff_t>(t * out_stride));
      const auto mixed = arith::quantize_vector(floats);
      std::copy(mixed.values.begin(), mixed.values.end(),
                expected_quants.begin() + static_cast<std::ptrdiff_t>(t * out_stride));
      std::copy(mixed.scales.begin(), mixed.scales.end(),
                expected_scales.begin() + static_cast<std::ptrdiff_t>(t * out_stride / 32));
    }

    const auto qkv_buffer = buffer(qkv);
    const auto query_norm_buffer = buffer(query_norm);
    const auto key_norm_buffer = buffer(key_norm);
    const auto rope_buffer = buffer(rope);
    const auto slot_buffer = buffer(slots);
    const auto table_buffer = buffer(tables);
    const auto tile_buffer = buffer(tiles);
    const std::size_t partials = std::size_t{tokens} * heads.heads() * max_splits;
    const auto statistics = results<float>(2 * partials);
    const auto outputs = results<float>(partials * heads.padded_dim());
    const auto done = buffer(std::vector<std::uint32_t>(std::size_t{tokens} * heads.kv_heads));
    const auto mixed = buffer(std::vector<float>(tokens * out_stride));
    const auto quants = buffer(std::vector<std::int8_t>(tokens * out_stride));
    const auto scales = buffer(std::vector<float>(tokens * out_stride / 32));
    AttendOneConstants constants{heads.heads(),     heads.kv_heads,
                                 heads.head_dim,    heads.padded_dim(),
                                 u32(stride),       u32(key_offset),
                                 u32(value_offset), heads.block_size,
                                 max_splits,        0,
                                 u32(out_stride),   1.0F / static_cast<float>(heads.head_dim),
                                 kEpsilon,          heads.softmax_scale(),
                                 kWriteFloats};
    for (int again = 0; again < 2; ++again) {  // what counts the splits is ready for the next time
      if (again == 1) {
        ASSERT_EQ(read<std::int8_t>(*quants), std::vector<std::int8_t>(tokens * out_stride));
        constants.write = kWriteFloats | kWriteQuants;
      }
      run(kernel,
          {*qkv_buffer, *query_norm_buffer, *key_norm_buffer, *rope_buffer, *slot_buffer, *cache_buffer,
           *table_buffer, *tile_buffer, *statistics, *outputs, *done, *mixed, *quants, *scales},
          constants, {max_splits, heads.kv_heads, tokens});
      ASSERT_TRUE(same(read<float>(*mixed), expected_floats)) << heads << ", position " << positions[0];
      ASSERT_EQ(read<std::byte>(*cache_buffer), cache.bytes()) << heads << ", position " << positions[0];
      if (again == 0) continue;
      ASSERT_EQ(read<std::int8_t>(*quants), expected_quants) << heads << ", position " << positions[0];
      ASSERT_TRUE(same(read<float>(*scales), expected_scales)) << heads << ", position " << positions[0];
    }
  }
};

TEST_P(VulkanAttendOneTest, Lengths) {
  for (const std::uint32_t length : {1U, 31U, 32U, 33U, 255U, 256U, 257U, 1000U, 5000U}) {
    check({2, 2, 64, 16}, {length - 1});
    check({2, 2, 128, 16}, {length - 1});
  }
}

TEST_P(VulkanAttendOneTest, HeadSizesAndGroups) {
  for (const std::uint32_t head_dim : {32U, 64U, 96U, 128U}) {
    for (const std::uint32_t group : {1U, 2U, 3U, 5U, 6U, 8U}) check({2, group, head_dim, 32}, {299});
  }
}

TEST_P(VulkanAttendOneTest, RowsOfAllLengths) {
  check({2, 2, 128, 16}, {0, 700, 255, 256, 31});
  check({1, 4, 128, 4}, {8700, 12});  // more splits than are merged at once
  check({1, 8, 64, 2}, {5, 280});
  check({1, 3, 128, 1}, {40, 255});
}

INFERNO_WITHOUT_AND_WITH_DOT(VulkanAttendOneTest);

}  // namespace
}  // namespace inferno::gpu
