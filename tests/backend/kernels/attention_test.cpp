#include "arith/attention.hpp"

#include <algorithm>
#include <cstring>

#include "backend/kernels/fixtures.hpp"

namespace inferno::cpu {
namespace {

constexpr std::uint32_t kSplit = 256;

/// Cache blocks of one KV head, full of what an earlier sequence left: rubbish, NaN among the scales.
class Cache {
 public:
  Cache(Random& random, std::uint32_t head_dim, std::uint32_t block_size, std::uint32_t blocks)
      : block_size_(block_size), positions_((block_size + 15) / 16 * 16), parts_((head_dim + 31) / 32) {
    const auto values = std::size_t{positions_} * parts_ * 32;
    const auto scales = std::size_t{positions_} * parts_;
    for (std::uint32_t i = 0; i < blocks; ++i) {
      auto& block = blocks_.emplace_back();
      block.keys.resize(values);
      block.values.resize(values);
      block.key_scales.resize(scales);
      block.value_scales.resize(scales);
      // Positions beyond the block's size were never written.
      const CacheIndex index{positions_, parts_};
      for (std::uint32_t p = 0; p < block_size; ++p) {
        for (std::size_t d = 0; d < parts_ * std::size_t{32}; ++d) {
          block.keys[index.key(p, d)] = static_cast<std::uint8_t>(random.integer(0, 255));
          block.values[index.value(p, d)] = static_cast<std::int8_t>(random.integer(-128, 127));
        }
        for (std::size_t b = 0; b < parts_; ++b) {
          block.key_scales[index.key_scale(p, b)] = kNaN;
          block.value_scales[index.value_scale(p, b)] = kNaN;
        }
      }
    }
  }

  CacheView view(std::size_t block) {
    auto& b = blocks_[block];
    return {.keys = b.keys.data(),
            .key_scales = b.key_scales.data(),
            .values = b.values.data(),
            .value_scales = b.value_scales.data(),
            .positions = positions_};
  }
  std::uint32_t block_size() const { return block_size_; }

 private:
  struct Block {
    std::vector<std::uint8_t> keys;
    std::vector<float> key_scales;
    std::vector<std::int8_t> values;
    std::vector<float> value_scales;
  };
  std::uint32_t block_size_;
  std::uint32_t positions_;
  std::uint32_t parts_;
  std::vector<Block> blocks_;
};

/// What a head has of a split, by the kernels: {maximum, denominator, output}.
using Partial = std::vector<float>;

class KernelAttention : public KernelTest {
 protected:
  struct Case {
    std::uint32_t head_dim;
    std::uint32_t block_size;
    std::uint32_t tokens;  ///< the last ones of the sequence look at it together
    std::uint32_t group;
    std::uint32_t positions;
    bool broken = false;
  };

  void check(const Case& c) {
    SCOPED_TRACE(testing::Message() << "head size " << c.head_dim << ", blocks of " << c.block_size << ", "
                                    << c.tokens << " tokens, " << c.group << " heads, " << c.positions
                                    << " positions");
    Random random(c.head_dim * 7 + c.block_size * 3 + c.positions);
    Cache cache(random, c.head_dim, c.block_size, (c.positions + c.block_size - 1) / c.block_size);
    std::vector<arith::QuantizedVector> keys;
    std::vector<arith::QuantizedVector> values;
    for (std::uint32_t p = 0; p < c.positions; ++p) {
      const auto key = random.activations(c.head_dim, c.broken && p % 37 == 5);
      const auto value = random.activations(c.head_dim, c.broken && p % 41 == 7);
      keys.push_back(arith::quantize_vector(key));
      values.push_back(arith::quantize_vector(value));
      kernels().append_kv(key.data(), value.data(), c.head_dim, cache.view(p / c.block_size),
                          p % c.block_size);
    }
    const auto heads = c.tokens * c.group;
    std::vector<std::vector<float>> queries;
    for (std::uint32_t i = 0; i < heads; ++i) {
      // Ordinary queries: the softmax has something to choose from.
      queries.push_back(c.broken ? random.activations(c.head_dim, true) : random.vector(c.head_dim, 2.0F));
    }
    const auto splits = (c.positions + kSplit - 1) / kSplit;
    std::vector<std::vector<Partial>> partials(heads);
    for (std::uint32_t split = 0; split < splits; ++split) attend_split(c, cache, queries, split, partials);

    for (std::uint32_t head = 0; head < heads; ++head) {
      const auto visible = c.positions - c.tokens + head / c.group + 1;
      auto query = arith::quantize_vector(queries[head]);
      for (float& scale : query.scales) scale = arith::multiply(scale, softmax_scale(c));
      std::vector<arith::SplitResult> expected;
      for (std::uint32_t begin = 0; begin < visible; begin += kSplit) {
        std::vector<arith::QuantizedRow> key_rows;
        std::vector<arith::QuantizedRow> value_rows;
        for (auto p = begin; p < std::min(begin + kSplit, visible); ++p) {
          key_rows.push_back({keys[p].values.data(), keys[p].scales.data()});
          value_rows.push_back({values[p].values.data(), values[p].scales.data()});
        }
        expected.push_back(arith::attend_split(query, key_rows, value_rows));
        const auto& partial = partials[head][begin / kSplit];
        ASSERT_TRUE(same(std::span(partial).first(1), std::vector{expected.back().maximum}));
        ASSERT_TRUE(same(std::span(partial).subspan(1, 1), std::vector{expected.back().denominator}));
        ASSERT_TRUE(same(std::span(partial).subspan(2), expected.back().output))
            << "split " << begin / kSplit;
      }
      std::vector<float> together;
      const auto stride = partials[head][0].size() + 3;
      for (const auto& partial : partials[head]) {
        together.insert(together.end(), partial.begin(), partial.end());
        together.resize(together.size() + 3);
      }
      std::vector<float> output(c.head_dim + 1, -9.0F);
      kernels().merge_splits(together.data(), stride, static_cast<std::uint32_t>(expected.size()), c.head_dim,
                             output.data());
      auto merged = arith::merge_splits(expected);
      merged.resize(c.head_dim);
      merged.push_back(-9.0F);
      ASSERT_TRUE(same(output, merged)) << "head " << head;
    }
  }

