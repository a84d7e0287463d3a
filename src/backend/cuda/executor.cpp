#include "backend/cuda/executor.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
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

/// How often the host looks whether a chain has chosen more: a fraction of a step.
constexpr std::chrono::microseconds kLookInterval{50};

/// Epochs count up from 1 and must not meet an old word's: they start again, with zeroed words, before they
/// wrap.
constexpr std::uint32_t kLastEpoch = 0xFF000000;

/// What PersistentStep::late can name.
constexpr std::array<std::string_view, 6> kAwaited = {
    "nothing", "weights", "a vector", "query, key or value", "a word of another block", "a norm"};

/// The ids that end a row of a batch.
std::span<const std::int32_t> stops_of(std::uint32_t row, const StopIds& stop_ids) {
  const std::span<const std::int32_t> all(stop_ids.ids);
  if (stop_ids.row_offsets.empty()) return all;
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
  persistent_rows_ = 0;
  layers_.reset();
  one_.exchange.reset();
  several_.exchange.reset();
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
  PersistentModel model{
      .layers = config.layers,
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
  const std::uint32_t rows = cuda_.persistent_rows(model);
  if (model.max_splits > kMostTableEntries || rows == 0) return;

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

  model.layer = reinterpret_cast<const PersistentLayer*>(address(*layers_));
  model.embedding = address(weights().embedding()[0].bytes);
  model.lm_head = address(weights().lm_head().pieces[0].bytes);
  model.final_norm = floats(weights().final_norm());
  model.rope = floats(*buffers().rope);
  one_.model = several_.model = model;
  one_.exchange = create_exchange(1, one_.model.exchange);
  if (rows > 1) several_.exchange = create_exchange(kMostPersistentRows, several_.model.exchange);
  one_.epoch = several_.epoch = 1;
  const std::uint64_t ids = std::uint64_t{limits.max_steps} * rows;
  answer_ =
      cuda_.create_buffer((kIds + ids) * sizeof(std::uint32_t), gpu::Memory::readback, "a step's answer");
  persistent_rows_ = rows;
}

std::unique_ptr<gpu::Buffer> CudaExecutor::create_exchange(std::uint32_t rows, PersistentExchange& exchange) {
  const ModelConfig& config = this->config();
  const std::uint64_t query = config.query_width();
  const std::uint64_t qkv = query + std::uint64_t{2} * config.kv_width();
  const bool one = rows == 1;
  // Words of 8 bytes. Of several rows' vectors: three words of 16 bytes for eight floats, one of 8 bytes for
  // four int8.
  const auto vector = [&](std::uint64_t columns) { return one ? columns : columns / 8 * 6 * rows; };
  const std::uint64_t splits =
      config.heads * std::uint64_t{one ? one_.model.max_splits
                                       : std::min(kMostTableEntries, rows * several_.model.max_splits)};
  const std::array<std::uint64_t, 9> words = {
      vector(config.hidden_size),
      qkv * rows,
      one ? query : query / 4 * rows,
      one ? 0 : query / 32 * rows,
      vector(config.hidden_size),
      one ? config.ffn_size : std::uint64_t{config.ffn_size} / 32 * 9 * rows,
      splits * config.head_dim,
      splits * 2,
      one ? std::uint64_t{kMostPersistentBlocks} * 4 : std::uint64_t{kMostPersistentBlocks + 1} * rows * 2};
  std::uint64_t total = 0;
  for (const auto count : words) total += count;
  auto buffer = cuda_.create_buffer(total * sizeof(std::uint64_t), gpu::Memory::device,
                                    "what blocks hand to each other");
  auto* next = static_cast<std::uint64_t*>(cuda_.address(*buffer));
  std::size_t index = 0;
  for (auto** part :
       {&exchange.x, &exchange.qkv, &exchange.mixed, &exchange.mixed_scales, &exchange.x_attended,
        &exchange.activated, &exchange.splits, &exchange.statistics, &exchange.best}) {
    *part = next;
    next += words[index++];
  }
  return buffer;
}

bool CudaExecutor::is_persistent(const StepWork& work, std::uint32_t steps) const {
  const StepPlan& plan = work.plan;
  const std::size_t rows = plan.rows.size();
  if (work.observer != nullptr || rows > persistent_rows_ || work.tokens.size() != rows ||
      plan.head_tokens.size() != rows || !plan.needs_lm_head || rows > buffers().logits_rows()) {
    return false;
  }
  std::uint64_t entries = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::uint32_t slot = work.batch.slots[plan.rows[r].row];
    if (slot != kGreedySlot && !(*work.slots)[slot].is_plain_greedy()) return false;
    entries += (plan.positions[r] + steps - 1) / kSplitPositions + 1;
  }
  return entries <= kMostTableEntries;
}

void CudaExecutor::run_step(const StepWork& work, HeadConsumer& head) {
  const auto rows = static_cast<std::uint32_t>(work.plan.rows.size());
  bool persistent = is_persistent(work, 1);
  for (std::uint32_t row = 0; persistent && row < rows; ++row) persistent = !head.wants_hidden(row);
  if (!persistent) return GpuExecutor::run_step(work, head);
  run_persistent(work, 1, {});
  head.add_dispatches(1);
  for (std::uint32_t row = 0; row < rows; ++row) {
    head.take_hidden(row, {});
    if (!head.wants_logits(row)) continue;
    const auto id = static_cast<std::int32_t>(answer_words()[kIds + row]);
    if (id >= 0 && head.wants_choice(row)) {
      head.take_choice(row, id);
      continue;
    }
    logits_.resize(config().vocab_size);
    cuda_.read({*buffers().logits, row * std::uint64_t{buffers().logits_stride()} * sizeof(float),
                logits_.size() * sizeof(float)},
               std::as_writable_bytes(std::span(logits_)));
    head.take_logits(row, logits_);
  }
}

