#include "backend/cuda/executor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "step/slots.hpp"

namespace inferno::cuda {
namespace {

/// Words of the readback buffer.
constexpr std::size_t kStepsDone = 0;
constexpr std::size_t kLate = 1;
constexpr std::size_t kIds = kLate + 3;

/// Epochs count up from 1 and must not meet an old word's: they start again, with zeroed words, before they
/// wrap.
constexpr std::uint32_t kLastEpoch = 0xFF000000;

/// What PersistentStep::late can name.
constexpr std::array<std::string_view, 6> kAwaited = {
    "nothing", "weights", "a vector", "query, key or value", "a word of another block", "a norm"};

/// The ids that end the first row of a step.
std::span<const std::int32_t> stops_of(const StepWork& first, const StopIds& stop_ids) {
  const std::span<const std::int32_t> all(stop_ids.ids);
  if (stop_ids.row_offsets.empty()) return all;
  const std::uint32_t row = first.plan.rows[0].row;
  const auto begin = stop_ids.row_offsets[row];
  return all.subspan(begin, stop_ids.row_offsets[row + 1] - begin);
}

bool is_one_q8_piece(const gpu::Projection& projection) {
  return projection.pieces.size() == 1 && projection.pieces[0].kind == gpu::WeightKind::q8;
}

}  // namespace

CudaExecutor::CudaExecutor(const LoadedModel& model, std::unique_ptr<CudaDevice> device, bool persistent)
    : GpuExecutor("cuda", model, std::move(device)),
      cuda_(static_cast<CudaDevice&>(own_device())),
      wants_persistent_(persistent) {}

void CudaExecutor::allocate(const Limits& limits) {
  persistent_ = false;
  layers_.reset();
  exchange_.reset();
  answer_.reset();
  GpuExecutor::allocate(limits);
  if (wants_persistent_) prepare_persistent(limits);
}

void CudaExecutor::prepare_persistent(const Limits& limits) {
  const ModelConfig& config = this->config();
  const auto& layers = weights().layers();
  const bool uniform = std::all_of(layers.begin(), layers.end(),
                                   [](const gpu::DeviceLayer& layer) {
                                     return is_one_q8_piece(layer.qkv) &&
                                            is_one_q8_piece(layer.attention_output) &&
                                            is_one_q8_piece(layer.gate_up) && is_one_q8_piece(layer.down);
                                   }) &&
                       is_one_q8_piece(weights().lm_head()) && weights().embedding().size() == 1 &&
                       weights().embedding()[0].kind == gpu::WeightKind::q8;
  if (!uniform || limits.block_size != kSplitPositions) return;
  shape_ = {.layers = config.layers,
            .hidden_size = config.hidden_size,
            .ffn_size = config.ffn_size,
            .heads = config.heads,
            .kv_heads = config.kv_heads,
            .head_dim = config.head_dim,
            .vocab_size = config.vocab_size,
            .epsilon = config.rms_epsilon,
            .inverse_hidden = 1.0F / static_cast<float>(config.hidden_size),
            .inverse_head = 1.0F / static_cast<float>(config.head_dim),
            .softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim))),
            .max_splits = buffers().max_splits(),
            .exchange = {}};
  if (shape_.max_splits > kMostTableEntries || !cuda_.persistent_fits(shape_)) return;

  const auto address = [this](const gpu::Slice& slice) {
    return static_cast<std::byte*>(cuda_.address(slice));
  };
  const auto floats = [&](const gpu::Slice& slice) { return reinterpret_cast<const float*>(address(slice)); };
  std::vector<PersistentLayer> pointers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto& layer = layers[i];
    pointers.push_back({.qkv = address(layer.qkv.pieces[0].bytes),
                        .attention_output = address(layer.attention_output.pieces[0].bytes),
                        .gate_up = address(layer.gate_up.pieces[0].bytes),
                        .down = address(layer.down.pieces[0].bytes),
                        .attention_norm = floats(layer.attention_norm),
                        .ffn_norm = floats(layer.ffn_norm),
                        .query_norm = floats(layer.query_norm),
                        .key_norm = floats(layer.key_norm),
                        .cache = address(cache().layer(i))});
  }
  pointers.push_back(pointers.back());
  const auto bytes = std::as_bytes(std::span(pointers));
  layers_ = cuda_.create_buffer(bytes.size(), gpu::Memory::device, "pointers to layers");
  cuda_.upload(*layers_, bytes);

  const std::uint64_t query = config.query_width();
  const std::uint64_t splits = std::uint64_t{config.heads} * shape_.max_splits;
  const std::array<std::uint64_t, 8> words = {config.hidden_size,
                                              query + std::uint64_t{2} * config.kv_width(),
                                              query,
                                              config.hidden_size,
                                              config.ffn_size,
                                              splits * config.head_dim,
                                              splits * 2,
                                              std::uint64_t{kMostPersistentBlocks} * 4};
  std::uint64_t total = 0;
  for (const auto count : words) total += count;
  exchange_ = cuda_.create_buffer(total * sizeof(std::uint64_t), gpu::Memory::device,
                                  "what blocks hand to each other");
  answer_ = cuda_.create_buffer((kIds + std::uint64_t{limits.max_steps}) * sizeof(std::uint32_t),
                                gpu::Memory::readback, "a step's answer");
  auto* next = reinterpret_cast<std::uint64_t*>(address(*exchange_));
  auto& exchange = shape_.exchange;
  std::size_t index = 0;
  for (auto** part : {&exchange.x, &exchange.qkv, &exchange.mixed, &exchange.x_attended, &exchange.activated,
                      &exchange.splits, &exchange.statistics, &exchange.best}) {
    *part = next;
    next += words[index++];
  }
  shape_.layer = reinterpret_cast<const PersistentLayer*>(address(*layers_));
  shape_.embedding = address(weights().embedding()[0].bytes);
  shape_.lm_head = address(weights().lm_head().pieces[0].bytes);
  shape_.final_norm = floats(weights().final_norm());
  shape_.rope = floats(*buffers().rope);
  epoch_ = 1;
  persistent_ = true;
}

