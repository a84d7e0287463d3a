#version 450
// From the product's query, key and value to quantized queries and a longer cache: RMSNorm of query and key
// heads, rotary embedding, quantization. A workgroup takes one head of one token.

#include "backend/gpu/kernel_constants.hpp"

#include "cache.glsl"

#define QUANTIZE_THREADS 64
#include "quantize_block.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Constants {
  HeadConstants c;
};
layout(std430, set = 0, binding = 0) buffer Qkv {
  float qkv[];  // [T][stride]
};
layout(std430, set = 0, binding = 1) readonly buffer QueryNorm {
  float query_norm[];  // [E]
};
layout(std430, set = 0, binding = 2) readonly buffer KeyNorm {
  float key_norm[];  // [E]
};
layout(std430, set = 0, binding = 3) readonly buffer Rope {
  float rope[];  // [positions][E]: cosines, then sines
};
layout(std430, set = 0, binding = 4) readonly buffer Positions {
  uint positions[];  // [T]
};
layout(std430, set = 0, binding = 5) readonly buffer Slots {
  uvec2 slots[];  // [T]: block, offset in it
};
layout(std430, set = 0, binding = 6) writeonly buffer QueryQuants {
  uint query_quants[];  // [T][H][E32 / 4]
};
layout(std430, set = 0, binding = 7) writeonly buffer QueryScales {
  float query_scales[];  // [T][H][E32 / 32]
};
layout(std430, set = 0, binding = 8) writeonly buffer Cache {
  uint cache[];  // [blocks][K] heads (cache.glsl)
};

const uint kThreads = 64U;
const uint kLongestHead = 512U;
shared float head[kLongestHead];
shared float squares[kStride];

// 1 / rms of head[].
float head_factor() {
  uint own = gl_LocalInvocationID.x;
  if (own < uint(kStride)) {
    float sum = 0.0;
    for (uint i = own; i < c.head_dim; i += uint(kStride)) sum = add(sum, multiply(head[i], head[i]));
    squares[own] = sum;
  }
  barrier();
  for (uint width = uint(kStride) / 2U; width > 0U; width /= 2U) {
    if (own < width) squares[own] = add(squares[own], squares[own + width]);
    barrier();
  }
  return reciprocal_sqrt(add(multiply(squares[0], c.inverse_length), c.epsilon));
}

void main() {
  uint own = gl_LocalInvocationID.x;
  uint token = gl_WorkGroupID.y;
  uint number = gl_WorkGroupID.x;
  bool is_query = number < c.heads;
  bool is_value = number >= c.heads + c.kv_heads;
  uint kv_head = is_query ? 0U : (number - c.heads) % c.kv_heads;
  uint from = token * c.stride + (is_query   ? number * c.head_dim
                                  : is_value ? c.value_offset + kv_head * c.head_dim
                                             : c.key_offset + kv_head * c.head_dim);
  for (uint i = own; i < c.padded_dim; i += kThreads) head[i] = i < c.head_dim ? qkv[from + i] : 0.0;
  barrier();

  if (!is_value && (c.parts & kHeadNorm) != 0U) {
    float factor = head_factor();
    for (uint i = own; i < c.head_dim; i += kThreads) {
      float weight = is_query ? query_norm[i] : key_norm[i];
      head[i] = multiply(multiply(head[i], factor), weight);
    }
    barrier();
  }
  if (!is_value && (c.parts & kHeadRotate) != 0U) {
    uint turns = c.head_dim / 2U;
    uint angles = positions[token] * c.head_dim;
    for (uint i = own; i < turns; i += kThreads) {
      float cosine = rope[angles + i];
      float sine = rope[angles + turns + i];
      float a = head[i];
      float b = head[i + turns];
      head[i] = subtract(multiply(a, cosine), multiply(b, sine));
      head[i + turns] = add(multiply(b, cosine), multiply(a, sine));
    }
    barrier();
  }
  if (!is_value && (c.parts & kHeadFloats) != 0U) {
    for (uint i = own; i < c.head_dim; i += kThreads) qkv[from + i] = head[i];
  }
  if ((c.parts & kHeadStore) == 0U) return;

  uvec2 slot = slots[token];
  if (!is_query && slot.x == kNoBlock) return;
  CacheHead cached = cache_head(slot.x * c.kv_heads + kv_head, c.block_size, c.padded_dim);
  uint words_at = is_query   ? (token * c.heads + number) * (c.padded_dim / 4U)
                  : is_value ? cached.values + slot.y * (c.padded_dim / 4U)
                             : cached.keys + slot.y * (c.padded_dim / 4U);
  uint scales_at = is_query   ? (token * c.heads + number) * (c.padded_dim / 32U)
                   : is_value ? cached.value_scales + slot.y * (c.padded_dim / 32U)
                              : cached.key_scales + slot.y * (c.padded_dim / 32U);
  for (uint first = 0U; first < c.padded_dim; first += 4U * kThreads) {
    uint i = first + 4U * own;
    bool exists = i < c.padded_dim;
    QuantizedFour four =
        quantize_four(exists ? vec4(head[i], head[i + 1U], head[i + 2U], head[i + 3U]) : vec4(0.0));
    if (!exists) continue;
    if (is_query) {
      query_quants[words_at + i / 4U] = four.word;
      if (i % 32U == 0U) query_scales[scales_at + i / 32U] = multiply(four.scale, c.softmax_scale);
    } else {
      cache[words_at + i / 4U] = four.word;
      if (i % 32U == 0U) cache[scales_at + i / 32U] = float_bits(four.scale);
    }
  }
}
