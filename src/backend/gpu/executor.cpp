#include "backend/gpu/executor.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fmt/format.h>

#include "arith/portable.hpp"
#include "backend/cpu/memory_check.hpp"
#include "backend/gpu/fusions.hpp"
#include "backend/gpu/meter.hpp"

namespace inferno::gpu {
namespace {

/// How long a chain runs before the host looks whether it is still wanted.
constexpr std::chrono::milliseconds kLookInterval{5};

/// The shared part's, completed.
Capabilities gpu_capabilities(Capabilities can, std::string name, const Device& device) {
  can.backend = std::move(name);
  can.device = device.capabilities().name;
  can.contract = true;
  can.observation = true;
  can.cache_format = cpu::kContractCacheFormat;
  return can;
}

template <typename T>
void read_into(Device& device, const Buffer& buffer, std::uint64_t first, std::span<T> target) {
  device.read({buffer, first * sizeof(T), target.size_bytes()}, std::as_writable_bytes(target));
}

}  // namespace

GpuExecutor::GpuExecutor(std::string name, const LoadedModel& model, std::unique_ptr<Device> device)
    : DeferredExecutor(model.config, gpu_capabilities(shared_capabilities(), std::move(name), *device)),
      model_(model),
      config_(model.config),
      device_(std::move(device)),
      weights_(model, *device_) {
  // One that the driver refuses is found out now, while another backend can still be taken.
  for (const Kernel kernel : step_kernels(*device_, config_, weights_)) device_->prepare(kernel);
}

StepStrides GpuExecutor::strides() const {
  const DeviceLayer& layer = weights_.layers().front();
  return {.qkv = layer.qkv.out_stride,
          .gate_up = layer.gate_up.out_stride,
          .attention_output = layer.attention_output.out_stride};
}

MemoryNeed GpuExecutor::memory_need(const Limits& limits) const {
  const cpu::BlockLayout layout(config_, limits.block_size);
  return {.cache_bytes = std::uint64_t{layout.block_bytes()} * limits.blocks,
          .scratch_bytes = StepBuffers::bytes(*device_, config_, strides(), limits) + slot_bytes(limits) +
                           layout.block_bytes() +
                           (DeviceSlots::fits(device_->capabilities(), config_, limits)
                                ? DeviceSlots::bytes(config_, limits)
                                : 0),
          .weight_bytes = weights_.bytes()};
}

BlockRoom GpuExecutor::block_room(const Limits& limits) const {
  BlockRoom room = room_for_blocks(memory_need(limits), limits, device_->free_bytes(),
                                   fmt::format("on {}", capabilities().device));
  const DeviceCapabilities& can = device_->capabilities();
  const std::uint64_t bindable =
      can.max_range / DeviceCache::layer_bytes(cpu::BlockLayout(config_, limits.block_size));
  if (bindable < room.blocks) {
    room = {bindable, fmt::format("{} binds at most {} bytes at once", can.name, can.max_range)};
  }
  return room;
}

std::unique_ptr<DeviceMeter> GpuExecutor::device_meter(std::uint64_t buffer_bytes) {
  if (!device_->has(Kernel::measure_read)) return nullptr;
  return std::make_unique<Meter>(*device_, buffer_bytes);
}

void GpuExecutor::allocate(const Limits& limits) {
  recordings_.clear();
  buffers_.reset();
  slots_.reset();
  cache_.reset();
  const MemoryNeed need = memory_need(limits);
  if (const std::uint64_t free = device_->free_bytes(); need.cache_bytes + need.scratch_bytes > free) {
    throw Error(fmt::format(
        "the {} backend needs {} bytes for the cache ({} blocks of {} positions) and {} bytes for a step of "
        "{} "
        "tokens, but {} bytes are free on {}; ask for a shorter context, fewer sequences or smaller steps",
        capabilities().backend, need.cache_bytes, limits.blocks, limits.block_size, need.scratch_bytes,
        limits.max_tokens, free, capabilities().device));
  }
  auto cache = std::make_unique<DeviceCache>(*device_, config_, limits.block_size, limits.blocks);
  buffers_ = std::make_unique<StepBuffers>(*device_, config_, strides(), limits);
  slots_ = DeviceSlots::fits(device_->capabilities(), config_, limits)
               ? std::make_unique<DeviceSlots>(*device_, config_, limits)
               : nullptr;
  cache_ = std::move(cache);
}

void GpuExecutor::run_step(const StepWork& work, HeadConsumer& head) {
  const std::uint64_t dispatches = device_->counters().dispatches;
  const StepShape shape = buffers_->fill(work);
  if (work.observer != nullptr) {
    run_observed(work, shape, head);
  } else {
    const std::uint32_t piece = buffers_->logits_rows();
    const std::uint32_t first_rows = std::min(shape.heads, piece);
    const bool samples = fill_slots(work, 0, first_rows, &head);
    device_->submit(recording_of(shape, false, samples), 1);
    device_->wait();
    hand_over(0, first_rows, head);
    // Logits of long prompts do not all fit: the head runs again for every piece of rows.
    for (std::uint32_t first = piece; first < shape.heads; first += piece) {
      const std::uint32_t rows = std::min(piece, shape.heads - first);
      buffers_->fill_head_map(std::span(work.plan.head_tokens).subspan(first, rows));
      const DeviceSlots* slots = fill_slots(work, first, rows, &head) ? slots_.get() : nullptr;
      device_->run_once(
          [&](Recorder& recorder) { encoder(recorder).encode_head(rows, true, shape.lm_head, slots); });
      hand_over(first, rows, head);
    }
  }
  head.add_dispatches(device_->counters().dispatches - dispatches);
}

const Recording& GpuExecutor::recording_of(const StepShape& shape, bool chained, bool samples) {
  const auto found = std::find_if(recordings_.begin(), recordings_.end(), [&](const Recorded& recorded) {
    return recorded.shape == shape && recorded.chained == chained && recorded.samples == samples;
  });
  if (found != recordings_.end()) {
    std::rotate(found, found + 1, recordings_.end());
    return *recordings_.back().recording;
  }
  const auto recorder = device_->record();
  StepEncoder encoder = this->encoder(*recorder);
  const DeviceSlots* slots = samples ? slots_.get() : nullptr;
  if (chained) {
    encoder.encode_chained_step(shape, slots);
  } else {
    encoder.encode_layers(shape);
    encoder.encode_head(std::min(shape.heads, buffers_->logits_rows()), shape.gathers, shape.lm_head, slots);
  }
  if (recordings_.size() == kMostRecordings) recordings_.erase(recordings_.begin());
  recordings_.push_back({shape, chained, samples, recorder->finish()});
  return *recordings_.back().recording;
}

bool GpuExecutor::fill_slots(const StepWork& work, std::uint32_t first, std::uint32_t rows,
                             const HeadConsumer* head) {
  bool samples = false;
  if (slots_ == nullptr) return samples;
  for (std::uint32_t i = 0; i < rows; ++i) {
    const StepPlan& plan = work.plan;
    const RowPlan& row = plan.rows[plan.row_of_token[plan.head_tokens[first + i]]];
    const std::uint32_t index = work.batch.slots[row.row];
    if (index == kGreedySlot || (*work.slots)[index].is_plain_greedy()) continue;
    if (head != nullptr && !head->wants_choice(first + i)) continue;
    if (!samples) slots_->start_step(rows);
    slots_->choose_by(i, index, (*work.slots)[index]);
    samples = true;
  }
  return samples;
}

bool GpuExecutor::can_chain(const StepWork& first, const StopIds& stop_ids) const {
  const std::size_t rows = first.plan.rows.size();
  return rows <= buffers_->attention_tokens() && rows <= buffers_->logits_rows() &&
         buffers_->has_room(first, stop_ids);
}

void GpuExecutor::start_chain() {
  std::atomic_ref(buffers_->chain_word(kChainCancelled)).store(0);
}

void GpuExecutor::cancel_chain() {
  std::atomic_ref(buffers_->chain_word(kChainCancelled)).store(1);
}

std::uint64_t GpuExecutor::run_chain(const StepWork& first, std::uint32_t steps, const StopIds& stop_ids,
                                     std::span<std::int32_t> ids, const ChainProgress& progress) {
  const std::uint64_t dispatches = device_->counters().dispatches;
  const StepShape shape = buffers_->fill(first);
  buffers_->fill_chain(first, stop_ids);
  const bool samples = fill_slots(first, 0, shape.heads, nullptr);
  device_->submit(recording_of(shape, true, samples), steps);
  // What was chosen stays on the device until the end; what is asked here is whether to go on.
  while (!device_->wait_for(kLookInterval)) progress(0);
  device_->wait();
  read_into(*device_, *buffers_->ids, 0, ids);
  // The device has counted for rows that had stopped, too.
  for (const RowPlan& row : first.plan.rows) {
    const std::uint32_t slot = first.batch.slots[row.row];
    if (slot != kGreedySlot && uses_history((*first.slots)[slot].settings))
      (*first.slots)[slot].device_current = false;
  }
  return device_->counters().dispatches - dispatches;
}

void GpuExecutor::hand_over(std::uint32_t first, std::uint32_t rows, HeadConsumer& head) {
  bool have_choices = false;
  for (std::uint32_t i = 0; i < rows; ++i) {
    const std::uint32_t row = first + i;
    hidden_.clear();
    if (head.wants_hidden(row)) {
      float factor = 0.0F;
      hidden_.resize(config_.hidden_size);
      const Activations& normed = buffers_->normed;
      read_into(*device_, *normed.floats, std::uint64_t{i} * normed.stride, std::span(hidden_));
      read_into(*device_, *buffers_->factors, i, std::span(&factor, 1));
      for (float& value : hidden_) value = arith::multiply(value, factor);
    }
    head.take_hidden(row, hidden_);
    if (!head.wants_logits(row)) continue;
    if (head.wants_choice(row)) {
      if (!have_choices) {
        chosen_.resize(rows);
        read_into(*device_, *buffers_->chosen, 0, std::span(chosen_));
        have_choices = true;
      }
      if (chosen_[i] >= 0) {
        head.take_choice(row, chosen_[i]);
        continue;
      }
    }
    logits_.resize(config_.vocab_size);
    read_into(*device_, *buffers_->logits, std::uint64_t{i} * buffers_->logits_stride(), std::span(logits_));
    head.take_logits(row, logits_);
  }
}

}  // namespace inferno::gpu
