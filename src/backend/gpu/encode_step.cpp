#include "backend/gpu/encode_step.hpp"

#include <cmath>

#include "backend/gpu/encode_product.hpp"

namespace inferno::gpu {
namespace {

float inverse_of(std::uint32_t length) {
  return 1.0F / static_cast<float>(length);
}

}  // namespace

std::uint32_t forms_for(const Projection& reader) {
  return (reader.reads_quants() ? kWriteQuants : 0U) | (reader.reads_floats() ? kWriteFloats : 0U);
}

void StepEncoder::encode_layers(const StepShape& shape) {
  embed(shape.tokens);
  for (std::size_t layer = 0; layer < weights_.layers().size(); ++layer) {
    attention_block(layer, shape);
    ffn_block(layer, shape);
  }
}

void StepEncoder::attention_block(std::size_t layer, const StepShape& shape) {
  const DeviceLayer& weights = weights_.layers()[layer];
  if (quantizes_inside(weights.qkv, shape.tokens)) {
    norm_project(weights.attention_norm, weights.qkv, *buffers_.qkv);
  } else {
    norm(*buffers_.hidden, weights.attention_norm, shape.tokens, forms_for(weights.qkv));
    project(weights.qkv.pieces, buffers_.normed, shape.tokens, true, *buffers_.qkv, weights.qkv.out_stride,
            false);
  }
  const bool quantizes = quantizes_inside(weights.attention_output, shape.tokens);
  const std::uint32_t forms = quantizes ? kWriteFloats : forms_for(weights.attention_output);
  if (attends_at_once(layer, shape)) {
    attend_one(layer, shape, forms);
  } else {
    prepare_heads(layer, shape.tokens, kHeadNorm | kHeadRotate | kHeadStore);
    attend(layer, shape, forms);
  }
  if (quantizes) {
    quantize_project(weights.attention_output, buffers_.mixed, *buffers_.hidden);
  } else {
    project(weights.attention_output.pieces, buffers_.mixed, shape.tokens, false, *buffers_.hidden,
            buffers_.normed.stride, true);
  }
}

void StepEncoder::ffn_block(std::size_t layer, const StepShape& shape) {
  const DeviceLayer& weights = weights_.layers()[layer];
  if (activates_inside(layer, shape.tokens)) {
    norm_swiglu(layer);
    quantize_project(weights.down, buffers_.activated, *buffers_.hidden);
  } else {
    norm(*buffers_.hidden, weights.ffn_norm, shape.tokens, forms_for(weights.gate_up));
    if (activates_after_product(layer, shape.tokens)) {
      project_swiglu(layer, shape.tokens, forms_for(weights.down));
    } else {
      project(weights.gate_up.pieces, buffers_.normed, shape.tokens, true, *buffers_.gate_up,
              weights.gate_up.out_stride, false);
      swiglu(layer, shape.tokens, forms_for(weights.down));
    }
    project(weights.down.pieces, buffers_.activated, shape.tokens, false, *buffers_.hidden,
            buffers_.normed.stride, true);
  }
}

void StepEncoder::encode_head(std::uint32_t rows, bool gathers, bool lm_head, const DeviceSlots* slots) {
  if (rows == 0) return;
  final_norm(rows, gathers);
  if (!lm_head) return;
  head_product(rows);
  choose(rows, *buffers_.chosen);
  if (slots != nullptr) sample(rows, *slots, *buffers_.chosen);
}

void StepEncoder::encode_chained_step(const StepShape& shape, const DeviceSlots* slots) {
  encode_layers(shape);
  final_norm(shape.heads, false);
  head_product(shape.heads);
  choose(shape.heads, *buffers_.next);
  if (slots != nullptr) sample(shape.heads, *slots, *buffers_.next);
  advance(shape.heads);
}

void StepEncoder::final_norm(std::uint32_t rows, bool gathers) {
  if (gathers) gather(rows);
  norm(gathers ? *buffers_.head_hidden : *buffers_.hidden, weights_.final_norm(), rows,
       forms_for(weights_.lm_head()) | kWriteFloats);
}

void StepEncoder::head_product(std::uint32_t rows) {
  project(weights_.lm_head().pieces, buffers_.normed, rows, true, *buffers_.logits, buffers_.logits_stride(),
          false);
}

void StepEncoder::embed(std::uint32_t tokens) {
  for (const WeightPiece& piece : weights_.embedding()) {
    const EmbedConstants constants{.columns = config_.hidden_size,
                                   .segments = divide_up(config_.hidden_size, kPadColumns),
                                   .first_row = piece.first_out,
                                   .rows = piece.rows,
                                   .stride = buffers_.normed.stride};
    recorder_.dispatch(embed_kernel(piece.kind), {*buffers_.tokens, piece.bytes, *buffers_.hidden}, constants,
                       {constants.segments, tokens});
  }
  recorder_.barrier();
}

void StepEncoder::norm(const Buffer& x, const Slice& weight, std::uint32_t rows, std::uint32_t forms) {
  const Activations& out = buffers_.normed;
  const NormConstants constants{.columns = config_.hidden_size,
                                .stride = out.stride,
                                .inverse_length = inverse_of(config_.hidden_size),
                                .epsilon = config_.rms_epsilon,
                                .write = forms};
  recorder_.dispatch(Kernel::norm, {x, weight, *out.floats, *out.quants, *out.scales, *buffers_.factors},
                     constants, {1, rows});
  recorder_.barrier();
}

void StepEncoder::project(std::span<const WeightPiece> pieces, const Activations& x, std::uint32_t tokens,
                          bool scaled, const Buffer& y, std::uint32_t y_stride, bool accumulate) {
  const ProductInput input{.floats = x.floats.get(),
                           .quants = x.quants.get(),
                           .scales = x.scales.get(),
                           .factors = buffers_.factors.get(),
                           .stride = x.stride};
  encode_product(recorder_, pieces, input, tokens, scaled, y, y_stride, accumulate);
  recorder_.barrier();
}

void StepEncoder::prepare_heads(std::size_t layer, std::uint32_t tokens, std::uint32_t parts) {
  const DeviceLayer& weights = weights_.layers()[layer];
  const double head_dim = config_.head_dim;
  const HeadConstants constants{.heads = config_.heads,
                                .kv_heads = config_.kv_heads,
                                .head_dim = config_.head_dim,
                                .padded_dim = pad_up(config_.head_dim, 32),
                                .stride = weights.qkv.out_stride,
                                .key_offset = weights.qkv.offsets[1],
                                .value_offset = weights.qkv.offsets[2],
                                .block_size = static_cast<std::uint32_t>(cache_.layout().block_size),
                                .inverse_length = inverse_of(config_.head_dim),
                                .epsilon = config_.rms_epsilon,
                                .softmax_scale = static_cast<float>(1.0 / std::sqrt(head_dim)),
                                .parts = parts};
  recorder_.dispatch(
      Kernel::prepare_heads,
      {*buffers_.qkv, weights.query_norm, weights.key_norm, *buffers_.rope, *buffers_.positions,
       *buffers_.slots, *buffers_.query_quants, *buffers_.query_scales, cache_.layer(layer)},
      constants, {config_.heads + 2 * config_.kv_heads, tokens});
  recorder_.barrier();
}

void StepEncoder::attend(std::size_t layer, const StepShape& shape, std::uint32_t forms) {
  const Activations& out = buffers_.mixed;
  const std::uint32_t padded_dim = pad_up(config_.head_dim, 32);
  // Where blocks of 32 straddle heads no single head can be quantized by itself.
  const bool apart = config_.head_dim % 32 != 0 && (forms & kWriteQuants) != 0;
  for (std::size_t i = 0; i < shape.groups.size(); ++i) {
    const AttentionGroup& group = shape.groups[i];
    const AttendConstants constants{.heads = config_.heads,
                                    .kv_heads = config_.kv_heads,
                                    .head_dim = config_.head_dim,
                                    .padded_dim = padded_dim,
                                    .block_size = static_cast<std::uint32_t>(cache_.layout().block_size),
                                    .first_tile = group.first_tile,
                                    .first_token = group.first_token,
                                    .max_splits = buffers_.max_splits(),
                                    .tile_tokens = group.tiles == group.tokens ? 1 : kTileTokens};
    recorder_.dispatch_indirect(
        Kernel::attend,
        {*buffers_.query_quants, *buffers_.query_scales, cache_.layer(layer), *buffers_.tables,
         *buffers_.tiles, *buffers_.statistics, *buffers_.split_outputs},
        constants, buffers_.attention_grid(i));
    recorder_.barrier();
    const MergeConstants merge{.heads = config_.heads,
                               .head_dim = config_.head_dim,
                               .padded_dim = padded_dim,
                               .first_token = group.first_token,
                               .max_splits = buffers_.max_splits(),
                               .stride = out.stride,
                               .write = apart ? kWriteFloats : forms};
    recorder_.dispatch(Kernel::merge,
                       {*buffers_.statistics, *buffers_.split_outputs, *buffers_.positions, *out.floats,
                        *out.quants, *out.scales},
                       merge, {config_.heads, group.tokens});
    recorder_.barrier();
  }
  if (!apart) return;
  recorder_.dispatch(Kernel::quantize, {*out.floats, *out.quants, *out.scales},
                     QuantizeConstants{.columns = out.columns, .stride = out.stride},
                     {out.stride / kPadColumns, shape.tokens});
  recorder_.barrier();
}

void StepEncoder::swiglu(std::size_t layer, std::uint32_t tokens, std::uint32_t forms) {
  const Projection& gate_up = weights_.layers()[layer].gate_up;
  const Activations& out = buffers_.activated;
  const SwigluConstants constants{.columns = config_.ffn_size,
                                  .up_offset = gate_up.offsets[1],
                                  .in_stride = gate_up.out_stride,
                                  .stride = out.stride,
                                  .write = forms};
  recorder_.dispatch(Kernel::swiglu, {*buffers_.gate_up, *out.floats, *out.quants, *out.scales}, constants,
                     {out.stride / kPadColumns, tokens});
  recorder_.barrier();
}

void StepEncoder::add_branch(std::uint32_t tokens) {
  const std::uint32_t stride = buffers_.normed.stride;
  recorder_.dispatch(Kernel::add, {*buffers_.hidden, *buffers_.branch},
                     AddConstants{.columns = config_.hidden_size, .stride = stride},
                     {stride / kPadColumns, tokens});
  recorder_.barrier();
}

void StepEncoder::gather(std::uint32_t rows) {
  const std::uint32_t stride = buffers_.normed.stride;
  recorder_.dispatch(Kernel::gather, {*buffers_.hidden, *buffers_.head_map, *buffers_.head_hidden},
                     GatherConstants{.columns = config_.hidden_size, .stride = stride},
                     {stride / kPadColumns, rows});
  recorder_.barrier();
}

void StepEncoder::choose(std::uint32_t rows, const Buffer& chosen) {
  const ArgmaxConstants constants{.columns = config_.vocab_size,
                                  .stride = buffers_.logits_stride(),
                                  .chunks = argmax_chunks_of(config_.vocab_size)};
  recorder_.dispatch(Kernel::argmax_chunks, {*buffers_.logits, *buffers_.best}, constants,
                     {constants.chunks, rows});
  recorder_.barrier();
  recorder_.dispatch(Kernel::argmax, {*buffers_.best, chosen}, constants, {1, rows});
  recorder_.barrier();
}

void StepEncoder::sample(std::uint32_t rows, const DeviceSlots& slots, const Buffer& chosen) {
  const SampleConstants constants = slots.constants();
  recorder_.dispatch(Kernel::adjust,
                     {*buffers_.logits, *slots.states, *slots.biases, *slots.counts, *slots.masks}, constants,
                     {divide_up(constants.columns, kPadColumns), rows});
  recorder_.barrier();
  recorder_.dispatch(
      Kernel::sample,
      {*buffers_.logits, *slots.states, *slots.counts, *buffers_.positions, *buffers_.head_map, chosen},
      constants, {rows});
  recorder_.barrier();
}

void StepEncoder::advance(std::uint32_t rows) {
  const AdvanceConstants constants{.rows = rows,
                                   .block_size = static_cast<std::uint32_t>(cache_.layout().block_size)};
  recorder_.grid_barrier();
  recorder_.dispatch(
      Kernel::advance,
      {*buffers_.next, *buffers_.tokens, *buffers_.positions, *buffers_.slots, *buffers_.tables,
       *buffers_.tiles, buffers_.attention_grid(0), *buffers_.stops, *buffers_.chain, *buffers_.ids},
      constants, {});
  recorder_.barrier();
}

}  // namespace inferno::gpu
