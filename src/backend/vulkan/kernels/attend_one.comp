#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef INFERNO_INTEGER_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
// prepare_heads, attend and merge at once, for rows of one new token. Every split norms, rotates and quantizes its
// queries again; the last split does so with key and value, stores them, and has them at hand. Where there are several
// splits, whichever workgroup of a token and KV head is done last merges, in the order of the splits: what it waits for
// depends on chance, what it computes does not.
//
// Compiled twice: for heads of any size, and for what most models have, heads of HEAD elements of which at most
// kFused128Group share a KV head, in cache blocks of whole fours of positions.

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
layout(std430, set = 0, binding = 11) writeonly buffer Mixed {
  vec4 mixed[];  // [T][out_stride / 4]
};
layout(std430, set = 0, binding = 12) writeonly buffer Quants {
  uint quants[];  // [T][out_stride / 4]
};
layout(std430, set = 0, binding = 13) writeonly buffer Scales {
  float mixed_scales[];  // [T][out_stride / 32]
};

#define HOLDS_NEW_POSITION
#define TOKEN_OF(head) 0U
#include "attend_split.glsl"

const uint kLongestHead = 128U;
const uint kHeadThreads = 32U;
const uint kMergedAtOnce = 32U;

// What an invocation has of a head on its way from qkv to quants: elements lane, lane + 32, ... and of what they are
// multiplied with those of the pairs lane, lane + 32, ...
float raw[4];
float first_weights[2];
float second_weights[2];
float cosines[2];
float sines[2];
uvec2 cache_slot;

// A head for each 32 invocations: `heads` queries from number `first` of the group on, then, `with_new`, key and value.
bool is_query(uint heads) {
  return gl_LocalInvocationID.x / kHeadThreads < heads;
}
bool is_key(uint heads, bool with_new) {
  return with_new && gl_LocalInvocationID.x / kHeadThreads == heads;
}
bool is_value(uint heads, bool with_new) {
  return with_new && gl_LocalInvocationID.x / kHeadThreads == heads + 1U;
}

// Everything that is read for heads is on its way at once.
void load_heads(uvec4 tile, uint first, uint heads, bool with_new) {
  uint own = gl_LocalInvocationID.x;
  uint lane = own % kHeadThreads;
  bool query_here = is_query(heads);
  bool key_here = is_key(heads, with_new);
  bool value_here = is_value(heads, with_new);
  uint from = query_here ? (kv_head * group + first + own / kHeadThreads) * HEAD_DIM
                         : (key_here ? c.key_offset : c.value_offset) + kv_head * HEAD_DIM;
  from += gl_WorkGroupID.z * c.stride;
  [[unroll]] for (uint k = 0U; k < 4U; ++k) {
    bool exists = (query_here || key_here || value_here) && lane + k * kHeadThreads < HEAD_DIM;
    raw[k] = exists ? qkv[from + lane + k * kHeadThreads] : 0.0;
  }
  uint turns = HEAD_DIM / 2U;
  uint angles = tile.z * HEAD_DIM;
  [[unroll]] for (uint k = 0U; k < 2U; ++k) {
    uint i = lane + k * kHeadThreads;
    if ((query_here || key_here) && i < turns) {
      cosines[k] = rope[angles + i];
      sines[k] = rope[angles + turns + i];
      first_weights[k] = query_here ? query_norm[i] : key_norm[i];
      second_weights[k] = query_here ? query_norm[i + turns] : key_norm[i + turns];
    }
  }
  if (with_new) cache_slot = slots[gl_WorkGroupID.z];
}

// Norms and rotates elements `at` and turns further of `weights`.
void rotate_pair(uint at, uint turns, float factor, uint k) {
  float a = multiply(multiply(weights[at], factor), first_weights[k]);
  float b = multiply(multiply(weights[at + turns], factor), second_weights[k]);
  weights[at] = subtract(multiply(a, cosines[k]), multiply(b, sines[k]));
  weights[at + turns] = add(multiply(b, cosines[k]), multiply(a, sines[k]));
}

