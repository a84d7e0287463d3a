#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backend/cpu/memory_check.hpp"
#include "backend/cpu/scalar/cache.hpp"
#include "backend/cpu/scalar/scratch.hpp"
#include "backend/cpu/stages.hpp"
#include "model/loaded_model.hpp"
#include "model/rope.hpp"
#include "platform/available_memory.hpp"
#include "step/deferred_executor.hpp"

namespace inferno::scalar {

using cpu::kNormOperations;
using cpu::kRopeOperations;
using cpu::kSwigluOperations;
using cpu::Stages;

/// Qwen3 in plain float loops over dequantized weights with a float cache, on one thread: the readable
/// oracle. It says what the model is, and how far the arithmetic of the other backends is from exact. This
/// file is the place to read the order of the stages; each stage is one call.
class ScalarExecutor : public DeferredExecutor {
 public:
  /// What it runs on, for people.
  static constexpr std::string_view kDevice = "1 thread, float32";

  /// `model` outlives the executor.
  explicit ScalarExecutor(const LoadedModel& model);

  MemoryNeed memory_need(const Limits& limits) const override;
  BlockRoom block_room(const Limits& limits) const override {
    return room_for_blocks(memory_need(limits), limits, available_memory(), "here");
  }

 protected:
  void allocate(const Limits& limits) override;
  void run_step(const StepWork& work, HeadConsumer& head) override;
  std::size_t block_bytes() const override;
  void copy_block(std::uint32_t source, std::uint32_t target) override;
  void read_block(std::uint32_t block, std::span<std::byte> target) const override;
  void write_block(std::uint32_t block, std::span<const std::byte> source) override;

 private:
  // The parts of a step, in their order.
  void run_embedding(const StepWork& work, Stages& stages);
  void run_attention(const StepWork& work, int layer, Stages& stages);
  void run_ffn(const StepWork& work, int layer, Stages& stages);
  void run_head(const StepWork& work, HeadConsumer& head, Stages& stages);
  void run_lm_head(std::uint32_t rows, HeadConsumer& head, Stages& stages);

  // One stage each. `width` is that of a token's values; a norm or rotation of width E is done head by head.
  void norm(StageEvent event, std::span<const float> x, std::span<const float> weight, std::span<float> y,
            std::size_t width, Stages& stages) const;
  void project(StageEvent event, const Matrix& weight, std::span<const float> x, std::span<float> y,
               Stages& stages);
  void rotate(StageEvent event, std::span<float> heads, std::size_t width, Stages& stages);
  void append_kv(StageEvent event, const StepWork& work, Stages& stages);
  void attend(StageEvent event, const StepWork& work, Stages& stages);
  void add_residual(StageEvent event, std::span<const float> branch, Stages& stages);

  const ModelConfig& config_;
  const ModelWeights& weights_;
  Rope rope_;
  Cache cache_;
  Scratch scratch_;
};

}  // namespace inferno::scalar
