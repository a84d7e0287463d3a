#include <algorithm>
#include <vector>

#include "backend/cpu/contract/executor.hpp"

namespace inferno::cpu {
void CpuExecutor::prepare_group(const StepWork& work, std::size_t layer, std::size_t token,
                                std::size_t kv_head) {
  const auto& norms = *weights_.layers()[layer].norms;
  const std::size_t head_dim = config_.head_dim;
  const std::size_t half = head_dim / 2;
  const float inverse_length = 1.0F / static_cast<float>(head_dim);
  float* row = scratch_.qkv.data() + token * (config_.query_width() + 2 * std::size_t{config_.kv_width()});
  const float* sine = scratch_.sine.data() + token * half;
  const float* cosine = scratch_.cosine.data() + token * half;
  const auto norm_rotate = [&](float* head, const std::vector<float>& weight) {
    kernels_.norm_rotate(head, weight.data(), config_.head_dim, inverse_length, config_.rms_epsilon, sine,
                         cosine);
  };
  for (std::size_t g = 0; g < shape_.group; ++g)
    norm_rotate(row + (kv_head * shape_.group + g) * head_dim, norms.query_norm);
  norm_rotate(row + config_.query_width() + kv_head * head_dim, norms.key_norm);
  store_group(work, layer, token, kv_head);
}

void CpuExecutor::store_group(const StepWork& work, std::size_t layer, std::size_t token,
                              std::size_t kv_head) {
  const std::size_t head_dim = config_.head_dim;
  const std::size_t tokens = work.tokens.size();
  const float* row =
      scratch_.qkv.data() + token * (config_.query_width() + 2 * std::size_t{config_.kv_width()});
  for (std::size_t g = 0; g < shape_.group; ++g) {
    // [K][T][G]: the tokens of a tile stand side by side.
    const auto head = (kv_head * tokens + token) * shape_.group + g;
    kernels_.quantize_query(row + (kv_head * shape_.group + g) * head_dim, config_.head_dim, softmax_scale_,
                            scratch_.query_values.data() + head * shape_.padded_dim,
                            scratch_.query_scales.data() + head * shape_.blocks,
                            scratch_.query_offsets.data() + head * shape_.blocks);
  }
  const float* key = row + config_.query_width() + kv_head * head_dim;
  const auto slot = work.plan.cache_slots[token];
  kernels_.append_kv(key, key + config_.kv_width(), config_.head_dim, cache_.view(slot.block, layer, kv_head),
                     slot.offset);
}

TokenTile CpuExecutor::tile_of(const StepWork& work, const RowPlan& row, std::uint32_t first_token,
                               std::uint32_t count, std::size_t layer, std::uint32_t kv_head) const {
  const std::size_t token = row.first_token + first_token;
  const auto head = (kv_head * work.tokens.size() + token) * shape_.group;
  TokenTile tile;
  tile.query = {.values = scratch_.query_values.data() + head * shape_.padded_dim,
                .scales = scratch_.query_scales.data() + head * shape_.blocks,
                .offsets = scratch_.query_offsets.data() + head * shape_.blocks,
                .heads = count * shape_.group,
                .blocks = shape_.blocks};
  tile.table = work.table(row);
  tile.first_position = row.first_position + first_token;
  tile.tokens = count;
  tile.layer = layer;
  tile.kv_head = kv_head;
  return tile;
}

/// Items are (tile of tokens, KV head). They are dealt out in turn, not in runs: later tiles of a prompt see
/// more positions.
void CpuExecutor::attend(const StepWork& work, std::size_t layer, bool prepare) {
  const std::size_t tokens = work.tokens.size();
  const auto threads = policy_->threads();
  if (threads > 1 && tokens * shape_.kv_heads < kItemsPerThread * threads) {
    if (prepare) {
      for (std::size_t item = 0; item < tokens * shape_.kv_heads; ++item) {
        prepare_group(work, layer, item / shape_.kv_heads, item % shape_.kv_heads);
      }
    }
    return attend_by_split(work, layer);
  }
  const std::size_t width = config_.query_width();
  const auto group_width = std::size_t{shape_.group} * shape_.head_dim;
  policy_->run([&](unsigned part, unsigned parts) {
    std::size_t item = 0;
    for (const auto& row : work.plan.rows) {
      for (std::uint32_t first = 0; first < row.tokens; first += AttentionWorker::kTileTokens) {
        const auto count = std::min(AttentionWorker::kTileTokens, row.tokens - first);
        for (std::uint32_t kv_head = 0; kv_head < shape_.kv_heads; ++kv_head, ++item) {
          if (item % parts != part) continue;
          const std::size_t token = row.first_token + first;
          if (prepare) prepare_group(work, layer, token, kv_head);
          workers_[part].attend(kernels_, cache_, tile_of(work, row, first, count, layer, kv_head),
                                scratch_.mixed.data() + token * width + kv_head * group_width, width);
        }
      }
    }
  });
}

/// With few tokens and many threads the items are (token, KV head, split), merged when all are done.
void CpuExecutor::attend_by_split(const StepWork& work, std::size_t layer) {
  const std::size_t width = config_.query_width();
  const auto split_stride = shape_.group * shape_.partial_floats();
  std::uint32_t most_splits = 0;
  for (const auto& row : work.plan.rows) most_splits = std::max(most_splits, row.splits);
  const auto item_stride = most_splits * split_stride;
  /// Calls visit(token, its row, its number in the row, KV head) for all.
  const auto for_each = [&](const auto& visit) {
    for (const auto& row : work.plan.rows) {
      for (std::uint32_t t = 0; t < row.tokens; ++t) {
        for (std::uint32_t kv_head = 0; kv_head < shape_.kv_heads; ++kv_head)
          visit(row.first_token + t, row, t, kv_head);
      }
    }
  };
  const auto partials_of = [&](std::size_t token, std::uint32_t kv_head) {
    return partials_.data() + (token * shape_.kv_heads + kv_head) * item_stride;
  };
  policy_->run([&](unsigned part, unsigned parts) {
    std::size_t item = 0;
    for_each([&](std::uint32_t token, const RowPlan& row, std::uint32_t t, std::uint32_t kv_head) {
      const auto tile = tile_of(work, row, t, 1, layer, kv_head);
      for (std::uint32_t split = 0; split * kSplitPositions <= tile.first_position; ++split, ++item) {
        if (item % parts != part) continue;
        workers_[part].attend_split(kernels_, cache_, tile, split,
                                    partials_of(token, kv_head) + split * split_stride);
      }
    });
  });
  for_each([&](std::uint32_t token, const RowPlan& row, std::uint32_t t, std::uint32_t kv_head) {
    const auto splits = splits_of(row.first_position + t + 1);
    for (std::size_t g = 0; g < shape_.group; ++g) {
      kernels_.merge_splits(partials_of(token, kv_head) + g * shape_.partial_floats(), split_stride, splits,
                            shape_.head_dim,
                            scratch_.mixed.data() + token * width +
                                (std::size_t{kv_head} * shape_.group + g) * shape_.head_dim);
    }
  });
}

}  // namespace inferno::cpu