// Puts down what load_heads() brought: weights[head * kLongestHead + i], and the sums of its squares.
void put_heads() {
  uint own = gl_LocalInvocationID.x;
  uint at = own / kHeadThreads * kLongestHead + own % kHeadThreads;
  [[unroll]] for (uint k = 0U; k < 4U; ++k) {
    if (k < blocks && own / kHeadThreads < kTogether + 2U) weights[at + k * kHeadThreads] = raw[k];
  }
  float sum = multiply(raw[0], raw[0]);
  sum = add(0.0, sum);
  sum = add(sum, multiply(raw[1], raw[1]));
  sum = add(sum, multiply(raw[2], raw[2]));
  sum = add(sum, multiply(raw[3], raw[3]));
  scratch[own / 4U][own % 4U] = float_bits(sum);
}

void put_magnitude(vec4 four) {
  uint own = gl_LocalInvocationID.x;
  scratch[own / 4U][own % 4U] = max(max(magnitude_bits(four.x), magnitude_bits(four.y)),
                                    max(magnitude_bits(four.z), magnitude_bits(four.w)));
}

// The largest magnitude of the block that the invocation's vec4 belongs to: of eight neighbours.
uint block_magnitude() {
  uint at = gl_LocalInvocationID.x / 8U * 2U;
  uvec4 both = max(scratch[at], scratch[at + 1U]);
  return max(max(both.x, both.y), max(both.z, both.w));
}

uint quantize_word(vec4 four, float inverse) {
  uint word = uint(quantize(four.x, inverse)) & 0xFFU;
  word |= (uint(quantize(four.y, inverse)) & 0xFFU) << 8;
  word |= (uint(quantize(four.z, inverse)) & 0xFFU) << 16;
  return word | uint(quantize(four.w, inverse)) << 24;
}

// A head's four elements from `i` on, quantized, go where they are needed.
void put_quantized(uint heads, bool with_new, uint i, uint word, float scale) {
  uint head = gl_LocalInvocationID.x / kHeadThreads;
  bool begins = i % 32U == 0U;
  if (is_query(heads)) {
    query[(head * words + i / 4U) / 4U][i / 4U % 4U] = word;
    if (begins) query_scale[head * blocks + i / 32U] = multiply(scale, c.softmax_scale);
    return;
  }
  bool value_here = is_value(heads, with_new);
  if (value_here) {
    new_value[i / 16U][i / 4U % 4U] = word;
    if (begins) new_value_scales[i / 32U] = scale;
  } else {
    new_key[i / 16U][i / 4U % 4U] = word;
    if (begins) new_key_scales[i / 32U] = scale;
  }
  if (cache_slot.x == kNoBlock) return;
  CacheHead target = cache_head(cache_slot.x * c.kv_heads + kv_head, c.block_size, PADDED_DIM);
  uint word_to = (value_here ? target.values : target.keys) + cache_slot.y * words + i / 4U;
  cache[word_to / 4U][word_to % 4U] = word;
  if (!begins) return;
  uint scale_to = (value_here ? target.value_scales : target.key_scales) + cache_slot.y * blocks + i / 32U;
  cache[scale_to / 4U][scale_to % 4U] = float_bits(scale);
}

// From what put_heads() put down, behind a barrier, to quants that can be read after it.
void prepare_heads(uint heads, bool with_new) {
  uint own = gl_LocalInvocationID.x;
  uint lane = own % kHeadThreads;
  uint at = own / kHeadThreads * kLongestHead;
  bool rotates = is_query(heads) || is_key(heads, with_new);
  bool exists = rotates || is_value(heads, with_new);
  if (rotates) {
    float factor = reciprocal_sqrt(add(multiply(tree_sum(own - lane), c.inverse_length), c.epsilon));
    uint turns = HEAD_DIM / 2U;
    if (lane < turns) rotate_pair(at + lane, turns, factor, 0U);
    if (lane + kHeadThreads < turns) rotate_pair(at + lane + kHeadThreads, turns, factor, 1U);
  }
  barrier();
  uint i = 4U * lane;
  bool has_four = exists && i < PADDED_DIM;
  vec4 four = vec4(0.0);
  if (has_four) four = vec4(weights[at + i], weights[at + i + 1U], weights[at + i + 2U], weights[at + i + 3U]);
  put_magnitude(four);
  barrier();
  uint magnitude = block_magnitude();
  if (has_four)
    put_quantized(heads, with_new, i, quantize_word(four, block_inverse(magnitude, kInt8Levels)),
                  block_scale(magnitude, kInt8Step));
  barrier();
}

