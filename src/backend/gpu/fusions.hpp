#pragma once

#include <vector>

#include "backend/gpu/device.hpp"
#include "backend/gpu/device_weights.hpp"
#include "model/config.hpp"

namespace inferno::gpu {

/// Which stages a device has one kernel for. Where it is used depends on the formats of a model's weights,
/// too.
struct Fusions {
  bool vectors = false;    ///< norm_matvec_q8, norm_swiglu_q8, quantize_matvec_q8: for one token
  bool swiglu = false;     ///< matmul_swiglu_q8: for many tokens
  bool attention = false;  ///< attend_one: for rows of one token each

  static Fusions of(const Device& device);

  /// Whether a product of one token quantizes its vector itself.
  bool quantize_inside(const Projection& projection) const;
  /// Whether gate, up and SwiGLU of one token are one kernel.
  bool activate_inside(const DeviceLayer& layer, const ModelConfig& config) const;
  /// Whether those of many tokens are.
  bool activate_after_product(const DeviceLayer& layer, const ModelConfig& config) const;
  /// Whether attention of rows of one token each is one kernel, if the cache's blocks allow it.
  bool attend_at_once(const DeviceLayer& layer, const ModelConfig& config) const;
  /// The kernel for it.
  static Kernel attention_kernel(const ModelConfig& config);
};

/// The kernel that looks tokens up in an embedding of a kind.
Kernel embed_kernel(WeightKind kind);

/// Every kernel that steps of a model may ask of a device, whatever their shape: what is to be compiled
/// before the first of them.
std::vector<Kernel> step_kernels(const Device& device, const ModelConfig& config,
                                 const DeviceWeights& weights);

}  // namespace inferno::gpu
