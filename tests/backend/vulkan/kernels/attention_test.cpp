#include <algorithm>

#include "backend/vulkan/kernels/attention_fixtures.hpp"

namespace inferno::gpu {
namespace {

/// Queries as attention takes them: quantized, their scales times the softmax's.
std::vector<arith::QuantizedVector> random_queries(const Heads& heads, std::size_t tokens, Random& random) {
  std::vector<arith::QuantizedVector> queries;
  for (std::size_t i = 0; i < tokens * heads.heads(); ++i) {
    queries.push_back(arith::quantize_vector(random.vector(heads.head_dim, 4.0F)));
    for (float& scale : queries.back().scales) scale = arith::multiply(scale, heads.softmax_scale());
  }
  return queries;
}

/// Tokens of one row: consecutive positions from `first_position` on.
struct RowOfTokens {
  std::uint32_t first_position;
  std::uint32_t tokens;
};

class VulkanAttentionTest : public VulkanDotTest {
 protected:
  static void check(const Heads& heads, const std::vector<RowOfTokens>& rows, std::uint32_t seed,
                    bool broken = false) {
    Random random(seed);
    std::vector<std::uint32_t> tables;
    std::vector<std::uint32_t> table_offsets;
    std::vector<std::uint32_t> positions;
    std::vector<std::uint32_t> tiles;
    std::uint32_t blocks = 1;  // block 0 belongs to nobody
    for (const auto& row : rows) {
      table_offsets.push_back(u32(tables.size()));
      const auto row_blocks = (row.first_position + row.tokens + heads.block_size - 1) / heads.block_size;
      for (std::uint32_t i = 0; i < row_blocks; ++i) tables.push_back(blocks + row_blocks - 1 - i);
      blocks += row_blocks;
      for (std::uint32_t t = 0; t < row.tokens; t += kTileTokens) {
        tiles.insert(tiles.end(), {u32(positions.size()), std::min(kTileTokens, row.tokens - t),
                                   row.first_position + t, table_offsets.back()});
        for (std::uint32_t i = t; i < std::min(t + kTileTokens, row.tokens); ++i)
          positions.push_back(row.first_position + i);
      }
    }
    const auto tokens = u32(positions.size());
    const auto max_splits = *std::max_element(positions.begin(), positions.end()) / 256 + 1;

    HostCache cache(heads, blocks);
    for (std::uint32_t block = 1; block < blocks; ++block) {
      for (std::uint32_t kv_head = 0; kv_head < heads.kv_heads; ++kv_head) {
        for (std::uint32_t offset = 0; offset < heads.block_size; ++offset) {
          auto key = random.vector(heads.head_dim, 3.0F);
          if (broken && random.integer(0, 40) == 0) key[1] = kInfinity;
          cache.put(cache.key(block, kv_head, offset), arith::quantize_vector(key));
          auto value = random.vector(heads.head_dim, random.uniform(0.0F, 2.0F));
          if (broken && random.integer(0, 40) == 0) value[0] = kInfinity;
          cache.put(cache.value(block, kv_head, offset), arith::quantize_vector(value));
        }
      }
    }
    // What lies behind a row's last position is none of the kernels' business.
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const auto end = rows[r].first_position + rows[r].tokens;
      for (auto p = end; p % heads.block_size != 0; ++p) {
        const auto block = tables[table_offsets[r] + p / heads.block_size];
        for (std::uint32_t kv_head = 0; kv_head < heads.kv_heads; ++kv_head) {
          arith::QuantizedVector rubbish{std::vector<std::int8_t>(heads.padded_dim(), 99),
                                         std::vector<float>(heads.scale_blocks(), kNaN)};
          cache.put(cache.key(block, kv_head, p % heads.block_size), rubbish);
          cache.put(cache.value(block, kv_head, p % heads.block_size), rubbish);
        }
      }
    }

    const auto queries = random_queries(heads, tokens, random);
    std::vector<std::int8_t> query_values;
    std::vector<float> query_scales;
    for (const auto& query : queries) {
      query_values.insert(query_values.end(), query.values.begin(), query.values.end());
      query_scales.insert(query_scales.end(), query.scales.begin(), query.scales.end());
    }

    std::vector<std::vector<float>> expected;  // [T][H * E]
    std::size_t token = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::uint32_t t = 0; t < rows[r].tokens; ++t, ++token) {
        const auto row_table = std::span<const std::uint32_t>(tables).subspan(table_offsets[r]);
        const auto own =
            std::span<const arith::QuantizedVector>(queries).subspan(token * heads.heads(), heads.heads());
        expected.push_back(attended(heads, cache, row_table, own, positions[token]));
      }
    }