bool CudaExecutor::can_chain_persistent(const StepWork& first, const StopIds& stop_ids,
                                        std::uint32_t steps) const {
  if (!is_persistent(first, steps)) return false;
  std::size_t ids = 0;
  for (const RowPlan& row : first.plan.rows) ids += stops_of(row.row, stop_ids).size();
  return ids <= kMostStopIds;
}

bool CudaExecutor::can_chain(const StepWork& first, const StopIds& stop_ids) const {
  return can_chain_persistent(first, stop_ids, limits().max_steps) || GpuExecutor::can_chain(first, stop_ids);
}

std::uint64_t CudaExecutor::run_chain(const StepWork& first, std::uint32_t steps, const StopIds& stop_ids,
                                      std::span<std::int32_t> ids, const ChainProgress& progress) {
  if (!can_chain_persistent(first, stop_ids, steps)) {
    return GpuExecutor::run_chain(first, steps, stop_ids, ids, progress);
  }
  const auto words = answer_words();
  const std::size_t rows = first.plan.rows.size();
  std::fill(ids.begin(), ids.end(), kChainStopped);
  std::size_t known = 0;
  const auto take_in = [&](std::uint32_t done) {
    for (; known < done * rows; ++known) {
      const auto id = static_cast<std::int32_t>(words[kIds + known]);
      ids[known] = id == kNotRunning ? kChainStopped : id < 0 ? kChainDry : id;
    }
    progress(done);
  };
  run_persistent(first, steps, stop_ids, take_in);
  take_in(words[kStepsDone]);
  return 1;
}

std::span<std::uint32_t> CudaExecutor::answer_words() const {
  const auto bytes = answer_->mapped();
  return {reinterpret_cast<std::uint32_t*>(bytes.data()), bytes.size() / sizeof(std::uint32_t)};
}

/// The device counts steps up, after it has written what was chosen in them.
void CudaExecutor::watch(std::uint32_t& steps_done, const ChainProgress& progress) {
  const std::atomic_ref counter(steps_done);
  do {
    progress(counter.load(std::memory_order_acquire));
  } while (!cuda_.wait_for(kLookInterval));
}

void CudaExecutor::run_persistent(const StepWork& first, std::uint32_t steps, const StopIds& stop_ids,
                                  const ChainProgress& progress) {
  const auto& rows = first.plan.rows;
  Resident& resident = rows.size() == 1 ? one_ : several_;
  const std::uint32_t epochs = steps * (resident.model.layers + 1);
  if (resident.epoch > kLastEpoch - std::min(epochs, kLastEpoch)) {
    cuda_.run_once([&resident](gpu::Recorder& recorder) { recorder.fill(*resident.exchange, 0); });
    resident.epoch = 1;
  }
  const auto words = answer_words();
  PersistentStep step{.rows = static_cast<std::uint32_t>(rows.size()),
                      .steps = steps,
                      .epoch = resident.epoch,
                      .logits = static_cast<float*>(cuda_.address(*buffers().logits)),
                      .logits_stride = buffers().logits_stride(),
                      .cancel = &buffers().chain_word(gpu::kChainCancelled),
                      .ids = reinterpret_cast<std::int32_t*>(&words[kIds]),
                      .steps_done = &words[kStepsDone],
                      .late = &words[kLate]};
  if (steps == 1) step.cancel = nullptr;
  resident.epoch += epochs;
  std::uint32_t stops = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    step.token[r] = first.tokens[r];
    step.position[r] = first.plan.positions[r];
    step.table_offsets[r] = step.table_entries;
    const auto table = first.table(rows[r]);
    const std::size_t entries =
        std::min<std::size_t>(table.size(), (step.position[r] + steps - 1) / kSplitPositions + 1);
    std::copy_n(table.begin(), entries, step.table + step.table_entries);
    step.table_entries += static_cast<std::uint32_t>(entries);
    if (steps > 1) {
      const auto ids = stops_of(rows[r].row, stop_ids);
      std::copy(ids.begin(), ids.end(), step.stop + stops);
      stops += static_cast<std::uint32_t>(ids.size());
    }
    step.stop_offsets[r + 1] = stops;
  }
  words[kStepsDone] = 0;
  words[kLate] = 0;
  cuda_.persistent_launch(resident.model, step);
  try {
    if (progress) watch(words[kStepsDone], progress);
    cuda_.wait();
  } catch (const DeviceLost& error) {
    if (words[kLate] == 0 || words[kLate] >= kAwaited.size()) throw;
    throw DeviceLost(fmt::format("{}; thread {} of block {} waited in vain for {} at position {}",
                                 error.what(), words[kLate + 2], words[kLate + 1], kAwaited[words[kLate]],
                                 step.position[0]));
  }
}

}  // namespace inferno::cuda
