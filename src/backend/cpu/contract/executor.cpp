#include "backend/cpu/contract/executor.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/cpu/memory_check.hpp"

namespace inferno::cpu {
namespace {

/// The shared part's, completed.
Capabilities cpu_capabilities(Capabilities can, std::string name, const KernelSet& kernels, unsigned threads,
                              const OutsideProducts* outside) {
  can.backend = std::move(name);
  can.device =
      std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") + std::string(kernels.name);
  if (outside != nullptr) can.device = hybrid_device(outside->device(), can.device);
  can.contract = true;
  can.observation = true;
  can.cache_format = kContractCacheFormat;
  return can;
}

}  // namespace

std::string hybrid_device(std::string_view device, std::string_view cpu) {
  return std::string(device) + " beside " + std::string(cpu);
}

CpuExecutor::CpuExecutor(std::string name, const LoadedModel& model, const KernelSet& kernels,
                         std::unique_ptr<ParallelPolicy> policy, std::unique_ptr<OutsideProducts> outside)
    : DeferredExecutor(model.config, cpu_capabilities(shared_capabilities(), std::move(name), kernels,
                                                      policy->threads(), outside.get())),
      model_(model),
      config_(model.config),
      kernels_(kernels),
      policy_(std::move(policy)),
      outside_(std::move(outside)),
      weights_(model, *policy_, outside_.get()),
      rope_(model.config),
      shape_(model.config),
      softmax_scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(model.config.head_dim)))) {}

MemoryNeed CpuExecutor::memory_need(const Limits& limits) const {
  const auto splits = std::uint64_t{splits_of(limits.max_context)};
  const auto partials =
      kItemsPerThread * policy_->threads() * shape_.group * splits * shape_.partial_floats();
  return {
      .cache_bytes = std::uint64_t{KvStore::stored_block_bytes(config_, limits.block_size)} * limits.blocks,
      .scratch_bytes = Scratch::bytes(config_, limits) + slot_bytes(limits) +
                       policy_->threads() * AttentionWorker::bytes(shape_, limits.max_context) +
                       partials * sizeof(float) + (outside_ ? outside_->scratch_bytes(limits) : 0),
      .weight_bytes = weights_.packed_bytes() + (outside_ ? outside_->weight_bytes() : 0)};
}

void CpuExecutor::allocate(const Limits& limits) {
  cache_ = KvStore();
  scratch_ = Scratch();
  workers_.clear();
  check_memory(capabilities().backend, memory_need(limits), limits);
  cache_ = KvStore(config_, limits.block_size, limits.blocks, limits.populate);
  scratch_ = Scratch(config_, limits);
  if (outside_) outside_->reserve(limits);
  for (unsigned i = 0; i < policy_->threads(); ++i) workers_.emplace_back(shape_, limits.max_context);
  const auto splits = std::size_t{splits_of(limits.max_context)};
  partials_ = AlignedBuffer<float>(kItemsPerThread * policy_->threads() * shape_.group * splits *
                                   shape_.partial_floats());
}

void CpuExecutor::run_step(const StepWork& work, HeadConsumer& head) {
  Stages stages(work.observer);
  const std::uint64_t waits = outside_ ? outside_->waits() : 0;
  run_embedding(work, stages);
  for (int layer = 0; layer < static_cast<int>(config_.layers); ++layer) {
    run_attention(work, layer, stages);
    run_ffn(work, layer, stages);
  }
  run_head(work, head, stages);
  if (outside_) head.add_device_waits(outside_->waits() - waits);
}

CpuExecutor::Input CpuExecutor::norm(const float* x, std::size_t tokens, const std::vector<float>& weight,
                                     bool quantized, bool floats) {
  const auto width = static_cast<std::uint32_t>(weight.size());
  const float inverse_length = 1.0F / static_cast<float>(width);
  const auto target = scratch_.input(width);
  for_shares(tokens, tokens * width, [&](std::size_t begin, std::size_t end) {
    for (auto t = begin; t < end; ++t) {
      const float* row = x + t * width;
      float& factor = scratch_.factors.data()[t];
      if (quantized) {
        factor = kernels_.norm_quantize(row, weight.data(), width, inverse_length, config_.rms_epsilon,
                                        target, static_cast<std::uint32_t>(t));
      }
      if (floats) {
        factor = kernels_.norm_float(row, weight.data(), width, inverse_length, config_.rms_epsilon,
                                     scratch_.weighted.data() + t * width);
      }
    }
  });
  return {target, scratch_.weighted.data(), scratch_.factors.data()};
}

CpuExecutor::Input CpuExecutor::input(const float* x, std::size_t tokens, std::uint32_t width,
                                      bool quantized) {
  const auto target = scratch_.input(width);
  if (quantized) {
    for_shares(tokens, tokens * width, [&](std::size_t begin, std::size_t end) {
      for (auto t = begin; t < end; ++t)
        kernels_.quantize(x + t * width, target, static_cast<std::uint32_t>(t));
    });
  }
  return {target, x, nullptr};
}

void CpuExecutor::multiply(const Product& product, std::size_t first, std::size_t end, const Input& x,
                           std::size_t tokens) const {
  const auto& matrix = *product.matrix;
  const auto first_panel = static_cast<std::uint32_t>(first);
  const auto end_panel = static_cast<std::uint32_t>(end);
  if (matrix.is_packed()) {
    kernels_.matmul(matrix.packed, first_panel, end_panel, x.quantized, static_cast<std::uint32_t>(tokens),
                    x.factors, product.y, product.stride);
  } else {
    kernels_.matmul_float(matrix.source, first_panel * kPanelRows,
                          std::min(end_panel * kPanelRows, matrix.rows()), x.floats,
                          static_cast<std::uint32_t>(tokens), x.factors, product.y, product.stride);
  }
}

void CpuExecutor::multiply_all(std::span<const Product> products, const Input& x, std::size_t tokens) {
  std::size_t panels = 0;
  for (const auto& product : products) {
    const CpuMatrix& matrix = *product.matrix;
    if (matrix.is_outside) {
      outside_->multiply(matrix.source, x.floats, tokens, x.factors, product.y, product.stride);
    } else {
      panels += matrix.panels();
    }
  }
  if (panels == 0) return;
  const auto multiply_share = [&](unsigned part, unsigned parts) {
    const auto share = share_of(panels, part, parts);
    std::size_t offset = 0;
    for (const auto& product : products) {
      if (product.matrix->is_outside) continue;
      const std::size_t count = product.matrix->panels();
      const auto begin = std::clamp(share.begin, offset, offset + count) - offset;
      const auto end = std::clamp(share.end, offset, offset + count) - offset;
      if (begin < end) multiply(product, begin, end, x, tokens);
      offset += count;
    }
  };
  policy_->run(multiply_share, parts_per_thread(panels));
}

unsigned CpuExecutor::parts_per_thread(std::size_t panels) const {
  const auto parts = panels / (std::size_t{kPanelsPerPart} * policy_->threads());
  return static_cast<unsigned>(std::clamp<std::size_t>(parts, 1, kMaxPartsPerThread));
}

}  // namespace inferno::cpu
