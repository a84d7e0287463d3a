#include "backend/cpu/contract/attention.hpp"

#include <algorithm>
#include <cstring>

namespace inferno::cpu {
namespace {

/// Kernels may write scores up to the next multiple of 16 positions of every block.
constexpr std::size_t kScoreStride = kSplitPositions + 16;

/// A run of positions of a split that lie in one cache block.
struct Run {
  std::uint32_t block;  ///< index into the row's table
  std::uint32_t first;  ///< number of its first position within the split
  std::uint32_t count;
};

/// Calls `visit` for every run of positions [begin, end); begin is a multiple of the block size or lies in
/// the same split.
template <typename Visit>
void for_each_run(std::uint32_t begin, std::uint32_t end, std::uint32_t block_size, const Visit& visit) {
  for (auto position = begin; position < end;) {
    const auto count = std::min(block_size, end - position);
    visit(Run{position / block_size, position - begin, count});
    position += count;
  }
}

}  // namespace

AttentionWorker::AttentionWorker(const AttentionShape& shape, std::uint32_t max_context) : shape_(shape) {
  const std::size_t heads = std::size_t{kTileTokens} * shape.group;
  scores_ = AlignedBuffer<float>(heads * kScoreStride);
  value_scales_ = AlignedBuffer<float>(std::size_t{shape.blocks} * kSplitPositions);
  weights_ = AlignedBuffer<std::byte>(heads * shape.blocks * SplitWeights::kBytes);
  weight_scales_ = AlignedBuffer<float>(heads * shape.blocks);
  sums_ = AlignedBuffer<std::int32_t>(heads * shape.padded_dim);
  partials_ = AlignedBuffer<float>(splits_of(max_context) * heads * shape.partial_floats());
}

std::uint64_t AttentionWorker::bytes(const AttentionShape& shape, std::uint32_t max_context) {
  const std::uint64_t heads = std::uint64_t{kTileTokens} * shape.group;
  return heads * kScoreStride * 4 + std::uint64_t{shape.blocks} * kSplitPositions * 4 +
         heads * shape.blocks * SplitWeights::kBytes + heads * shape.blocks * 4 +
         heads * shape.padded_dim * 4 + splits_of(max_context) * heads * shape.partial_floats() * 4;
}

void AttentionWorker::attend(const KernelSet& kernels, const KvStore& cache, const TokenTile& tile,
                             float* mixed, std::size_t stride) {
  const std::size_t heads = std::size_t{tile.tokens} * shape_.group;
  const auto splits = splits_of(tile.last_position() + 1);
  const auto split_stride = heads * shape_.partial_floats();
  for (std::uint32_t split = 0; split < splits; ++split) {
    attend_split(kernels, cache, tile, split, partials_.data() + split * split_stride);
  }
  for (std::uint32_t t = 0; t < tile.tokens; ++t) {
    const auto token_splits = splits_of(tile.first_position + t + 1);
    for (std::uint32_t g = 0; g < shape_.group; ++g) {
      const auto head = std::size_t{t} * shape_.group + g;
      kernels.merge_splits(partials_.data() + head * shape_.partial_floats(), split_stride, token_splits,
                           shape_.head_dim, mixed + t * stride + std::size_t{g} * shape_.head_dim);
    }
  }
}

void AttentionWorker::attend_split(const KernelSet& kernels, const KvStore& cache, const TokenTile& tile,
                                   std::uint32_t split, float* partials) {
  const auto begin = split * kSplitPositions;
  const auto end = std::min(begin + kSplitPositions, tile.last_position() + 1);
  const auto block_size = cache.block_size();
  const auto view_of = [&](const Run& run) {
    return cache.view(tile.table[run.block], tile.layer, tile.kv_head);
  };

  // Tokens before the split do not see it; tokens ascend, so the others are the tile's tail.
  const auto skipped = begin > tile.first_position ? begin - tile.first_position : 0;
  const auto first_head = skipped * shape_.group;
  const auto heads = (tile.tokens - skipped) * shape_.group;
  auto query = tile.query;
  query.values += std::size_t{first_head} * shape_.padded_dim;
  query.scales += std::size_t{first_head} * shape_.blocks;
  query.offsets += std::size_t{first_head} * shape_.blocks;
  query.heads = heads;
  partials += std::size_t{first_head} * shape_.partial_floats();

  // With blocks as long as a split, the scales of its values stand as the kernels want them.
  const float* value_scales = nullptr;
  for_each_run(begin, end, block_size, [&](const Run& run) {
    const auto view = view_of(run);
    kernels.scores(query, view, run.count, scores_.data() + run.first, kScoreStride);
    if (block_size == kSplitPositions) {
      value_scales = view.value_scales;
      return;
    }
    for (std::uint32_t b = 0; b < shape_.blocks; ++b) {
      std::memcpy(value_scales_.data() + std::size_t{b} * kSplitPositions + run.first,
                  view.value_scales + std::size_t{b} * view.positions, run.count * sizeof(float));
    }
    value_scales = value_scales_.data();
  });

  for (std::uint32_t head = 0; head < heads; ++head) {
    const auto position = tile.first_position + skipped + head / shape_.group;
    const auto count = std::min(end, position + 1) - begin;
    float* scores = scores_.data() + std::size_t{head} * kScoreStride;
    float* partial = partials + std::size_t{head} * shape_.partial_floats();
    kernels.softmax(scores, count, &partial[0], &partial[1]);
    // Positions after the token's own, which later tokens of the tile see, weigh zero.
    kernels.quantize_weights(scores, value_scales, count, shape_.blocks,
                             weights_.data() + std::size_t{head} * shape_.blocks * SplitWeights::kBytes,
                             weight_scales_.data() + std::size_t{head} * shape_.blocks);
  }

  std::memset(sums_.data(), 0, std::size_t{heads} * shape_.padded_dim * sizeof(std::int32_t));
  const SplitWeights weights{weights_.data(), weight_scales_.data()};
  for_each_run(begin, end, block_size, [&](const Run& run) {
    kernels.weigh_values(weights, heads, shape_.blocks, view_of(run), run.first, run.count, sums_.data());
  });
  for (std::uint32_t head = 0; head < heads; ++head) {
    kernels.scale_sums(sums_.data() + std::size_t{head} * shape_.padded_dim,
                       weight_scales_.data() + std::size_t{head} * shape_.blocks, shape_.blocks,
                       partials + std::size_t{head} * shape_.partial_floats() + 2);
  }
}

}  // namespace inferno::cpu