// Four dimensions of a head, finished. The workgroup comes here together.
void put_mixed(bool exists, uint head, uint d, vec4 four) {
  uint at = gl_WorkGroupID.z * c.out_stride + (kv_head * group + head) * HEAD_DIM + d;
  if (exists && (c.write & kWriteFloats) != 0U) mixed[at / 4U] = four;
  if ((c.write & kWriteQuants) == 0U) return;
  barrier();
  put_magnitude(four);
  barrier();
  if (!exists) return;
  uint magnitude = block_magnitude();
  quants[at / 4U] = quantize_word(four, block_inverse(magnitude, kInt8Levels));
  if (d % 32U == 0U) mixed_scales[at / 32U] = block_scale(magnitude, kInt8Step);
}

vec4 add_scaled(vec4 sum, float factor, vec4 four) {
  precise vec4 scaled = vec4(factor) * four;
  precise vec4 result = sum + scaled;
  return result;
}

vec4 scaled_by(vec4 four, float factor) {
  precise vec4 result = four * vec4(factor);
  return result;
}

// The merge of a single split.
void finish_heads(uint first, uint heads) {
  for (uint begin = 0U; begin < heads * words; begin += kPositions) {
    uint item = begin + gl_LocalInvocationID.x;
    bool exists = item < heads * words;
    uint head = exists ? item / words : 0U;
    vec4 four = vec4(0.0);
    if (exists) {
      float maximum = value_of(maxima[head]);
      float factor = exponential(subtract(maximum, maximum));
      float denominator = add(0.0, multiply(factor, denominators[head]));
      four = scaled_by(add_scaled(vec4(0.0), factor, split_output(head, item % words * 4U)), reciprocal(denominator));
    }
    put_mixed(exists, first + head, item % words * 4U, four);
  }
}

// Whether this is the last workgroup of its token and KV head.
bool is_last(uint place, uint splits) {
  memoryBarrierBuffer();
  barrier();
  if (gl_LocalInvocationID.x == 0U) value_at[0] = atomicAdd(done[place], 1U);
  barrier();
  if (value_at[0] != splits - 1U) return false;
  memoryBarrierBuffer();
  if (gl_LocalInvocationID.x == 0U) done[place] = 0U;
  return true;
}

// One element of what splits [begin, begin + kMergedAtOnce) come to: all on their way together. `at`: of the element in
// the first split.
float parts[kMergedAtOnce];

void load_eight(uint first, uint at, uint begin, uint splits) {
  if (begin + first < splits) {
    [[unroll]] for (uint k = 0U; k < 8U; ++k) {
      uint from = at + min(begin + first + k, splits - 1U) * PADDED_DIM;
      parts[first + k] = outputs[from / 4U][from % 4U];
    }
  }
}

void load_parts(uint at, uint begin, uint splits) {
  load_eight(0U, at, begin, splits);
  load_eight(8U, at, begin, splits);
  load_eight(16U, at, begin, splits);
  load_eight(24U, at, begin, splits);
}

// Spelled out, see README.md.
float add_part(float sum, uint k, uint factor_at, uint count) {
  return k < count ? add(sum, multiply(weights[factor_at + k], parts[k])) : sum;
}

float add_eight(float sum, uint k, uint factor_at, uint count) {
  sum = add_part(sum, k, factor_at, count);
  sum = add_part(sum, k + 1U, factor_at, count);
  sum = add_part(sum, k + 2U, factor_at, count);
  sum = add_part(sum, k + 3U, factor_at, count);
  sum = add_part(sum, k + 4U, factor_at, count);
  sum = add_part(sum, k + 5U, factor_at, count);
  sum = add_part(sum, k + 6U, factor_at, count);
  return add_part(sum, k + 7U, factor_at, count);
}

float add_parts(float sum, uint factor_at, uint count) {
  sum = add_eight(sum, 0U, factor_at, count);
  if (count > 8U) sum = add_eight(sum, 8U, factor_at, count);
  if (count > 16U) sum = add_eight(sum, 16U, factor_at, count);
  if (count > 24U) sum = add_eight(sum, 24U, factor_at, count);
  return sum;
}

