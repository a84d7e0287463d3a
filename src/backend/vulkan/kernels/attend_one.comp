#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef INFERNO_INTEGER_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
// prepare_heads, attend and merge at once, for rows of one new token. Every split norms, rotates and quantizes its
// queries again; the last split does so with key and value, stores them, and has them at hand. Whichever workgroup
// of a token and KV head is done last merges, in the order of the splits: what it waits for depends on chance, what
// it computes does not.

#include "backend/gpu/kernel_constants.hpp"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  AttendOneConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer Qkv {
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
layout(std430, set = 0, binding = 4) readonly buffer Slots {
  uvec2 slots[];  // [T]: block, offset in it
};
layout(std430, set = 0, binding = 5) buffer Cache {
  uvec4 cache[];  // [blocks][K] heads (cache.glsl)
};
layout(std430, set = 0, binding = 6) readonly buffer Tables {
  uint tables[];
};
layout(std430, set = 0, binding = 7) readonly buffer Tiles {
  uvec4 tiles[];  // token, 1, its position, offset of the row's table
};
layout(std430, set = 0, binding = 8) coherent buffer Statistics {
  vec2 statistics[];  // [T][H][max_splits]: maximum, denominator
};
layout(std430, set = 0, binding = 9) coherent buffer Outputs {
  vec4 outputs[];  // [T][H][max_splits][E32 / 4]
};
layout(std430, set = 0, binding = 10) coherent buffer Done {
  uint done[];  // [T][K] splits that are done; 0 between dispatches
};
layout(std430, set = 0, binding = 11) writeonly buffer Quants {
  uint quants[];  // [T][out_stride / 4]
};
layout(std430, set = 0, binding = 12) writeonly buffer Scales {
  float mixed_scales[];  // [T][out_stride / 32]
};

#define HOLDS_NEW_POSITION
#include "attend_split.glsl"
#define QUANTIZE_THREADS 256
#define QUANTIZE_SCRATCH scratch
#include "quantize_block.glsl"
#include "merge_splits.glsl"

const uint kLongestHead = 256U;
const uint kHeadThreads = 32U;

// Heads on their way from qkv to quants, one for each 32 invocations: weights[head * kLongestHead + i].
void norm_and_rotate(bool exists, bool is_key, bool as_it_is, uint from, uint position) {
  uint own = gl_LocalInvocationID.x;
  uint lane = own % kHeadThreads;
  uint at = own / kHeadThreads * kLongestHead;
  float sum = 0.0;
  for (uint i = lane; exists && i < c.padded_dim; i += kHeadThreads) {
    float value = i < c.head_dim ? qkv[from + i] : 0.0;
    weights[at + i] = value;
    sum = add(sum, multiply(value, value));
  }
  scratch[own] = float_bits(sum);
  for (uint width = kHeadThreads / 2U; width > 0U; width /= 2U) {
    barrier();
    if (lane < width)
      scratch[own] = float_bits(add(float_from_bits(scratch[own]), float_from_bits(scratch[own + width])));
  }
  barrier();
  float factor = reciprocal_sqrt(
      add(multiply(float_from_bits(scratch[own - lane]), c.inverse_length), c.epsilon));
  if (exists && !as_it_is) {
    for (uint i = lane; i < c.head_dim; i += kHeadThreads)
      weights[at + i] = multiply(multiply(weights[at + i], factor), is_key ? key_norm[i] : query_norm[i]);
  }
  barrier();
  if (exists && !as_it_is) {
    uint turns = c.head_dim / 2U;
    uint angles = position * c.head_dim;
    for (uint i = lane; i < turns; i += kHeadThreads) {
      float cosine = rope[angles + i];
      float sine = rope[angles + turns + i];
      float a = weights[at + i];
      float b = weights[at + i + turns];
      weights[at + i] = subtract(multiply(a, cosine), multiply(b, sine));
      weights[at + i + turns] = add(multiply(b, cosine), multiply(a, sine));
    }
  }
  barrier();
}

// Four elements from `i` on of this invocation's head, quantized. The workgroup comes here together.
QuantizedFour quantize_head(bool exists, uint i) {
  uint at = gl_LocalInvocationID.x / kHeadThreads * kLongestHead + i;
  return quantize_four(exists ? vec4(weights[at], weights[at + 1U], weights[at + 2U], weights[at + 3U]) : vec4(0.0));
}

