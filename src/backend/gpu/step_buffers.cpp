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

/// Numbers that sizes are made of.
struct StepBuffers::Sizes {
  std::uint64_t tokens = 0;
  std::uint64_t rows = 0;
  std::uint64_t steps = 0;
  std::uint64_t context = 0;
  std::uint32_t max_splits = 0;
  std::uint32_t attention_tokens = 0;
  std::uint32_t logits_rows = 0;
  std::uint32_t logits_stride = 0;
  std::uint32_t row_blocks = 0;
  std::uint64_t head = 0;  // elements of one, padded
  bool attends_at_once = false;

  Sizes(const Device& device, const ModelConfig& config, const Limits& limits)
      : tokens(limits.max_tokens),
        rows(limits.max_rows),
        steps(limits.max_steps),
        context(limits.max_context),
        max_splits(divide_up(limits.max_context, kSplitPositions)),
        logits_stride(pad_up(config.vocab_size, kPadColumns)),
        row_blocks(divide_up(limits.max_context, limits.block_size)),
        head(padded_head(config)),
        attends_at_once(Fusions::of(device).attention) {
    const std::uint64_t max_range = device.capabilities().max_range;
    const std::uint64_t split_bytes = std::uint64_t{config.heads} * max_splits * head * sizeof(float);
    const std::uint64_t most = std::min(kMostSplitBytes, max_range) / split_bytes;
    attention_tokens =
        static_cast<std::uint32_t>(std::min(tokens, std::max<std::uint64_t>(most, kTileTokens)));
    const std::uint64_t row_bytes = std::uint64_t{logits_stride} * sizeof(float);
    const std::uint64_t most_rows =
        std::max<std::uint64_t>(std::min(kMostLogitsBytes, max_range) / row_bytes, 1);
    logits_rows =
        static_cast<std::uint32_t>(std::min({tokens, std::uint64_t{limits.max_outputs}, most_rows}));
  }
};

/// Says to `take(buffer, bytes, memory)` of every buffer how large it is: the one list of them.
template <typename Take>
void StepBuffers::each(StepBuffers& to, const ModelConfig& config, const StepStrides& strides,
                       const Sizes& sizes, const Take& take) {
  constexpr std::uint64_t kWord = sizeof(std::uint32_t);
  const auto device = [&take](std::unique_ptr<Buffer>& buffer, std::uint64_t bytes) {
    take(buffer, bytes, Memory::device);
  };
  const auto upload = [&take](std::unique_ptr<Buffer>& buffer, std::uint64_t words) {
    take(buffer, words * kWord, Memory::upload);
  };
  const auto floats = [&](std::unique_ptr<Buffer>& buffer, std::uint64_t per_token) {
    device(buffer, sizes.tokens * per_token * sizeof(float));
  };
  const auto activations = [&](Activations& vectors, std::uint32_t columns) {
    vectors.columns = columns;
    vectors.stride = pad_up(columns, kPadColumns);
    floats(vectors.floats, vectors.stride);
    device(vectors.quants, sizes.tokens * vectors.stride);
    floats(vectors.scales, vectors.stride / 32);
  };
  upload(to.tokens, sizes.tokens);
  upload(to.positions, sizes.tokens);
  upload(to.slots, 2 * sizes.tokens);
  upload(to.tiles, 4 * sizes.tokens);
  upload(to.head_map, sizes.tokens);
  upload(to.grids, 4 * sizes.tokens);
  upload(to.tables, sizes.rows * sizes.row_blocks + 1);  // `advance` looks one position further than the last
  take(to.chosen, sizes.tokens * kWord, Memory::readback);

  device(to.next, sizes.rows * kWord);
  upload(to.stops, sizes.rows * (1 + kStopIdsPerRow) + 1);
  upload(to.chain, kChainRunning + sizes.rows);
  take(to.ids, sizes.rows * sizes.steps * kWord, Memory::readback);

  const std::uint32_t d = pad_up(config.hidden_size, kPadColumns);
  floats(to.hidden, d);
  floats(to.head_hidden, d);
  floats(to.factors, 1);
  activations(to.normed, config.hidden_size);
  activations(to.mixed, config.query_width());
  activations(to.activated, config.ffn_size);
  floats(to.qkv, strides.qkv);
  floats(to.gate_up, strides.gate_up);
  floats(to.branch, strides.attention_output);
  device(to.query_quants, sizes.tokens * config.heads * sizes.head);
  floats(to.query_scales, config.heads * sizes.head / 32);
  const std::uint64_t splits = std::uint64_t{sizes.attention_tokens} * config.heads * sizes.max_splits;
  device(to.statistics, splits * 2 * sizeof(float));
  device(to.split_outputs, splits * sizes.head * sizeof(float));
  if (sizes.attends_at_once) {
    device(to.splits_done, std::uint64_t{sizes.attention_tokens} * config.kv_heads * kWord);
  }
  device(to.logits, std::uint64_t{sizes.logits_rows} * sizes.logits_stride * sizeof(float));
  device(to.best, std::uint64_t{sizes.logits_rows} * argmax_chunks_of(config.vocab_size) * 2 * kWord);
  device(to.rope, sizes.context * config.head_dim * sizeof(float));
}

std::uint64_t StepBuffers::bytes(const Device& device, const ModelConfig& config, const StepStrides& strides,
                                 const Limits& limits) {
  std::uint64_t total = 0;
  StepBuffers none;
  each(none, config, strides, Sizes(device, config, limits),
       [&total](std::unique_ptr<Buffer>& /*buffer*/, std::uint64_t bytes, Memory /*memory*/) {
         total += bytes;
       });
  return total;
}

StepBuffers::StepBuffers(Device& device, const ModelConfig& config, const StepStrides& strides,
                         const Limits& limits)
    : fuses(Fusions::of(device)), kv_heads_(config.kv_heads) {
  const Sizes sizes(device, config, limits);
  max_splits_ = sizes.max_splits;
  attention_tokens_ = sizes.attention_tokens;
  logits_rows_ = sizes.logits_rows;
  logits_stride_ = sizes.logits_stride;
  row_blocks_ = sizes.row_blocks;
  each(*this, config, strides, sizes,
       [&device](std::unique_ptr<Buffer>& buffer, std::uint64_t bytes, Memory memory) {
         buffer = device.create_buffer(bytes, memory, "a step's scratch");
       });

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
