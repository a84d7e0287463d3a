#version 450
// What rows with sampling slots do to their logits before they choose: bias, penalties, mask, in the sampler's order
// (sampling/sampler.hpp). An invocation for each id. A NaN stays one: it is an error whatever else is said of its id.

#include "arith/portable.hpp"
#include "backend/gpu/kernel_constants.hpp"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  SampleConstants c;
};
layout(std430, set = 0, binding = 0) buffer Logits {
  float logits[];  // [rows][stride]
};
layout(std430, set = 0, binding = 1) readonly buffer States {
  uint states[];  // [rows][kSampleWords]
};
layout(std430, set = 0, binding = 2) readonly buffer Biases {
  uvec2 biases[];  // [slots][most_biases]: id, bits of what is added
};
layout(std430, set = 0, binding = 3) readonly buffer Counts {
  uint counts[];  // [slots][V]: times generated; the highest bit: stands in the prompt
};
layout(std430, set = 0, binding = 4) readonly buffer Masks {
  uint masks[];  // [slots][mask_words]
};

const uint kMinusInfinity = 0xFF800000U;
const uint kInfinity = 0x7F800000U;
const float kBan = -100.0;

float penalized(float logit, uint state, uint seen) {
  float penalty = float_from_bits(states[state + kSampleRepetition]);
  if (seen != 0U && penalty != 1.0) {
    float inverse = float_from_bits(states[state + kSampleInverseRepetition]);
    logit = multiply(logit, logit > 0.0 ? inverse : penalty);
  }
  uint generated = seen & 0x7FFFFFFFU;
  if (generated == 0U) return logit;
  logit = subtract(logit, float_from_bits(states[state + kSamplePresence]));
  float frequency = float_from_bits(states[state + kSampleFrequency]);
  return subtract(logit, multiply(frequency, to_float(as_int(generated))));
}

void main() {
  uint id = gl_GlobalInvocationID.x;
  uint row = gl_WorkGroupID.y;
  uint state = row * kSampleWords;
  uint flags = states[state + kSampleFlags];
  if (id >= c.columns || (flags & kSampleHere) == 0U) return;
  uint slot = states[state + kSampleSlot];
  float logit = logits[row * c.stride + id];
  if ((float_bits(logit) & 0x7FFFFFFFU) > kInfinity) return;
  for (uint i = 0U; i < states[state + kSampleBiases]; ++i) {
    uvec2 entry = biases[slot * c.most_biases + i];
    if (entry.x != id) continue;
    float bias = float_from_bits(entry.y);
    logit = bias <= kBan ? float_from_bits(kMinusInfinity) : add(logit, bias);
  }
  if ((flags & kSamplePenalizes) != 0U) logit = penalized(logit, state, counts[slot * c.columns + id]);
  if ((flags & kSampleMasks) != 0U && (masks[slot * c.mask_words + id / 32U] >> (id % 32U) & 1U) == 0U)
    logit = float_from_bits(kMinusInfinity);
  logits[row * c.stride + id] = logit;
}