bool CudaExecutor::is_single_greedy(const StepWork& work) const {
  if (!persistent_ || work.observer != nullptr || work.tokens.size() != 1 ||
      work.plan.head_tokens.size() != 1 || !work.plan.needs_lm_head) {
    return false;
  }
  const std::uint32_t slot = work.batch.slots[work.plan.rows[0].row];
  return slot == kGreedySlot || (*work.slots)[slot].is_plain_greedy();
}

void CudaExecutor::run_step(const StepWork& work, HeadConsumer& head) {
  if (!is_single_greedy(work) || head.wants_hidden(0)) return GpuExecutor::run_step(work, head);
  run_persistent(work, 1, {});
  head.add_dispatches(1);
  head.take_hidden(0, {});
  if (!head.wants_logits(0)) return;
  const auto id = static_cast<std::int32_t>(answer_words()[kIds]);
  if (id >= 0 && head.wants_choice(0)) return head.take_choice(0, id);
  logits_.resize(shape_.vocab_size);
  cuda_.read({*buffers().logits, 0, logits_.size() * sizeof(float)},
             std::as_writable_bytes(std::span(logits_)));
  head.take_logits(0, logits_);
}

bool CudaExecutor::can_chain_persistent(const StepWork& first, const StopIds& stop_ids) const {
  return is_single_greedy(first) && stops_of(first, stop_ids).size() <= kMostStopIds;
}

bool CudaExecutor::can_chain(const StepWork& first, const StopIds& stop_ids) const {
  return can_chain_persistent(first, stop_ids) || GpuExecutor::can_chain(first, stop_ids);
}

std::uint64_t CudaExecutor::run_chain(const StepWork& first, std::uint32_t steps, const StopIds& stop_ids,
                                      std::span<std::int32_t> ids) {
  if (!can_chain_persistent(first, stop_ids)) return GpuExecutor::run_chain(first, steps, stop_ids, ids);
  run_persistent(first, steps, stops_of(first, stop_ids));
  const auto words = answer_words();
  for (std::uint32_t step = 0; step < steps; ++step) {
    const auto id = static_cast<std::int32_t>(words[kIds + step]);
    ids[step] = step >= words[kStepsDone] ? kChainStopped : id < 0 ? kChainDry : id;
  }
  return 1;
}

std::span<std::uint32_t> CudaExecutor::answer_words() const {
  const auto bytes = answer_->mapped();
  return {reinterpret_cast<std::uint32_t*>(bytes.data()), bytes.size() / sizeof(std::uint32_t)};
}

void CudaExecutor::run_persistent(const StepWork& first, std::uint32_t steps,
                                  std::span<const std::int32_t> stop_ids) {
  const std::uint32_t epochs = steps * (shape_.layers + 1);
  if (epoch_ > kLastEpoch - std::min(epochs, kLastEpoch)) {
    cuda_.run_once([this](gpu::Recorder& recorder) { recorder.fill(*exchange_, 0); });
    epoch_ = 1;
  }
  const auto words = answer_words();
  PersistentStep step{.token = first.tokens[0],
                      .position = first.plan.positions[0],
                      .steps = steps,
                      .epoch = epoch_,
                      .logits = static_cast<float*>(cuda_.address(*buffers().logits)),
                      .cancel = &buffers().chain_word(gpu::kChainCancelled),
                      .ids = reinterpret_cast<std::int32_t*>(&words[kIds]),
                      .steps_done = &words[kStepsDone],
                      .late = &words[kLate]};
  if (steps == 1) step.cancel = nullptr;
  epoch_ += epochs;
  step.stop_ids = static_cast<std::uint32_t>(stop_ids.size());
  std::copy(stop_ids.begin(), stop_ids.end(), step.stop);
  const auto table = first.table(first.plan.rows[0]);
  step.table_entries = static_cast<std::uint32_t>(std::min<std::size_t>(table.size(), kMostTableEntries));
  std::copy_n(table.begin(), step.table_entries, step.table);
  words[kStepsDone] = 0;
  words[kLate] = 0;
  cuda_.persistent_launch(shape_, step);
  try {
    cuda_.wait();
  } catch (const DeviceLost& error) {
    if (words[kLate] == 0 || words[kLate] >= kAwaited.size()) throw;
    throw DeviceLost(fmt::format("{}; thread {} of block {} waited in vain for {} at position {}",
                                 error.what(), words[kLate + 2], words[kLate + 1], kAwaited[words[kLate]],
                                 step.position));
  }
}

}  // namespace inferno::cuda
