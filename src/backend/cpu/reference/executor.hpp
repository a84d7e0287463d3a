#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arith/attention.hpp"
#include "backend/cpu/contract/block_layout.hpp"
#include "backend/cpu/memory_check.hpp"
#include "backend/cpu/stages.hpp"
#include "model/loaded_model.hpp"
#include "model/rope.hpp"
#include "platform/available_memory.hpp"
#include "step/deferred_executor.hpp"

namespace inferno::reference {

/// Qwen3 by the arithmetic contract, in the words of src/arith: slow and obvious. Every fast backend must
/// equal it bit for bit; nothing else is it for.
class ReferenceExecutor : public DeferredExecutor {
 public:
  /// What it runs on, for people.
  static constexpr std::string_view kDevice = "1 thread, the arithmetic contract in plain C++";

  /// `model` outlives the executor.
  explicit ReferenceExecutor(const LoadedModel& model);

  MemoryNeed memory_need(const Limits& limits) const override;
  BlockRoom block_room(const Limits& limits) const override {
    return room_for_blocks(memory_need(limits), limits, available_memory(), "here");
  }

 protected:
  void allocate(const Limits& limits) override;
  void run_step(const StepWork& work, HeadConsumer& head) override;
  std::size_t block_bytes() const override { return layout_.block_bytes(); }
  void copy_block(std::uint32_t source, std::uint32_t target) override;
  void read_block(std::uint32_t block, std::span<std::byte> target) const override;
  void write_block(std::uint32_t block, std::span<const std::byte> source) override;

 private:
  /// One vector per token.
  using Vectors = std::vector<std::vector<float>>;

  /// A norm that feeds matrix products: x * weight, and 1 / rms(x), by which the finished row sums are
  /// multiplied. The same function as norming first, and the products need not wait for the sum of squares.
  struct Normed {
    Vectors weighted;
    std::vector<float> inverse_rms;
    /// What the norm means, for observers and outputs: weighted * inverse_rms.
    std::vector<float> values() const;
  };

  void run_attention(const StepWork& work, int layer, cpu::Stages& stages);
  void run_ffn(int layer, cpu::Stages& stages);
  void run_head(const StepWork& work, HeadConsumer& head, cpu::Stages& stages);

  Normed norm(StageEvent event, const Vectors& x, std::span<const float> weight, cpu::Stages& stages) const;
  /// y[rows] = W x for each token, each row sum times the token's factor if there are factors.
  static Vectors project(StageEvent event, const Matrix& matrix, const Vectors& x,
                         const std::vector<float>* factors, cpu::Stages& stages);
  void norm_heads(StageEvent event, Vectors& heads, std::span<const float> weight, cpu::Stages& stages) const;
  void rotate_heads(StageEvent event, Vectors& heads, const StepWork& work, cpu::Stages& stages) const;
  void append_kv(StageEvent event, const Vectors& keys, const Vectors& values, const StepWork& work,
                 cpu::Stages& stages);
  Vectors attend(StageEvent event, const Vectors& queries, const StepWork& work, cpu::Stages& stages) const;
  void add_residual(StageEvent event, const Vectors& branch, cpu::Stages& stages);

  /// One query head of a token against every position up to its own.
  std::vector<float> attend_head(std::span<const float> query, std::span<const std::uint32_t> table,
                                 std::uint32_t position, std::size_t layer, std::size_t kv_head) const;
  /// Where the bytes of one KV head of one layer in one block begin.
  std::byte* head_of(std::uint32_t block, std::size_t layer, std::size_t kv_head);
  const std::byte* head_of(std::uint32_t block, std::size_t layer, std::size_t kv_head) const;

  const ModelConfig& config_;
  const ModelWeights& weights_;
  Rope rope_;
  cpu::BlockLayout layout_;
  std::vector<std::byte> cache_;  // [blocks] of layout_
  Vectors hidden_;                // [T][D], the residual stream
};

}  // namespace inferno::reference
