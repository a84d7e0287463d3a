#pragma once

#include "backend/gpu/device.hpp"
#include "backend/gpu/device_cache.hpp"
#include "backend/gpu/device_slots.hpp"
#include "backend/gpu/device_weights.hpp"
#include "backend/gpu/step_buffers.hpp"
#include "model/config.hpp"

namespace inferno::gpu {

/// What a norm or SwiGLU leaves: the forms that the products after it read (kWriteQuants, kWriteFloats).
std::uint32_t forms_for(const Projection& reader);

/// Writes down a Qwen3 step, kernel by kernel. What it refers to outlives it. Every part ends with a barrier,
/// so that parts can be put one after the other.
class StepEncoder {
 public:
  StepEncoder(const ModelConfig& config, const DeviceWeights& weights, const DeviceCache& cache,
              const StepBuffers& buffers, Recorder& recorder)
      : config_(config), weights_(weights), cache_(cache), buffers_(buffers), recorder_(recorder) {}

  /// Embedding and layers.
  void encode_layers(const StepShape& shape);
  /// Final norm of `rows` head rows and, if `lm_head`, their logits and what is chosen of them for the
  /// host.
  void encode_head(std::uint32_t rows, bool gathers, bool lm_head, const DeviceSlots* slots);
  /// A step whose choices are the tokens of the next one: recorded once, run as often as there are steps.
  void encode_chained_step(const StepShape& shape, const DeviceSlots* slots);

  // The parts, which an observer has one by one.
  void embed(std::uint32_t tokens);
  void norm(const Buffer& x, const Slice& weight, std::uint32_t rows, std::uint32_t forms);
  /// y (+)= W x of pieces of weights; `scaled`: times the norm's factors.
  void project(std::span<const WeightPiece> pieces, const Activations& x, std::uint32_t tokens, bool scaled,
               const Buffer& y, std::uint32_t y_stride, bool accumulate);
  void prepare_heads(std::size_t layer, std::uint32_t tokens, std::uint32_t parts);
  void attend(std::size_t layer, const StepShape& shape, std::uint32_t forms);
  void swiglu(std::size_t layer, std::uint32_t tokens, std::uint32_t forms);
  void add_branch(std::uint32_t tokens);
  void gather(std::uint32_t rows);
  void choose(std::uint32_t rows, const Buffer& chosen);
  void sample(std::uint32_t rows, const DeviceSlots& slots, const Buffer& chosen);

 private:
  void final_norm(std::uint32_t rows, bool gathers);
  void head_product(std::uint32_t rows);
  void advance(std::uint32_t rows);
  // Several stages in one kernel (encode_fused.cpp), where `tokens` or `shape` and the formats allow it.
  bool quantizes_inside(const Projection& projection, std::uint32_t tokens) const {
    return tokens == 1 && buffers_.fuses.quantize_inside(projection);
  }
  bool activates_inside(std::size_t layer, std::uint32_t tokens) const {
    return tokens == 1 && buffers_.fuses.activate_inside(weights_.layers()[layer], config_);
  }
  bool activates_after_product(std::size_t layer, std::uint32_t tokens) const {
    return tokens > kMatvecTokens && buffers_.fuses.activate_after_product(weights_.layers()[layer], config_);
  }
  bool attends_at_once(std::size_t layer, const StepShape& shape) const;
  void norm_project(const Slice& norm_weight, const Projection& projection, const Buffer& y);
  void quantize_project(const Projection& projection, const Activations& x, const Buffer& y);
  void norm_swiglu(std::size_t layer);
  void project_swiglu(std::size_t layer, std::uint32_t tokens, std::uint32_t forms);
  void attend_one(std::size_t layer, const StepShape& shape, std::uint32_t forms);
  void attention_block(std::size_t layer, const StepShape& shape);
  void ffn_block(std::size_t layer, const StepShape& shape);

  const ModelConfig& config_;
  const DeviceWeights& weights_;
  const DeviceCache& cache_;
  const StepBuffers& buffers_;
  Recorder& recorder_;
};

}  // namespace inferno::gpu