 private:
  static float softmax_scale(const Case& c) { return 1.0F / static_cast<float>(c.head_dim); }

  /// One split for all heads, as an executor drives the kernels.
  void attend_split(const Case& c, Cache& cache, const std::vector<std::vector<float>>& queries,
                    std::uint32_t split, std::vector<std::vector<Partial>>& partials) {
    const auto blocks = (c.head_dim + 31) / 32;
    const auto heads = static_cast<std::uint32_t>(queries.size());
    std::vector<std::int8_t> query_values(std::size_t{heads} * blocks * 32);
    std::vector<float> query_scales(std::size_t{heads} * blocks);
    std::vector<std::int32_t> query_offsets(std::size_t{heads} * blocks);
    for (std::size_t i = 0; i < heads; ++i) {
      kernels().quantize_query(queries[i].data(), c.head_dim, softmax_scale(c),
                               &query_values[i * blocks * 32], &query_scales[i * blocks],
                               &query_offsets[i * blocks]);
    }
    const QueryGroup query{query_values.data(), query_scales.data(), query_offsets.data(), heads, blocks};

    const auto begin = split * kSplit;
    const auto end = std::min(begin + kSplit, c.positions);
    constexpr std::size_t kStride = kSplit + 16;
    std::vector<float> scores(heads * kStride, kNaN);
    std::vector<float> value_scales(std::size_t{blocks} * kSplit, kNaN);
    for (auto p = begin; p < end; p += c.block_size) {
      const auto view = cache.view(p / c.block_size);
      const auto count = std::min(c.block_size, end - p);
      kernels().scores(query, view, count, &scores[p - begin], kStride);
      for (std::size_t b = 0; b < blocks; ++b) {
        std::copy_n(view.value_scales + b * view.positions, count, &value_scales[b * kSplit + p - begin]);
      }
    }
    std::vector<std::byte> integers(std::size_t{heads} * blocks * SplitWeights::kBytes, std::byte{0x55});
    std::vector<float> weight_scales(std::size_t{heads} * blocks);
    std::vector<std::uint32_t> counts(heads);
    std::vector<Partial> rows(heads, Partial(2 + blocks * std::size_t{32}));
    for (std::size_t i = 0; i < heads; ++i) {
      const auto visible = c.positions - c.tokens + static_cast<std::uint32_t>(i) / c.group + 1;
      counts[i] = visible <= begin ? 0 : std::min(end, visible) - begin;
      auto* weights = &integers[i * blocks * SplitWeights::kBytes];
      if (counts[i] == 0) {
        std::fill_n(weights, blocks * SplitWeights::kBytes, std::byte{0});
        continue;
      }
      kernels().softmax(&scores[i * kStride], counts[i], &rows[i][0], &rows[i][1]);
      kernels().quantize_weights(&scores[i * kStride], value_scales.data(), counts[i], blocks, weights,
                                 &weight_scales[i * blocks]);
    }
    std::vector<std::int32_t> sums(std::size_t{heads} * blocks * 32, 0);
    const SplitWeights weights{integers.data(), weight_scales.data()};
    for (auto p = begin; p < end; p += c.block_size) {
      kernels().weigh_values(weights, heads, blocks, cache.view(p / c.block_size), p - begin,
                             std::min(c.block_size, end - p), sums.data());
    }
    for (std::size_t i = 0; i < heads; ++i) {
      kernels().scale_sums(&sums[i * blocks * 32], &weight_scales[i * blocks], blocks, &rows[i][2]);
      if (counts[i] != 0) partials[i].push_back(rows[i]);
    }
  }
};

TEST_P(KernelAttention, HeadSizes) {
  for (const std::uint32_t head_dim : {24U, 32U, 64U, 80U, 128U, 256U}) check({head_dim, 256, 1, 2, 300});
}

TEST_P(KernelAttention, EveryCount) {
  for (std::uint32_t positions = 1; positions <= 256; positions += positions < 70 ? 1 : 13) {
    check({64, 256, 1, 2, positions});
  }
  check({64, 256, 1, 1, 255});
  check({64, 256, 1, 1, 256});
  check({64, 256, 1, 1, 257});
}

TEST_P(KernelAttention, BlockSizes) {
  for (const std::uint32_t block_size : {1U, 2U, 4U, 8U, 16U, 32U, 64U, 128U, 256U}) {
    for (const std::uint32_t positions : {1U, 7U, 100U, 259U}) check({32, block_size, 1, 2, positions});
  }
}

/// Small blocks looked at by many heads: the last weights of a split are read no further than they go.
TEST_P(KernelAttention, SmallBlocksAndManyHeads) {
  for (const std::uint32_t block_size : {1U, 2U, 4U}) check({32, block_size, 1, 17, 257});
}

TEST_P(KernelAttention, GroupsOfHeads) {
  for (const std::uint32_t group : {1U, 2U, 3U, 4U, 5U, 8U, 16U}) check({64, 64, 1, group, 90});
}

TEST_P(KernelAttention, TokensTogether) {
  check({128, 256, 8, 2, 264});
  check({128, 256, 16, 2, 256});
  check({64, 16, 5, 3, 258});
  check({64, 32, 7, 1, 7});
  check({96, 64, 8, 4, 700});
}

TEST_P(KernelAttention, BrokenKeysValuesAndQueries) {
  check({64, 64, 1, 4, 200, true});
  check({24, 256, 3, 2, 300, true});
}

TEST_P(KernelAttention, SoftmaxOfNanAndInfinity) {
  Random random(9);
  for (const float odd : {kNaN, kInfinity, -kInfinity}) {
    for (const std::size_t place : {0U, 3U, 17U, 40U}) {
      auto scores = random.vector(48, 5.0F);
      scores[place] = odd;
      // The definition, on 41 of them.
      const auto given = std::span(scores).first(41);
      float maximum = given[0];
      for (const float score : given) maximum = score > maximum ? score : maximum;
      std::vector<float> expected;
      for (const float score : given) expected.push_back(arith::exponential(arith::subtract(score, maximum)));
      float actual_maximum = 0.0F;
      float denominator = 0.0F;
      const float expected_denominator = arith::strided_sum(expected);
      kernels().softmax(scores.data(), 41, &actual_maximum, &denominator);
      EXPECT_TRUE(same(std::span(scores).first(41), expected));
      EXPECT_TRUE(same(std::vector{actual_maximum, denominator}, std::vector{maximum, expected_denominator}));
    }
  }
}

/// All weights at their largest, all values at theirs: the sums of 256 products still fit.
TEST_P(KernelAttention, LargestSums) {
  Random random(10);
  for (const float sign : {1.0F, -1.0F}) {
    Cache cache(random, 32, 256, 1);
    const std::vector<float> value(32, sign);
    for (std::uint32_t p = 0; p < 256; ++p)
      kernels().append_kv(value.data(), value.data(), 32, cache.view(0), p);
    std::vector<float> p(256, 1.0F);
    std::vector<std::byte> integers(SplitWeights::kBytes);
    float scale = 0.0F;
    kernels().quantize_weights(p.data(), cache.view(0).value_scales, 256, 1, integers.data(), &scale);
    std::vector<std::int32_t> sums(32, 0);
    kernels().weigh_values({integers.data(), &scale}, 1, 1, cache.view(0), 0, 256, sums.data());
    EXPECT_EQ(sums, std::vector<std::int32_t>(32, static_cast<std::int32_t>(sign) * 256 * 32767 * 127));
  }
}

INFERNO_FOR_EACH_KERNEL_SET(KernelAttention);

}  // namespace
}  // namespace inferno::cpu
