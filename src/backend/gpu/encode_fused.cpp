// A step is a chain of dispatches that each wait for the one before: here is what makes them fewer, for one
// token most of all. Everything computes what the plain kernels compute.

#include <cmath>

#include "backend/gpu/encode_step.hpp"

namespace inferno::gpu {
/// Every row has one token, so that tile t is token t. Keys lie at multiples of 16 bytes; where heads have
/// 128 elements, fours of positions in a cache block.
bool StepEncoder::attends_at_once(std::size_t layer, const StepShape& shape) const {
  return buffers_.fuses.attend_at_once(weights_.layers()[layer], config_) && shape.groups.size() == 1 &&
         shape.groups[0].tiles == shape.tokens &&
         cache_.layout().block_size * (config_.head_dim / 32) % (config_.head_dim == 128 ? 16 : 4) == 0;
}

void StepEncoder::norm_project(const Slice& norm_weight, const Projection& projection, const Buffer& y) {
  const std::uint32_t segments = projection.segments();
  for (const WeightPiece& piece : projection.pieces) {
    const NormMatrixConstants constants{.rows = piece.rows,
                                        .segments = segments,
                                        .first_out = piece.first_out,
                                        .lanes = fused_lanes(segments),
                                        .inverse_length = 1.0F / static_cast<float>(config_.hidden_size),
                                        .epsilon = config_.rms_epsilon};
    recorder_.dispatch(Kernel::norm_matvec_q8, {piece.bytes, *buffers_.hidden, norm_weight, y}, constants,
                       fused_grid(piece.rows, segments));
  }
  recorder_.barrier();
}

void StepEncoder::quantize_project(const Projection& projection, const Activations& x, const Buffer& y) {
  const std::uint32_t segments = projection.segments();
  for (const WeightPiece& piece : projection.pieces) {
    const QuantizeMatrixConstants constants{.rows = piece.rows,
                                            .segments = segments,
                                            .first_out = piece.first_out,
                                            .lanes = fused_lanes(segments)};
    recorder_.dispatch(Kernel::quantize_matvec_q8, {piece.bytes, *x.floats, y}, constants,
                       fused_grid(piece.rows, segments));
  }
  recorder_.barrier();
}

void StepEncoder::norm_swiglu(std::size_t layer) {
  const DeviceLayer& weights = weights_.layers()[layer];
  const std::uint32_t segments = weights.gate_up.segments();
  const NormSwigluConstants constants{.rows = config_.ffn_size,
                                      .segments = segments,
                                      .lanes = fused_lanes(segments),
                                      .inverse_length = 1.0F / static_cast<float>(config_.hidden_size),
                                      .epsilon = config_.rms_epsilon};
  recorder_.dispatch(
      Kernel::norm_swiglu_q8,
      {weights.gate_up.pieces[0].bytes, *buffers_.hidden, weights.ffn_norm, *buffers_.activated.floats},
      constants, fused_grid(config_.ffn_size, segments));
  recorder_.barrier();
}

void StepEncoder::project_swiglu(std::size_t layer, std::uint32_t tokens, std::uint32_t forms) {
  const Projection& gate_up = weights_.layers()[layer].gate_up;
  const Activations& x = buffers_.normed;
  const Activations& out = buffers_.activated;
  const MatmulSwigluConstants constants{.rows = config_.ffn_size,
                                        .segments = gate_up.segments(),
                                        .tokens = tokens,
                                        .stride = out.stride,
                                        .write = forms};
  recorder_.dispatch(Kernel::matmul_swiglu_q8,
                     {gate_up.pieces[0].bytes, *x.quants, *x.scales, *buffers_.factors, *out.floats,
                      *out.quants, *out.scales},
                     constants, {config_.ffn_size / 32, divide_up(tokens, kMatmulTokens)});
  recorder_.barrier();
}

void StepEncoder::attend_one(std::size_t layer, const StepShape& shape, std::uint32_t forms) {
  const DeviceLayer& weights = weights_.layers()[layer];
  const AttendOneConstants constants{
      .heads = config_.heads,
      .kv_heads = config_.kv_heads,
      .head_dim = config_.head_dim,
      .padded_dim = config_.head_dim,
      .stride = weights.qkv.out_stride,
      .key_offset = weights.qkv.offsets[1],
      .value_offset = weights.qkv.offsets[2],
      .block_size = static_cast<std::uint32_t>(cache_.layout().block_size),
      .max_splits = buffers_.max_splits(),
      .first_token = shape.groups[0].first_token,
      .out_stride = buffers_.mixed.stride,
      .inverse_length = 1.0F / static_cast<float>(config_.head_dim),
      .epsilon = config_.rms_epsilon,
      .softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim))),
      .write = forms};
  recorder_.dispatch_indirect(
      Fusions::attention_kernel(config_),
      {*buffers_.qkv, weights.query_norm, weights.key_norm, *buffers_.rope, *buffers_.slots,
       cache_.layer(layer), *buffers_.tables, *buffers_.tiles, *buffers_.statistics, *buffers_.split_outputs,
       *buffers_.splits_done, *buffers_.mixed.floats, *buffers_.mixed.quants, *buffers_.mixed.scales},
      constants, buffers_.attention_grid(0));
  recorder_.barrier();
}

}  // namespace inferno::gpu
