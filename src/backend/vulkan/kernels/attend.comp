#version 450
#ifdef INFERNO_INTEGER_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
// Stage attention, part one: a split of 256 positions for the query heads of one KV head and a tile of tokens. An
// invocation has a position while scores and weights are made, and four dimensions of the values after that. Up to
// eight query heads go through together, so that keys and values are loaded once for them.

#include "backend/gpu/kernel_constants.hpp"
#include "blocks.glsl"
#include "cache.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  AttendConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer QueryQuants {
  uvec4 query_quants[];  // [T][H][E32 / 16]
};
layout(std430, set = 0, binding = 1) readonly buffer QueryScales {
  float query_scales[];  // [T][H][E32 / 32]
};
layout(std430, set = 0, binding = 2) readonly buffer Cache {
  uvec4 cache[];  // [blocks][K] heads (cache.glsl)
};
layout(std430, set = 0, binding = 3) readonly buffer Tables {
  uint tables[];
};
layout(std430, set = 0, binding = 4) readonly buffer Tiles {
  uvec4 tiles[];  // first token, tokens, position of the first, offset of the row's table
};
layout(std430, set = 0, binding = 5) writeonly buffer Statistics {
  vec2 statistics[];  // [T'][H][max_splits]: maximum, denominator
};
layout(std430, set = 0, binding = 6) writeonly buffer Outputs {
  float outputs[];  // [T'][H][max_splits][E32]
};

const uint kPositions = 256U;
const uint kTogether = 8U;       // query heads, at most
const uint kStrides = 32U;       // partial sums of a denominator
const uint kMinusInfinity = 0xFF800000U;

shared uvec4 query[64];                        // [heads][E32 / 16]
shared float query_scale[32];                  // [heads][E32 / 32]
shared float weights[kTogether * kPositions];  // [heads][positions]: scores, then exp(score - maximum)
// [E32 / 32][positions] scales of the values; then [heads][pairs of blocks][positions] weights of 15 bits.
shared uint integers[4096];
shared int sums[1024];                 // [heads][E32]
shared uint scratch[kPositions];       // of reductions
shared uint value_at[kPositions];      // the position's values, in words
shared float maxima[kTogether];
shared float scales[32];    // [heads][E32 / 32] of the weights of 15 bits
shared float inverses[32];

uint word_at(uint index) {
  return cache[index / 4U][index % 4U];
}

// Four words from `index` on, which is a multiple of 4 unless the cache's blocks are of odd sizes.
uvec4 words_at(uint index) {
  if (index % 4U == 0U) return cache[index / 4U];
  return uvec4(word_at(index), word_at(index + 1U), word_at(index + 2U), word_at(index + 3U));
}

