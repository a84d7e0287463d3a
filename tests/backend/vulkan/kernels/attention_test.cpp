#include "arith/attention.hpp"

#include <algorithm>
#include <cmath>

#include "backend/vulkan/kernels/fixtures.hpp"

namespace inferno::gpu {
namespace {

std::uint32_t u32(std::size_t value) {
  return static_cast<std::uint32_t>(value);
}

struct Heads {
  std::uint32_t kv_heads;
  std::uint32_t group;
  std::uint32_t head_dim;
  std::uint32_t block_size;

  std::uint32_t heads() const { return kv_heads * group; }
  std::uint32_t padded_dim() const { return (head_dim + 31) / 32 * 32; }
  std::uint32_t scale_blocks() const { return padded_dim() / 32; }
  float softmax_scale() const { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim))); }
  /// Bytes of a KV head of a cache block; keys, their scales, values and their scales follow one another.
  std::size_t head_bytes() const { return 2 * std::size_t{block_size} * (padded_dim() + 4 * scale_blocks()); }
};

std::ostream& operator<<(std::ostream& out, const Heads& heads) {
  return out << heads.kv_heads << " KV heads in groups of " << heads.group << ", head size " << heads.head_dim
             << ", blocks of " << heads.block_size;
}

/// One layer's cache as the host sees it: what kernels are given, and where a position's key and value are.
class HostCache {
 public:
  HostCache(const Heads& heads, std::uint32_t blocks)
      : heads_(heads), bytes_(blocks * heads.kv_heads * heads.head_bytes(), std::byte{0xFF}) {}

