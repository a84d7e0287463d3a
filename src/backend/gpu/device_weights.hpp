#pragma once

#include <memory>
#include <vector>

#include "backend/gpu/weight_upload.hpp"
#include "model/loaded_model.hpp"

namespace inferno::gpu {

struct DeviceLayer {
  Slice attention_norm;  // [D256]
  Slice query_norm;      // [E]
  Slice key_norm;        // [E]
  Slice ffn_norm;        // [D256]
  Projection qkv;        // query, key, value
  Projection attention_output;
  Projection gate_up;  // gate, up
  Projection down;
};

/// A model's weights on a device, uploaded once. What was uploaded from is given back to the system.
class DeviceWeights {
 public:
  /// Shows progress on a terminal. Throws Error: too little memory, a scale that is not finite, a matrix of
  /// which not even a few rows can be bound.
  DeviceWeights(const LoadedModel& model, Device& device);

  const std::vector<DeviceLayer>& layers() const { return layers_; }
  const Slice& final_norm() const { return final_norm_; }
  const Projection& lm_head() const { return lm_head_; }
  /// The embedding's table; the LM head's own pieces where they are one tensor.
  const std::vector<WeightPiece>& embedding() const { return embedding_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<DeviceLayer> layers_;
  Slice final_norm_;
  Projection lm_head_;
  std::vector<WeightPiece> embedding_;
  std::uint64_t bytes_ = 0;
};

/// Bytes that the weights of a model take on a device.
std::uint64_t weight_bytes(const LoadedModel& model);

}  // namespace inferno::gpu