void main() {
  uint own = gl_LocalInvocationID.x;
  uint split = gl_WorkGroupID.x;
  uint kv_head = gl_WorkGroupID.y;
  uvec4 tile = tiles[c.first_tile + gl_WorkGroupID.z];
  uint first_position = split * kPositions;
  uint last_position = tile.z + tile.y - 1U;
  if (first_position > last_position) return;
  uint positions = min(kPositions, last_position + 1U - first_position);

  uint group = c.heads / c.kv_heads;
  uint blocks = c.padded_dim / 32U;
  uint pairs = (blocks + 1U) / 2U;
  uint together = min(kTogether, 16U / pairs);
  uint words = c.padded_dim / 4U;

  CacheHead cached;
  uint offset = 0U;  // in the cache block
  bool has_position = own < positions;
  if (has_position) {
    uint position = first_position + own;
    uint block = tables[tile.w + position / c.block_size];
    offset = position % c.block_size;
    cached = cache_head(block * c.kv_heads + kv_head, c.block_size, c.padded_dim);
    value_at[own] = cached.values + offset * words;
  }

  for (uint first = 0U; first < tile.y * group; first += together) {
    uint heads = min(together, tile.y * group - first);
    // Query head h of these is head (first + h) % group of token (first + h) / group.
    for (uint i = own; i < heads * words / 4U; i += kPositions) {
      uint h = i / (words / 4U);
      uint from = (tile.x + (first + h) / group) * c.heads + kv_head * group + (first + h) % group;
      query[i] = query_quants[from * (words / 4U) + i % (words / 4U)];
    }
    if (own < heads * blocks) {
      uint h = own / blocks;
      uint from = (tile.x + (first + h) / group) * c.heads + kv_head * group + (first + h) % group;
      query_scale[own] = query_scales[from * blocks + own % blocks];
    }
    for (uint i = own; i < heads * c.padded_dim; i += kPositions) sums[i] = 0;
    barrier();

    // Scores of this position.
    float scores[kTogether];
    bool sees[kTogether];  // whether the query's token is not before the position
    for (uint h = 0U; h < kTogether; ++h) {
      scores[h] = 0.0;
      sees[h] = has_position && first_position + own <= tile.z + (first + h) / group;
    }
    if (has_position) {
      for (uint b = 0U; b < blocks; ++b) {
        uint at = cached.keys + offset * words + 8U * b;
        uvec4 low = words_at(at);
        uvec4 high = words_at(at + 4U);
        float scale = float_from_bits(word_at(cached.key_scales + offset * blocks + b));
        for (uint h = 0U; h < kTogether; ++h) {
          if (h < heads) {
            int dot = dot16(low, query[h * (words / 4U) + 2U * b]) + dot16(high, query[h * (words / 4U) + 2U * b + 1U]);
            scores[h] =
                add(scores[h], multiply(multiply(to_float(dot), scale), query_scale[h * blocks + b]));
          }
        }
        integers[b * kPositions + own] = word_at(cached.value_scales + offset * blocks + b);
      }
    }
    for (uint h = 0U; h < kTogether; ++h) {
      if (h < heads) weights[h * kPositions + own] = sees[h] ? scores[h] : float_from_bits(kMinusInfinity);
    }
    barrier();

    // The largest of each head: 32 invocations look at 8 scores each, then one at their findings.
    uint own_head = own / kStrides;
    if (own_head < heads) {
      float largest = float_from_bits(kMinusInfinity);
      for (uint i = own % kStrides; i < kPositions; i += kStrides) {
        float score = weights[own_head * kPositions + i];
        largest = score > largest ? score : largest;
      }
      scratch[own] = float_bits(largest);
    }
    barrier();
    if (own < heads) {
      float largest = float_from_bits(scratch[own * kStrides]);
      for (uint i = 1U; i < kStrides; ++i) {
        float score = float_from_bits(scratch[own * kStrides + i]);
        largest = score > largest ? score : largest;
      }
      maxima[own] = largest;
    }
    barrier();
    for (uint h = 0U; h < kTogether; ++h) {
      // Weights of positions that are not seen are zero, which changes no sum.
      if (h < heads)
        weights[h * kPositions + own] =
            sees[h] ? exponential(subtract(weights[h * kPositions + own], maxima[h])) : 0.0;
    }
    barrier();

    // Denominators: 32 partial sums of a head, then a tree.
    if (own_head < heads) {
      float sum = 0.0;
      for (uint i = own % kStrides; i < kPositions; i += kStrides)
        sum = add(sum, weights[own_head * kPositions + i]);
      scratch[own] = float_bits(sum);
    }
    for (uint width = kStrides / 2U; width > 0U; width /= 2U) {
      barrier();
      if (own_head < heads && own % kStrides < width)
        scratch[own] = float_bits(add(float_from_bits(scratch[own]), float_from_bits(scratch[own + width])));
    }
    barrier();
    if (own < heads) {
      uint token = (first + own) / group;
      if (first_position <= tile.z + token) {
        uint from = (tile.x + token - c.first_token) * c.heads + kv_head * group + (first + own) % group;
        statistics[from * c.max_splits + split] = vec2(maxima[own], float_from_bits(scratch[own * kStrides]));
      }
    }
    barrier();

    // The largest weight times scale of each head and block: 8 invocations, then one.
    uint own_pair = own / 8U;
    if (own_pair < heads * blocks) {
      uint h = own_pair / blocks;
      uint largest = 0U;
      // Up to the last position that the token sees: what is behind it may be anything.
      uint end = min(positions, max(tile.z + (first + h) / group + 1U, first_position) - first_position);
      for (uint i = own % 8U; i < end; i += 8U) {
        float scale = float_from_bits(integers[own_pair % blocks * kPositions + i]);
        largest = max(largest, magnitude_bits(multiply(weights[h * kPositions + i], scale)));
      }
      scratch[own] = largest;
    }
    barrier();
    if (own < heads * blocks) {
      uint largest = 0U;
      for (uint i = 0U; i < 8U; ++i) largest = max(largest, scratch[8U * own + i]);
      scales[own] = block_scale(largest, kWeightStep);
      inverses[own] = block_inverse(largest, kWeightLevels);
    }
    barrier();
    if (has_position) {
      for (uint pair = 0U; pair < pairs; ++pair) {
        uint b = 2U * pair;
        bool has_second = b + 1U < blocks;
        float first_scale = float_from_bits(word_at(cached.value_scales + offset * blocks + b));
        float second_scale =
            has_second ? float_from_bits(word_at(cached.value_scales + offset * blocks + b + 1U)) : 0.0;
        for (uint h = 0U; h < kTogether; ++h) {
          if (h < heads) {
            float weight = weights[h * kPositions + own];
            int low = 0;
            int high = 0;
            if (sees[h]) low = quantize(multiply(weight, first_scale), inverses[h * blocks + b]);
            if (sees[h] && has_second)
              high = quantize(multiply(weight, second_scale), inverses[h * blocks + b + 1U]);
            integers[(h * pairs + pair) * kPositions + own] = uint(low) & 0xFFFFU | uint(high) << 16;
          }
        }
      }
    }
    barrier();

    // Sums over positions, exact and therefore in any order.
    uint word = own % words;
    uint shift = word / 8U % 2U * 16U;
    uint sharing = kPositions / words;
    if (own / words < sharing) {
      ivec4 own_sums[kTogether];
      for (uint h = 0U; h < kTogether; ++h) own_sums[h] = ivec4(0);
      for (uint i = own / words; i < positions; i += sharing) {
        uint four = word_at(value_at[i] + word);
        ivec4 values = ivec4(byte_of(four, 0U), byte_of(four, 1U), byte_of(four, 2U), byte_of(four, 3U));
        for (uint h = 0U; h < kTogether; ++h) {
          if (h < heads) {
            int weight = int(integers[(h * pairs + word / 16U) * kPositions + i] >> shift & 0x7FFFU);
            own_sums[h] += weight * values;
          }
        }
      }
      for (uint h = 0U; h < kTogether; ++h) {
        if (h < heads) {
          for (uint k = 0U; k < 4U; ++k)
            atomicAdd(sums[h * c.padded_dim + 4U * word + k], own_sums[h][k]);
        }
      }
    }
    barrier();
    for (uint i = own; i < heads * c.padded_dim; i += kPositions) {
      uint h = i / c.padded_dim;
      uint d = i % c.padded_dim;
      uint token = (first + h) / group;
      if (first_position <= tile.z + token) {
        uint from = (tile.x + token - c.first_token) * c.heads + kv_head * group + (first + h) % group;
        outputs[(from * c.max_splits + split) * c.padded_dim + d] =
            multiply(to_float(sums[i]), scales[h * blocks + d / 32U]);
      }
    }
    barrier();
  }
}