  arith::QuantizedRow key(std::uint32_t block, std::uint32_t kv_head, std::uint32_t offset) const {
    return at(block, kv_head, offset, 0);
  }
  arith::QuantizedRow value(std::uint32_t block, std::uint32_t kv_head, std::uint32_t offset) const {
    return at(block, kv_head, offset, heads_.head_bytes() / 2);
  }
  void put(arith::QuantizedRow where, const arith::QuantizedVector& x) {
    std::copy(x.values.begin(), x.values.end(), const_cast<std::int8_t*>(where.values));
    std::copy(x.scales.begin(), x.scales.end(), const_cast<float*>(where.scales));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  arith::QuantizedRow at(std::uint32_t block, std::uint32_t kv_head, std::uint32_t offset,
                         std::size_t part) const {
    const auto* head = bytes_.data() + (block * heads_.kv_heads + kv_head) * heads_.head_bytes() + part;
    return {reinterpret_cast<const std::int8_t*>(head) + offset * heads_.padded_dim(),
            reinterpret_cast<const float*>(head + heads_.block_size * heads_.padded_dim()) +
                offset * heads_.scale_blocks()};
  }

  Heads heads_;
  std::vector<std::byte> bytes_;
};

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
          cache.put(cache.key(block, kv_head, offset),
                    arith::quantize_vector(random.vector(heads.head_dim, 3.0F)));
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
        std::vector<float> mixed;
        for (std::uint32_t head = 0; head < heads.heads(); ++head) {
          std::vector<arith::SplitResult> splits;
          std::vector<arith::QuantizedRow> keys;
          std::vector<arith::QuantizedRow> values;
          for (std::uint32_t p = 0; p <= positions[token]; ++p) {
            const auto block = tables[table_offsets[r] + p / heads.block_size];
            keys.push_back(cache.key(block, head / heads.group, p % heads.block_size));
            values.push_back(cache.value(block, head / heads.group, p % heads.block_size));
            if (keys.size() == 256 || p == positions[token]) {
              splits.push_back(arith::attend_split(queries[token * heads.heads() + head], keys, values));
              keys.clear();
              values.clear();
            }
          }
          const auto merged = arith::merge_splits(splits);
          mixed.insert(mixed.end(), merged.begin(), merged.begin() + heads.head_dim);
        }
        expected.push_back(std::move(mixed));
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
    run(Kernel::attend,
        {*query_value_buffer, *query_scale_buffer, *cache_buffer, *table_buffer, *tile_buffer, *statistics,
         *outputs},
        AttendConstants{heads.heads(), heads.kv_heads, heads.head_dim, heads.padded_dim(), heads.block_size,
                        0, 0, max_splits},
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

TEST_P(VulkanAttentionTest, ValuesThatAreNotFiniteStayInTheirRow) {
  check({1, 2, 64, 16}, {{40, 1}, {5, 3}, {0, 1}, {300, 1}}, 4, true);
}

INFERNO_WITHOUT_AND_WITH_DOT(VulkanAttentionTest);

class VulkanHeadsTest : public VulkanKernelTest {
 protected:
  static constexpr std::uint32_t kTokens = 4;

  static void check_parts(const Heads& heads, const std::vector<std::uint32_t>& dispatches) {
    Random random(heads.head_dim + heads.group);
    const std::size_t query_width = std::size_t{heads.heads()} * heads.head_dim;
    const std::size_t kv_width = std::size_t{heads.kv_heads} * heads.head_dim;
    const auto key_offset = query_width + 1;
    const auto value_offset = key_offset + kv_width + 2;
    const auto stride = value_offset + kv_width + 3;
    auto qkv = random.vector(kTokens * stride, 5.0F);
    qkv[0] = kInfinity;
    const auto query_norm = random.vector(heads.head_dim, 2.0F);
    const auto key_norm = random.vector(heads.head_dim, 2.0F);
    const std::vector<std::uint32_t> positions = {0, 6, 3, 5};
    const auto rope = random.vector(std::size_t{heads.head_dim} * 8);
    const std::vector<std::uint32_t> slots = {2, 1, 0, heads.block_size - 1, kNoBlock, 0, 1, 0};
    HostCache cache(heads, 3);

    const auto qkv_buffer = buffer(qkv);
    const auto query_norm_buffer = buffer(query_norm);
    const auto key_norm_buffer = buffer(key_norm);
    const auto rope_buffer = buffer(rope);
    const auto position_buffer = buffer(positions);
    const auto slot_buffer = buffer(slots);
    const auto quants = results<std::int8_t>(kTokens * heads.heads() * heads.padded_dim());
    const auto scales = results<float>(kTokens * heads.heads() * heads.scale_blocks());
    const auto cache_buffer = buffer(cache.bytes());
    const float inverse_length = 1.0F / static_cast<float>(heads.head_dim);
    for (const auto parts : dispatches) {
      run(Kernel::prepare_heads,
          {*qkv_buffer, *query_norm_buffer, *key_norm_buffer, *rope_buffer, *position_buffer, *slot_buffer,
           *quants, *scales, *cache_buffer},
          HeadConstants{heads.heads(), heads.kv_heads, heads.head_dim, heads.padded_dim(), u32(stride),
                        u32(key_offset), u32(value_offset), heads.block_size, inverse_length, 1e-6F,
                        heads.softmax_scale(), parts},
          {heads.heads() + 2 * heads.kv_heads, kTokens});
    }

    auto expected_qkv = qkv;
    std::vector<std::int8_t> expected_quants;
    std::vector<float> expected_scales;
    for (std::size_t t = 0; t < kTokens; ++t) {
      const auto norm_rotate = [&](std::size_t at, std::span<const float> weight) {
        const auto head = std::span(expected_qkv).subspan(t * stride + at, heads.head_dim);
        const float factor = arith::inverse_rms(head, inverse_length, 1e-6F);
        for (std::size_t i = 0; i < head.size(); ++i)
          head[i] = arith::multiply(arith::multiply(head[i], factor), weight[i]);
        const auto angles =
            std::span(rope).subspan(std::size_t{positions[t]} * heads.head_dim, heads.head_dim);
        arith::rotate(head, angles.subspan(heads.head_dim / 2), angles.first(heads.head_dim / 2));
        return arith::quantize_vector(head);
      };
      for (std::size_t h = 0; h < heads.heads(); ++h) {
        auto query = norm_rotate(h * heads.head_dim, query_norm);
        expected_quants.insert(expected_quants.end(), query.values.begin(), query.values.end());
        for (const float scale : query.scales)
          expected_scales.push_back(arith::multiply(scale, heads.softmax_scale()));
      }
      for (std::uint32_t kv_head = 0; kv_head < heads.kv_heads; ++kv_head) {
        const auto key = norm_rotate(key_offset + kv_head * heads.head_dim, key_norm);
        if (slots[2 * t] == kNoBlock) continue;
        cache.put(cache.key(slots[2 * t], kv_head, slots[2 * t + 1]), key);
        const auto value = row_of(qkv, t, stride, stride).subspan(value_offset + kv_head * heads.head_dim);
        cache.put(cache.value(slots[2 * t], kv_head, slots[2 * t + 1]),
                  arith::quantize_vector(value.first(heads.head_dim)));
      }
    }
    EXPECT_EQ(read<std::int8_t>(*quants), expected_quants) << heads;
    EXPECT_TRUE(same(read<float>(*scales), expected_scales)) << heads;
    EXPECT_EQ(read<std::byte>(*cache_buffer), cache.bytes()) << heads;
    const bool floats = (dispatches.back() & kHeadFloats) != 0 || dispatches.size() > 1;
    EXPECT_TRUE(same(read<float>(*qkv_buffer), floats ? expected_qkv : qkv)) << heads;
  }
};

TEST_F(VulkanHeadsTest, AtOnce) {
  for (const std::uint32_t head_dim : {2U, 48U, 64U, 96U, 128U, 256U}) {
    check_parts({2, 3, head_dim, 4}, {kHeadNorm | kHeadRotate | kHeadStore});
    check_parts({1, 1, head_dim, 2}, {kHeadNorm | kHeadRotate | kHeadStore | kHeadFloats});
  }
}

TEST_F(VulkanHeadsTest, PartByPart) {
  check_parts({2, 2, 96, 16}, {kHeadNorm | kHeadFloats, kHeadRotate | kHeadFloats, kHeadStore});
}

}  // namespace
}  // namespace inferno::gpu