    const std::size_t width = std::size_t{heads.heads()} * heads.head_dim;
    const auto stride = u32(padded(width));
    const auto query_value_buffer = buffer(query_values);
    const auto query_scale_buffer = buffer(query_scales);
    const auto cache_buffer = buffer(cache.bytes());
    const auto table_buffer = buffer(tables);
    const auto tile_buffer = buffer(tiles);
    const auto position_buffer = buffer(positions);
    const std::size_t partials = std::size_t{tokens} * heads.heads() * max_splits;
    const auto statistics = results<float>(2 * partials);
    const auto outputs = results<float>(partials * heads.padded_dim());
    const auto mixed = buffer(std::vector<float>(tokens * stride));
    const auto quants = buffer(std::vector<std::int8_t>(tokens * stride));
    const auto scales = buffer(std::vector<float>(tokens * stride / 32));
    const auto most_tokens = std::max_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
                               return a.tokens < b.tokens;
                             })->tokens;
    run(Kernel::attend,
        {*query_value_buffer, *query_scale_buffer, *cache_buffer, *table_buffer, *tile_buffer, *statistics,
         *outputs},
        AttendConstants{heads.heads(), heads.kv_heads, heads.head_dim, heads.padded_dim(), heads.block_size,
                        0, 0, max_splits, std::min(most_tokens, kTileTokens)},
        {max_splits, heads.kv_heads, u32(tiles.size() / 4)});
    const bool whole_blocks = heads.head_dim % 32 == 0;
    run(Kernel::merge, {*statistics, *outputs, *position_buffer, *mixed, *quants, *scales},
        MergeConstants{heads.heads(), heads.head_dim, heads.padded_dim(), 0, max_splits, stride,
                       kWriteFloats | (whole_blocks ? kWriteQuants : 0U)},
        {heads.heads(), tokens});
    const auto actual = read<float>(*mixed);
    const auto actual_quants = read<std::int8_t>(*quants);
    const auto actual_scales = read<float>(*scales);
    for (std::size_t t = 0; t < tokens; ++t) {
      ASSERT_TRUE(same(row_of(actual, t, width, stride), expected[t]))
          << heads << ", position " << positions[t] << ", token " << t;
      if (!whole_blocks) continue;
      const auto quantized = arith::quantize_vector(expected[t]);
      ASSERT_TRUE(std::ranges::equal(row_of(actual_quants, t, width, stride), quantized.values));
      ASSERT_TRUE(same(row_of(actual_scales, t, width / 32, stride / 32), quantized.scales));
    }
  }
};

TEST_P(VulkanAttentionTest, Lengths) {
  for (const std::uint32_t length : {1U, 31U, 32U, 33U, 255U, 256U, 257U, 1000U, 5000U}) {
    check({2, 2, 64, 16}, {{length - 1, 1}}, length);
  }
}

TEST_P(VulkanAttentionTest, HeadSizesAndGroups) {
  for (const std::uint32_t head_dim : {2U, 48U, 64U, 96U, 128U, 256U}) {
    for (const std::uint32_t group : {1U, 2U, 3U, 8U}) {
      check({head_dim == 64 ? 3U : 1U, group, head_dim, 32}, {{299, 1}}, head_dim + group);
    }
  }
}

TEST_P(VulkanAttentionTest, BlocksOfAllSizes) {
  for (const std::uint32_t block_size : {1U, 2U, 4U, 16U, 256U}) {
    check({2, 2, 96, block_size}, {{270, 1}}, block_size);
    check({2, 2, 32, block_size}, {{270, 3}}, block_size);
  }
}

TEST_P(VulkanAttentionTest, ChunksOfPromptsBesideDecoding) {
  check({2, 2, 128, 16}, {{0, 37}, {300, 1}, {250, 20}, {0, 1}, {510, 5}}, 1);
  check({1, 3, 64, 16}, {{240, 33}}, 2);
  check({1, 8, 128, 32}, {{253, 9}, {7, 8}}, 3);
}

TEST_P(VulkanAttentionTest, BlocksAsLongAsSplits) {
  std::uint32_t seed = 0;
  for (const std::uint32_t head_dim : {64U, 128U}) {
    for (const std::uint32_t group : {1U, 2U, 3U, 5U, 8U}) {
      check({2, group, head_dim, 256}, {{0, 1}, {299, 1}, {255, 1}, {256, 1}, {1030, 1}, {7, 1}}, ++seed);
      check({2, group, head_dim, 256}, {{0, 67}, {500, 40}, {255, 1}, {250, 13}, {600, 1}}, ++seed);
    }
    check({1, 2, head_dim, 256}, {{0, 530}}, ++seed);
    check({3, 2, head_dim, 256}, {{700, 8}, {1016, 16}, {3, 21}}, ++seed);
  }
}

TEST_P(VulkanAttentionTest, ValuesThatAreNotFiniteStayInTheirRow) {
  check({1, 2, 64, 16}, {{40, 1}, {5, 3}, {0, 1}, {300, 1}}, 4, true);
  for (const std::uint32_t head_dim : {64U, 128U}) {
    check({1, 2, head_dim, 256}, {{40, 1}, {5, 1}, {0, 1}, {300, 1}, {12, 1}}, 5, true);
    check({1, 2, head_dim, 256}, {{0, 30}, {5, 3}, {0, 1}, {300, 9}}, 6, true);
  }
}

INFERNO_WITHOUT_AND_WITH_DOT(VulkanAttentionTest);

}  // namespace
}  // namespace inferno::gpu
