#include "backend/gpu/fusions.hpp"

#include <algorithm>

#include "backend/gpu/encode_product.hpp"

namespace inferno::gpu {
namespace {

bool all_int8(const Projection& projection) {
  return std::all_of(projection.pieces.begin(), projection.pieces.end(),
                     [](const WeightPiece& piece) { return piece.kind == WeightKind::q8; });
}

bool is_one_int8_piece(const Projection& projection) {
  return projection.pieces.size() == 1 && all_int8(projection);
}

}  // namespace

Fusions Fusions::of(const Device& device) {
  return {.vectors = device.has(Kernel::norm_matvec_q8) && device.has(Kernel::norm_swiglu_q8) &&
                     device.has(Kernel::quantize_matvec_q8),
          .swiglu = device.has(Kernel::matmul_swiglu_q8),
          .attention = device.has(Kernel::attend_one)};
}

bool Fusions::quantize_inside(const Projection& projection) const {
  return vectors && all_int8(projection);
}

bool Fusions::activate_inside(const DeviceLayer& layer, const ModelConfig& config) const {
  return vectors && is_one_int8_piece(layer.gate_up) && config.ffn_size % kPanel == 0 && all_int8(layer.down);
}

bool Fusions::activate_after_product(const DeviceLayer& layer, const ModelConfig& config) const {
  return swiglu && is_one_int8_piece(layer.gate_up) && config.ffn_size % 32 == 0;
}

bool Fusions::attend_at_once(const DeviceLayer& layer, const ModelConfig& config) const {
  return attention && config.head_dim % 32 == 0 && config.head_dim <= kFusedHead &&
         all_int8(layer.attention_output);
}

Kernel Fusions::attention_kernel(const ModelConfig& config) {
  const bool usual = config.head_dim == 128 && config.heads / config.kv_heads <= kFused128Group;
  return usual ? Kernel::attend_one_128 : Kernel::attend_one;
}

Kernel embed_kernel(WeightKind kind) {
  switch (kind) {
    case WeightKind::q8:
      return Kernel::embed_q8;
    case WeightKind::f32:
      return Kernel::embed_f32;
    case WeightKind::f16:
      return Kernel::embed_f16;
    case WeightKind::bf16:
      break;
  }
  return Kernel::embed_bf16;
}

std::vector<Kernel> step_kernels(const Device& device, const ModelConfig& config,
                                 const DeviceWeights& weights) {
  std::vector<Kernel> kernels = {
      Kernel::norm,   Kernel::quantize, Kernel::prepare_heads, Kernel::attend,        Kernel::merge,
      Kernel::swiglu, Kernel::add,      Kernel::gather,        Kernel::argmax_chunks, Kernel::argmax,
      Kernel::adjust, Kernel::sample,   Kernel::advance};
  const auto want = [&kernels](Kernel kernel) {
    if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end()) kernels.push_back(kernel);
  };
  const auto want_products = [&](const Projection& projection) {
    for (const WeightPiece& piece : projection.pieces) {
      want(product_kernel(piece.kind, true));
      want(product_kernel(piece.kind, false));
    }
  };
  const Fusions fuses = Fusions::of(device);
  for (const WeightPiece& piece : weights.embedding()) want(embed_kernel(piece.kind));
  for (const DeviceLayer& layer : weights.layers()) {
    for (const Projection* projection : {&layer.qkv, &layer.attention_output, &layer.gate_up, &layer.down}) {
      want_products(*projection);
    }
    if (fuses.quantize_inside(layer.qkv)) want(Kernel::norm_matvec_q8);
    if (fuses.quantize_inside(layer.attention_output)) want(Kernel::quantize_matvec_q8);
    if (fuses.activate_inside(layer, config)) {
      want(Kernel::norm_swiglu_q8);
      want(Kernel::quantize_matvec_q8);
    }
    if (fuses.activate_after_product(layer, config)) want(Kernel::matmul_swiglu_q8);
    if (fuses.attend_at_once(layer, config)) want(Fusions::attention_kernel(config));
  }
  want_products(weights.lm_head());
  return kernels;
}

}  // namespace inferno::gpu
