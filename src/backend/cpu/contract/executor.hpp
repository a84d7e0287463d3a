#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/contract/attention.hpp"
#include "backend/cpu/contract/cpu_weights.hpp"
#include "backend/cpu/contract/kv_store.hpp"
#include "backend/cpu/contract/scratch.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "backend/cpu/memory_check.hpp"
#include "backend/cpu/parallel/policy.hpp"
#include "backend/cpu/stages.hpp"
#include "model/loaded_model.hpp"
#include "model/rope.hpp"
#include "platform/available_memory.hpp"
#include "step/deferred_executor.hpp"

namespace inferno::cpu {

/// The contract backends of the CPU: {kernel set} x {parallel policy}. `simd`, `parallel` and `pool` are this
/// class with another policy; the rows of an operation are split among threads, a sum never is.
///
/// Between two waits for all threads as much is done as the data allow: query, key and value rows are one
/// operation, gate, up and SwiGLU are one, a product and the residual that takes it are one. With an observer
/// every stage runs by itself.
class CpuExecutor : public DeferredExecutor {
 public:
  /// `name` is the backend's. Repacks the weights. `model` outlives the executor. With `outside` products of
  /// some matrices are done there, one by one, and nothing is fused.
  CpuExecutor(std::string name, const LoadedModel& model, const KernelSet& kernels,
              std::unique_ptr<ParallelPolicy> policy, std::unique_ptr<OutsideProducts> outside = nullptr);

  MemoryNeed memory_need(const Limits& limits) const override;
  BlockRoom block_room(const Limits& limits) const override {
    return room_for_blocks(memory_need(limits), limits, available_memory(), "here");
  }

 protected:
  void allocate(const Limits& limits) override;
  void run_step(const StepWork& work, HeadConsumer& head) override;
  std::size_t block_bytes() const override { return cache_.layout().block_bytes(); }
  void copy_block(std::uint32_t source, std::uint32_t target) override { cache_.copy(source, target); }
  void read_block(std::uint32_t block, std::span<std::byte> target) const override {
    cache_.read(block, target);
  }
  void write_block(std::uint32_t block, std::span<const std::byte> source) override {
    cache_.write(block, source);
  }

 private:
  /// What a matrix product reads: the same values quantized and as floats, whichever its weights need.
  struct Input {
    QuantizedBatch quantized;
    const float* floats = nullptr;   ///< [T][columns]
    const float* factors = nullptr;  ///< [T] applied to the finished sums, or nullptr
  };
  /// One product of an operation that runs several: y [T][...] with `stride` floats from token to token.
  struct Product {
    const CpuMatrix* matrix;
    float* y;
    std::size_t stride;
  };

  /// Work on fewer floats than this is done by the caller: handing it over costs more than it saves.
  static constexpr std::size_t kWorthSharing = 16384;
  /// Attention is spread over splits, too, if there are fewer items than this per thread.
  static constexpr std::size_t kItemsPerThread = 4;
  /// Products are cut no finer than this: 64 KB of a matrix with 1024 columns, a few microseconds.
  static constexpr std::size_t kPanelsPerPart = 4;

  // The parts of a step (executor_layers.cpp).
  void run_embedding(const StepWork& work, Stages& stages);
  void run_attention(const StepWork& work, int layer, Stages& stages);
  void run_ffn(const StepWork& work, int layer, Stages& stages);
  void run_head(const StepWork& work, HeadConsumer& head, Stages& stages);

  /// Whether stages can be done at once: nobody watches them, and all of them are done here.
  bool fuses(const Stages& stages) const { return !stages.observed() && outside_ == nullptr; }

  // Stages and fused stages.
  Input norm_input(StageEvent event, const std::vector<float>& weight,
                   std::span<const CpuMatrix* const> readers, std::size_t tokens, Stages& stages);
  void project_qkv(const CpuLayer& layer, const Input& x, std::size_t tokens, int index, Stages& stages);
  void prepare_heads(const StepWork& work, int layer, Stages& stages);
  void project_back(StageEvent product, Stage residual, const CpuMatrix& matrix, const Input& x,
                    std::size_t tokens, Stages& stages);
  void run_product(StageEvent event, const Product& product, const Input& x, std::size_t tokens,
                   Stages& stages);
  StageEvent attention_event(const StepWork& work, int layer) const;

  // Attention (executor_attention.cpp).
  /// Norm and rotation of the G query heads and the key head of a KV head, then store_group.
  void prepare_group(const StepWork& work, std::size_t layer, std::size_t token, std::size_t kv_head);
  /// Quantizes the G queries; appends key and value to the cache.
  void store_group(const StepWork& work, std::size_t layer, std::size_t token, std::size_t kv_head);
  void attend(const StepWork& work, std::size_t layer, bool prepare);
  void attend_by_split(const StepWork& work, std::size_t layer);
  TokenTile tile_of(const StepWork& work, const RowPlan& row, std::uint32_t first_token, std::uint32_t count,
                    std::size_t layer, std::uint32_t kv_head) const;

  // Operations (executor.cpp).
  /// Runs `work(first, end)` over shares of `count` items; in this thread alone if all of them together are
  /// not worth a hand-over (`cost`: floats touched).
  template <typename Work>
  void for_shares(std::size_t count, std::size_t cost, const Work& work) {
    if (cost < kWorthSharing) return work(std::size_t{0}, count);
    policy_->run([&](unsigned part, unsigned parts) {
      const auto share = share_of(count, part, parts);
      work(share.begin, share.end);
    });
  }
  /// x [tokens][D] times the norm's weight, quantized and / or as floats; leaves 1 / rms in factors.
  Input norm(const float* x, std::size_t tokens, const std::vector<float>& weight, bool quantized,
             bool floats);
  /// Any vectors [tokens][width] as they are.
  Input input(const float* x, std::size_t tokens, std::uint32_t width, bool quantized);
  /// Rows of panels [first, end) of one product.
  void multiply(const Product& product, std::size_t first, std::size_t end, const Input& x,
                std::size_t tokens) const;
  /// How finely a product of so many panels is cut.
  unsigned parts_per_thread(std::size_t panels) const;
  /// Products that read the same input, their panels shared out as one list.
  void multiply_all(std::span<const Product> products, const Input& x, std::size_t tokens);

  const LoadedModel& model_;
  const ModelConfig& config_;
  const KernelSet& kernels_;
  std::unique_ptr<ParallelPolicy> policy_;
  std::unique_ptr<OutsideProducts> outside_;
  CpuWeights weights_;
  Rope rope_;
  AttentionShape shape_;
  float softmax_scale_;
  KvStore cache_;
  Scratch scratch_;
  std::vector<AttentionWorker> workers_;  // one per thread
  AlignedBuffer<float> partials_;         // splits of few tokens, spread over threads
};

}  // namespace inferno::cpu