// Splits of heads [first, first + heads) in ascending order. `row`: of the token's and KV head's first in statistics. An
// invocation has an element of a head: what it needs of all splits is asked for along with their statistics.
void merge_heads(uint row, uint first, uint heads, uint splits) {
  uint own = gl_LocalInvocationID.x;
  uint at_once = kPositions / PADDED_DIM;  // heads
  uint own_head = own / kHeadThreads;
  uint lane = own % kHeadThreads;
  uint statistics_at = (row + first + own_head) * c.max_splits;
  for (uint begin_head = 0U; begin_head < heads; begin_head += at_once) {
    uint head = begin_head + own / PADDED_DIM;
    bool exists = own / PADDED_DIM < at_once && head < heads;
    uint at = (row + first + head) * c.max_splits * PADDED_DIM + own % PADDED_DIM;
    if (exists) load_parts(at, 0U, splits);
    if (begin_head == 0U) {
      if (own < kTogether) maxima[own] = kKeyOfMinusInfinity;
      barrier();
      if (own_head < heads) {
        float maximum = float_from_bits(kMinusInfinity);
        for (uint s = lane; s < splits; s += kHeadThreads) {
          float other = statistics[statistics_at + s].x;
          maximum = other > maximum ? other : maximum;
        }
        atomicMax(maxima[own_head], key_of(maximum));
      }
      barrier();
    }
    float sum = 0.0;
    float denominator = 0.0;
    for (uint begin = 0U; begin < splits; begin += kMergedAtOnce) {
      if (begin != 0U || begin_head != 0U) barrier();
      if (own_head < heads && begin + lane < splits) {
        vec2 of_split = statistics[statistics_at + begin + lane];
        float factor = exponential(subtract(of_split.x, value_of(maxima[own_head])));
        weights[own] = factor;
        weights[kPositions + own] = multiply(factor, of_split.y);
      }
      barrier();
      if (!exists) continue;
      if (begin != 0U) load_parts(at, begin, splits);
      uint end = min(splits - begin, kMergedAtOnce);
      uint factors = head * kHeadThreads;
      sum = add_parts(sum, factors, end);
      for (uint s = 0U; s < end; ++s) denominator = add(denominator, weights[kPositions + factors + s]);
    }
    // Four elements an invocation again.
    scratch[own / 4U][own % 4U] = float_bits(multiply(sum, reciprocal(denominator)));
    barrier();
    exists = own < min(at_once, heads - begin_head) * words;
    vec4 four = exists ? uintBitsToFloat(scratch[own]) : vec4(0.0);
    put_mixed(exists, first + begin_head + own / words, own % words * 4U, four);
  }
}

void main() {
  uvec4 tile = tiles[gl_WorkGroupID.z];
  if (gl_WorkGroupID.x * kPositions > tile.z) return;
  uint splits = tile.z / kPositions + 1U;
  bool with_new = gl_WorkGroupID.x == splits - 1U;
  kv_head = gl_WorkGroupID.y;
  group = c.heads / c.kv_heads;
  uint heads = min(kTogether, group);
#ifdef HEAD
  load_heads(tile, 0U, heads, with_new);
  begin_split(tile);
  put_heads();
  barrier();
  prepare_heads(heads, with_new);
  attend_heads(tile, 0U, heads);
  if (splits == 1U) {
    finish_heads(0U, heads);
    return;
  }
  store_split(tile, 0U, heads);
  if (is_last(tile.x * c.kv_heads + kv_head, splits))
    merge_heads(tile.x * c.heads + kv_head * group, 0U, heads, splits);
#else
  // Key and value go along with the queries if there is room, else before them.
  bool along = heads + 2U <= 256U / kHeadThreads;
  load_heads(tile, 0U, along || !with_new ? heads : 0U, with_new);
  begin_split(tile);
  put_heads();
  barrier();
  prepare_heads(along || !with_new ? heads : 0U, with_new);
  for (uint first = 0U; first < group; first += kTogether) {
    heads = min(kTogether, group - first);
    if (first != 0U || (with_new && !along)) {
      load_heads(tile, first, heads, false);
      put_heads();
      barrier();
      prepare_heads(heads, false);
    }
    attend_heads(tile, first, heads);
    if (splits == 1U) {
      finish_heads(first, heads);
    } else {
      store_split(tile, first, heads);
    }
  }
  if (splits == 1U || !is_last(tile.x * c.kv_heads + kv_head, splits)) return;
  for (uint first = 0U; first < group; first += kTogether) {
    if (first != 0U) barrier();
    merge_heads(tile.x * c.heads + kv_head * group, first, min(kTogether, group - first), splits);
  }
#endif
}