void prepare_queries(uvec4 tile, uint first, uint heads) {
  uint own = gl_LocalInvocationID.x;
  uint head = own / kHeadThreads;
  bool exists = head < heads;
  norm_and_rotate(exists, false, false, tile.x * c.stride + (kv_head * group + first + head) * c.head_dim, tile.z);
  for (uint begin = 0U; begin < c.padded_dim; begin += 4U * kHeadThreads) {
    uint i = begin + 4U * (own % kHeadThreads);
    bool has_four = exists && i < c.padded_dim;
    QuantizedFour four = quantize_head(has_four, i);
    if (!has_four) continue;
    query[(head * words + i / 4U) / 4U][i / 4U % 4U] = four.word;
    if (i % 32U == 0U) query_scale[head * blocks + i / 32U] = multiply(four.scale, c.softmax_scale);
  }
  barrier();
}

void prepare_key_and_value(uvec4 tile) {
  uint own = gl_LocalInvocationID.x;
  uint head = own / kHeadThreads;
  bool exists = head < 2U;
  bool is_value = head == 1U;
  uint from = tile.x * c.stride + (is_value ? c.value_offset : c.key_offset) + kv_head * c.head_dim;
  norm_and_rotate(exists, true, is_value, from, tile.z);
  uvec2 slot = slots[tile.x];
  CacheHead target = cache_head(slot.x * c.kv_heads + kv_head, c.block_size, c.padded_dim);
  uint words_at = (is_value ? target.values : target.keys) + slot.y * words;
  uint scales_at = (is_value ? target.value_scales : target.key_scales) + slot.y * blocks;
  for (uint begin = 0U; begin < c.padded_dim; begin += 4U * kHeadThreads) {
    uint i = begin + 4U * (own % kHeadThreads);
    bool has_four = exists && i < c.padded_dim;
    QuantizedFour four = quantize_head(has_four, i);
    if (!has_four) continue;
    if (is_value) {
      new_value[i / 16U][i / 4U % 4U] = four.word;
      if (i % 32U == 0U) new_value_scales[i / 32U] = four.scale;
    } else {
      new_key[i / 16U][i / 4U % 4U] = four.word;
      if (i % 32U == 0U) new_key_scales[i / 32U] = four.scale;
    }
    if (slot.x == kNoBlock) continue;
    uint word_to = words_at + i / 4U;
    cache[word_to / 4U][word_to % 4U] = four.word;
    uint scale_to = scales_at + i / 32U;
    if (i % 32U == 0U) cache[scale_to / 4U][scale_to % 4U] = float_bits(four.scale);
  }
  barrier();
}

// Whether this is the last workgroup of its token and KV head.
bool is_last(uint place, uint splits) {
  memoryBarrierBuffer();
  barrier();
  if (gl_LocalInvocationID.x == 0U) scratch[0] = atomicAdd(done[place], 1U);
  barrier();
  bool last = scratch[0] == splits - 1U;
  barrier();
  if (!last) return false;
  memoryBarrierBuffer();
  if (gl_LocalInvocationID.x == 0U) done[place] = 0U;
  return true;
}

void main() {
  uint own = gl_LocalInvocationID.x;
  uvec4 tile = tiles[gl_WorkGroupID.z];
  if (gl_WorkGroupID.x * kPositions > tile.z) return;
  begin_split(tile);
  uint splits = tile.z / kPositions + 1U;
  if (split == splits - 1U) prepare_key_and_value(tile);
  uint together = heads_together();
  for (uint first = 0U; first < group; first += together) {
    uint heads = min(together, group - first);
    prepare_queries(tile, first, heads);
    attend_heads(tile, first, heads);
  }
  if (!is_last(tile.x * c.kv_heads + kv_head, splits)) return;

  uint fours = c.head_dim / 4U;
  for (uint begin = 0U; begin < group * fours; begin += kPositions) {
    uint item = begin + own;
    bool exists = item < group * fours;
    uint head = kv_head * group + item / fours;
    uint d = item % fours * 4U;
    QuantizedFour four = quantize_four(
        exists ? merged_four((tile.x * c.heads + head) * c.max_splits, splits, d) : vec4(0.0));
    if (!exists) continue;
    uint at = tile.x * c.out_stride + head * c.head_dim + d;
    quants[at / 4U] = four.word;
    if (d % 32U == 0U) mixed_scales[at / 32U] = four.scale;
  }
}
