#include "backend/gpu/step_buffers.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/gpu/kernels.hpp"

namespace inferno::gpu {
namespace {

/// What the results of attention's splits and the logits may take; steps that need more go in parts.
constexpr std::uint64_t kMostSplitBytes = std::uint64_t{256} << 20U;
constexpr std::uint64_t kMostLogitsBytes = std::uint64_t{256} << 20U;
/// Room for the stop ids of chained steps, for each row on the average.
constexpr std::uint32_t kStopIdsPerRow = 32;

std::uint32_t padded_head(const ModelConfig& config) {
  return pad_up(config.head_dim, 32);
}

template <typename T>
std::span<T> mapped_as(const Buffer& buffer) {
  const auto bytes = buffer.mapped();
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace

/// Numbers that sizes are made of, and the sizes in bytes.
struct StepBuffers::Sizes {
  std::uint32_t max_splits = 0;
  std::uint32_t attention_tokens = 0;
  std::uint32_t logits_rows = 0;
  std::uint32_t logits_stride = 0;
  std::uint64_t tables = 0;
  std::uint64_t chain_rows = 0;
  std::uint64_t chain = 0;  // bytes of all that chained steps need
  std::uint64_t rope = 0;
  std::uint64_t split_outputs = 0;
  std::uint64_t statistics = 0;
  std::uint64_t splits_done = 0;
  std::uint64_t logits = 0;
  std::uint64_t best = 0;
  std::uint64_t query_quants = 0;
  std::uint64_t per_token = 0;  // bytes of what has a row for each token

  static Sizes of(const DeviceCapabilities& device, const ModelConfig& config, const StepStrides& strides,
                  const Limits& limits) {
    Sizes sizes;
    const std::uint64_t max_tokens = limits.max_tokens;
    const std::uint64_t head = padded_head(config);
    sizes.max_splits = divide_up(limits.max_context, kSplitPositions);
    const std::uint64_t split_bytes = std::uint64_t{config.heads} * sizes.max_splits * head * sizeof(float);
    const std::uint64_t most = std::min(kMostSplitBytes, device.max_range) / split_bytes;
    sizes.attention_tokens =
        static_cast<std::uint32_t>(std::min(max_tokens, std::max<std::uint64_t>(most, kTileTokens)));
    sizes.split_outputs = sizes.attention_tokens * split_bytes;
    sizes.statistics =
        std::uint64_t{sizes.attention_tokens} * config.heads * sizes.max_splits * 2 * sizeof(float);
    if (device.shares_writes)
      sizes.splits_done = std::uint64_t{sizes.attention_tokens} * config.kv_heads * sizeof(std::uint32_t);

    sizes.logits_stride = pad_up(config.vocab_size, kPadColumns);
    const std::uint64_t row_bytes = std::uint64_t{sizes.logits_stride} * sizeof(float);
    const std::uint64_t most_rows =
        std::max<std::uint64_t>(std::min(kMostLogitsBytes, device.max_range) / row_bytes, 1);
    sizes.logits_rows =
        static_cast<std::uint32_t>(std::min({max_tokens, std::uint64_t{limits.max_outputs}, most_rows}));
    sizes.logits = sizes.logits_rows * row_bytes;
    sizes.best =
        std::uint64_t{sizes.logits_rows} * argmax_chunks_of(config.vocab_size) * 2 * sizeof(std::uint32_t);

    sizes.tables = std::uint64_t{limits.max_rows} * divide_up(limits.max_context, limits.block_size) *
                   sizeof(std::uint32_t);
    sizes.tables += sizeof(std::uint32_t);  // `advance` looks one position further than the last
    sizes.chain_rows = limits.max_rows;
    sizes.chain = (std::uint64_t{limits.max_rows} * (kStopIdsPerRow + 3 + limits.max_steps) + 3) *
                  sizeof(std::uint32_t);
    sizes.rope = std::uint64_t{limits.max_context} * config.head_dim * sizeof(float);
    sizes.query_quants = max_tokens * config.heads * head;

    const std::uint64_t d = pad_up(config.hidden_size, kPadColumns);
    const std::uint64_t attention = pad_up(config.query_width(), kPadColumns);
    const std::uint64_t ffn = pad_up(config.ffn_size, kPadColumns);
    // floats, quants and scales of the three activations; hidden twice; what products write; small things.
    sizes.per_token =
        (d + attention + ffn) * (sizeof(float) + 1) + (d + attention + ffn) / 32 * sizeof(float) +
        (2 * d + strides.attention_output + strides.qkv + strides.gate_up) * sizeof(float) +
        std::uint64_t{config.heads} * (head + head / 32 * sizeof(float)) + 14 * sizeof(std::uint32_t);
    return sizes;
  }

  std::uint64_t bytes(std::uint64_t max_tokens) const {
    return max_tokens * per_token + tables + chain + rope + split_outputs + statistics + splits_done +
           logits + best;
  }
};

std::uint64_t StepBuffers::bytes(const DeviceCapabilities& device, const ModelConfig& config,
                                 const StepStrides& strides, const Limits& limits) {
  return Sizes::of(device, config, strides, limits).bytes(limits.max_tokens);
}

StepBuffers::StepBuffers(Device& device, const ModelConfig& config, const StepStrides& strides,
                         const Limits& limits)
    : fuses_swiglu(device.capabilities().fused_swiglu),
      fuses_vectors(device.capabilities().fused_vectors),
      tokens_(limits.max_tokens),
      row_blocks_(divide_up(limits.max_context, limits.block_size)),
      kv_heads_(config.kv_heads) {
  const auto sizes = Sizes::of(device.capabilities(), config, strides, limits);
  max_splits_ = sizes.max_splits;
  attention_tokens_ = sizes.attention_tokens;
  logits_rows_ = sizes.logits_rows;
  logits_stride_ = sizes.logits_stride;

  const auto make = [&device](std::uint64_t bytes, Memory memory = Memory::device) {
    return device.create_buffer(bytes, memory, "a step's scratch");
  };
  const auto words = [this, &make](std::uint64_t per_token) {
    return make(tokens_ * per_token * sizeof(std::uint32_t), Memory::upload);
  };
  const auto floats = [this, &make](std::uint64_t per_token) {
    return make(tokens_ * per_token * sizeof(float));
  };
  const auto activations = [&](std::uint32_t columns) {
    const std::uint32_t stride = pad_up(columns, kPadColumns);
    return Activations{columns, stride, floats(stride), make(std::uint64_t{tokens_} * stride),
                       floats(stride / 32)};
  };

  tokens = words(1);
  positions = words(1);
  slots = words(2);
  tiles = words(4);
  head_map = words(1);
  grids = words(4);
  tables = make(sizes.tables, Memory::upload);
  chosen = make(tokens_ * sizeof(std::uint32_t), Memory::readback);

  const std::uint64_t rows = sizes.chain_rows * sizeof(std::uint32_t);
  next = make(rows);
  stops = make(rows * (1 + kStopIdsPerRow) + sizeof(std::uint32_t), Memory::upload);
  chain = make(rows + 2 * sizeof(std::uint32_t), Memory::upload);
  ids = make(rows * limits.max_steps, Memory::readback);

  const std::uint32_t d = pad_up(config.hidden_size, kPadColumns);
  hidden = floats(d);
  head_hidden = floats(d);
  factors = floats(1);
  normed = activations(config.hidden_size);
  mixed = activations(config.query_width());
  activated = activations(config.ffn_size);
  qkv = floats(strides.qkv);
  gate_up = floats(strides.gate_up);
  branch = floats(strides.attention_output);
  query_quants = make(sizes.query_quants);
  query_scales = make(sizes.query_quants / 32 * sizeof(float));
  statistics = make(sizes.statistics);
  split_outputs = make(sizes.split_outputs);
  if (sizes.splits_done != 0) splits_done = make(sizes.splits_done);
  logits = make(sizes.logits);
  best = make(sizes.best);

  rope = make(sizes.rope);
  const Rope angles(config);
  const std::size_t half = config.head_dim / 2;
  std::vector<float> table(std::size_t{limits.max_context} * config.head_dim);
  for (std::uint32_t position = 0; position < limits.max_context; ++position) {
    const auto row = std::span(table).subspan(position * std::size_t{config.head_dim}, config.head_dim);
    angles.fill(position, row.subspan(half), row.first(half));
  }
  device.upload({*rope, 0, table.size() * sizeof(float)}, std::as_bytes(std::span(table)));
}

StepShape StepBuffers::fill(const StepWork& work) {
  const StepPlan& plan = work.plan;
  StepShape shape;
  shape.tokens = static_cast<std::uint32_t>(plan.positions.size());
  shape.heads = static_cast<std::uint32_t>(plan.head_tokens.size());
  shape.gathers = shape.heads != shape.tokens;
  shape.lm_head = plan.needs_lm_head;

  std::copy(work.tokens.begin(), work.tokens.end(), mapped_as<std::int32_t>(*tokens).begin());
  std::copy(plan.positions.begin(), plan.positions.end(), mapped_as<std::uint32_t>(*positions).begin());
  fill_head_map(plan.head_tokens);
  const auto slot = mapped_as<std::uint32_t>(*slots);
  for (std::size_t i = 0; i < plan.cache_slots.size(); ++i) {
    slot[2 * i] = plan.cache_slots[i].block;
    slot[2 * i + 1] = plan.cache_slots[i].offset;
  }

  const auto table = mapped_as<std::uint32_t>(*tables);
  table_offsets_.clear();
  std::uint32_t used = 0;
  for (const RowPlan& row : plan.rows) {
    // Chained steps go further than this one: all of the table that a context can use.
    const auto whole = work.table(row);
    const auto blocks = whole.first(std::min<std::size_t>(whole.size(), row_blocks_));
    std::copy(blocks.begin(), blocks.end(), table.begin() + used);
    table_offsets_.push_back(used);
    used += static_cast<std::uint32_t>(blocks.size());
  }
  group_tiles(work, shape);
  return shape;
}

/// Cuts rows into tiles and collects tiles into groups.
void StepBuffers::group_tiles(const StepWork& work, StepShape& shape) {
  const auto tile = mapped_as<std::uint32_t>(*tiles);
  attention_grids_.clear();  // put together here: mapped memory of a card is slow to read
  std::uint32_t tile_index = 0;
  for (std::size_t r = 0; r < work.plan.rows.size(); ++r) {
    const RowPlan& row = work.plan.rows[r];
    for (std::uint32_t first = 0; first < row.tokens; first += kTileTokens) {
      const std::uint32_t count = std::min(kTileTokens, row.tokens - first);
      const std::uint32_t token = row.first_token + first;
      const std::uint32_t position = row.first_position + first;
      if (shape.groups.empty() || shape.groups.back().tokens + count > attention_tokens_) {
        shape.groups.push_back({token, 0, tile_index, 0});
        attention_grids_.push_back({0, kv_heads_, 0, 0});
      }
      AttentionGroup& group = shape.groups.back();
      group.tokens += count;
      group.tiles += 1;
      auto& grid = attention_grids_.back();
      grid[0] = std::max(grid[0], (position + count - 1) / kSplitPositions + 1);
      grid[2] = group.tiles;
      const std::array<std::uint32_t, 4> values = {token, count, position, table_offsets_[r]};
      std::copy(values.begin(), values.end(), tile.begin() + 4 * std::ptrdiff_t{tile_index});
      ++tile_index;
    }
  }
  std::memcpy(grids->mapped().data(), attention_grids_.data(), attention_grids_.size() * kGridBytes);
}

void StepBuffers::fill_head_map(std::span<const std::uint32_t> tokens_of) const {
  std::copy(tokens_of.begin(), tokens_of.end(), mapped_as<std::uint32_t>(*head_map).begin());
}

namespace {

/// The stop ids of a row.
std::span<const std::int32_t> stops_of(const StopIds& stop_ids, std::uint32_t row) {
  if (stop_ids.row_offsets.empty()) return stop_ids.ids;
  const std::uint32_t begin = stop_ids.row_offsets[row];
  return std::span(stop_ids.ids).subspan(begin, stop_ids.row_offsets[row + 1] - begin);
}

}  // namespace

bool StepBuffers::has_room(const StepWork& first, const StopIds& stop_ids) const {
  std::size_t words = first.plan.rows.size() + 1;
  for (const RowPlan& row : first.plan.rows) words += stops_of(stop_ids, row.row).size();
  return words * sizeof(std::int32_t) <= stops->bytes();
}

void StepBuffers::fill_chain(const StepWork& first, const StopIds& stop_ids) const {
  const auto& rows = first.plan.rows;
  const auto stop = mapped_as<std::int32_t>(*stops);
  const auto words = mapped_as<std::uint32_t>(*chain);
  std::size_t used = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto list = stops_of(stop_ids, rows[row].row);
    stop[row] = static_cast<std::int32_t>(used);
    std::copy(list.begin(), list.end(), stop.begin() + static_cast<std::ptrdiff_t>(rows.size() + 1 + used));
    used += list.size();
    words[kChainRunning + row] = 1;
  }
  stop[rows.size()] = static_cast<std::int32_t>(used);
  words[kChainStep] = 0;
}

std::uint32_t& StepBuffers::chain_word(std::uint32_t index) const {
  return mapped_as<std::uint32_t>(*chain)[index];
}

}  // namespace inferno::gpu
