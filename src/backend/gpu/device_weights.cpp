#include "backend/gpu/device_weights.hpp"

namespace inferno::gpu {
namespace {

bool is_same_tensor(const Matrix& a, const Matrix& b) {
  return a.bytes == b.bytes;
}

}  // namespace

std::uint64_t weight_bytes(const LoadedModel& model) {
  const ModelWeights& weights = model.weights;
  std::uint64_t total = packed_bytes(weights.lm_head) + norm_bytes(weights.final_norm);
  if (!is_same_tensor(weights.lm_head, weights.embedding)) total += packed_bytes(weights.embedding);
  for (const LayerWeights& layer : weights.layers) {
    for (const Matrix* matrix : {&layer.query, &layer.key, &layer.value, &layer.attention_output, &layer.gate,
                                 &layer.up, &layer.down}) {
      total += packed_bytes(*matrix);
    }
    for (const auto* norm : {&layer.attention_norm, &layer.query_norm, &layer.key_norm, &layer.ffn_norm}) {
      total += norm_bytes(*norm);
    }
  }
  return total;
}

DeviceWeights::DeviceWeights(const LoadedModel& model, Device& device) : bytes_(weight_bytes(model)) {
  WeightUpload upload(device, model.file, model.config.name, bytes_);
  for (const LayerWeights& layer : model.weights.layers) {
    DeviceLayer on_device;
    on_device.attention_norm = upload.norm(layer.attention_norm);
    on_device.query_norm = upload.norm(layer.query_norm);
    on_device.key_norm = upload.norm(layer.key_norm);
    on_device.ffn_norm = upload.norm(layer.ffn_norm);
    on_device.qkv = upload.project({&layer.query, &layer.key, &layer.value});
    on_device.attention_output = upload.project({&layer.attention_output});
    on_device.gate_up = upload.project({&layer.gate, &layer.up});
    on_device.down = upload.project({&layer.down});
    layers_.push_back(std::move(on_device));
  }
  final_norm_ = upload.norm(model.weights.final_norm);
  lm_head_ = upload.project({&model.weights.lm_head});
  if (is_same_tensor(model.weights.lm_head, model.weights.embedding)) {
    embedding_ = lm_head_.pieces;
  } else {
    embedding_ = upload.project({&model.weights.embedding}).pieces;
  }
  buffers_ = upload.take_buffers();
}

}  // namespace inferno::gpu
