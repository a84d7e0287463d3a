#ifndef INFERNO_ATTEND_SPLIT_GLSL_
#define INFERNO_ATTEND_SPLIT_GLSL_

// A split of 256 positions for the query heads of one KV head. An invocation has a position while scores and weights
// are made, and four dimensions of the values after that. Up to eight query heads go through together, so that keys
// and values are loaded once for them. Needs cache, tables, statistics and outputs, and the constants heads, kv_heads,
// padded_dim, block_size and max_splits; with HOLDS_NEW_POSITION the last position of the last split is not read
// from the cache but from new_key and new_value.

#include "blocks.glsl"
#include "cache.glsl"

const uint kPositions = 256U;
const uint kTogether = 8U;       // query heads, at most
const uint kBlocksAtOnce = 4U;
const uint kValuesAtOnce = 16U;
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

#ifdef HOLDS_NEW_POSITION
const uint kNewPosition = 0xFFFFFFFFU;  // in value_at
// Of the token that attends, in words.
shared uvec4 new_key[16];
shared uvec4 new_value[16];
shared float new_key_scales[8];
shared float new_value_scales[8];
#endif

uint kv_head;
uint split;
uint first_position;  // of the split
uint positions;       // of the split that any token of the tile sees
uint group;
uint blocks;  // of 32 dimensions
uint pairs;   // of blocks
uint words;   // of a key
// This invocation's position, if there is one.
bool has_position;
bool is_new;
CacheHead cached;
uint offset;  // in the cache block

uint word_at(uint index) {
  return cache[index / 4U][index % 4U];
}

// Four words from `word` on of this position's key.
uvec4 key_words(uint word) {
#ifdef HOLDS_NEW_POSITION
  if (is_new) return new_key[word / 4U];
#endif
  uint at = cached.keys + offset * words + word;
  if (at % 4U == 0U) return cache[at / 4U];
  // Cache blocks of odd sizes.
  return uvec4(word_at(at), word_at(at + 1U), word_at(at + 2U), word_at(at + 3U));
}

float key_scale(uint block) {
#ifdef HOLDS_NEW_POSITION
  if (is_new) return new_key_scales[block];
#endif
  return float_from_bits(word_at(cached.key_scales + offset * blocks + block));
}

float value_scale(uint block) {
#ifdef HOLDS_NEW_POSITION
  if (is_new) return new_value_scales[block];
#endif
  return float_from_bits(word_at(cached.value_scales + offset * blocks + block));
}

uint value_word(uint position, uint word) {
#ifdef HOLDS_NEW_POSITION
  if (value_at[position] == kNewPosition) return new_value[word / 4U][word % 4U];
#endif
  return word_at(value_at[position] + word);
}

// Query heads of a tile that go through together.
uint heads_together() {
  return min(kTogether, 16U / pairs);
}

// For the split of this workgroup and a tile: first token, tokens, position of the first, offset of the table.
void begin_split(uvec4 tile) {
  uint own = gl_LocalInvocationID.x;
  split = gl_WorkGroupID.x;
  kv_head = gl_WorkGroupID.y;
  first_position = split * kPositions;
  positions = min(kPositions, tile.z + tile.y - first_position);
  group = c.heads / c.kv_heads;
  blocks = c.padded_dim / 32U;
  pairs = (blocks + 1U) / 2U;
  words = c.padded_dim / 4U;
  has_position = own < positions;
  is_new = false;
  offset = 0U;
  if (!has_position) return;
  uint position = first_position + own;
  uint block = tables[tile.w + position / c.block_size];
  offset = position % c.block_size;
  cached = cache_head(block * c.kv_heads + kv_head, c.block_size, c.padded_dim);
  value_at[own] = cached.values + offset * words;
#ifdef HOLDS_NEW_POSITION
  is_new = position == tile.z;
  if (is_new) value_at[own] = kNewPosition;
#endif
}

// The score with one more block of the key: of the query's block number `block` in `query`.
float add_block(float score, uvec4 low, uvec4 high, float scale, uint block) {
  int dot = dot16(low, query[2U * block]) + dot16(high, query[2U * block + 1U]);
  return add(score, multiply(multiply(to_float(dot), scale), query_scale[block]));
}

// Heads [first, first + heads) of the tile: head h of these is query head (first + h) % group of the group, of token
// (first + h) / group. `query` and `query_scale` hold them.
void attend_heads(uvec4 tile, uint first, uint heads) {
  uint own = gl_LocalInvocationID.x;
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
    // Four blocks at a time: what is loaded for them is on its way together.
    for (uint first_block = 0U; first_block < blocks; first_block += kBlocksAtOnce) {
      uvec4 low[kBlocksAtOnce];
      uvec4 high[kBlocksAtOnce];
      float scale[kBlocksAtOnce];
      [[unroll]] for (uint i = 0U; i < kBlocksAtOnce; ++i) {
        uint b = min(first_block + i, blocks - 1U);
        low[i] = key_words(8U * b);
        high[i] = key_words(8U * b + 4U);
        scale[i] = key_scale(b);
        integers[b * kPositions + own] = float_bits(value_scale(b));
      }
      for (uint h = 0U; h < kTogether; ++h) {
        if (h < heads) {
          uint at = h * blocks + first_block;
          scores[h] = add_block(scores[h], low[0], high[0], scale[0], at);
          if (first_block + 1U < blocks) scores[h] = add_block(scores[h], low[1], high[1], scale[1], at + 1U);
          if (first_block + 2U < blocks) scores[h] = add_block(scores[h], low[2], high[2], scale[2], at + 2U);
          if (first_block + 3U < blocks) scores[h] = add_block(scores[h], low[3], high[3], scale[3], at + 3U);
        }
      }
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
      float first_scale = value_scale(b);
      float second_scale = has_second ? value_scale(b + 1U) : 0.0;
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
    [[unroll]] for (uint h = 0U; h < kTogether; ++h) own_sums[h] = ivec4(0);
    for (uint begin = own / words; begin < positions; begin += kValuesAtOnce * sharing) {
      uint fours[kValuesAtOnce];  // on their way together
      [[unroll]] for (uint k = 0U; k < kValuesAtOnce; ++k)
        fours[k] = value_word(min(begin + k * sharing, positions - 1U), word);
      [[unroll]] for (uint k = 0U; k < kValuesAtOnce; ++k) {
        uint i = begin + k * sharing;
        if (i < positions) {
          ivec4 values = ivec4(byte_of(fours[k], 0U), byte_of(fours[k], 1U), byte_of(fours[k], 2U),
                               byte_of(fours[k], 3U));
          [[unroll]] for (uint h = 0U; h < kTogether; ++h) {
            if (h < heads) {
              int weight = int(integers[(h * pairs + word / 16U) * kPositions + i] >> shift & 0x7FFFU);
              own_sums[h] += weight * values;
            }
          }
        }
      }
    }
    [[unroll]] for (uint h = 0U; h < kTogether; ++h) {
      if (h < heads) {
        [[unroll]] for (uint k = 0U; k < 4U; ++k)
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
      outputs[((from * c.max_splits + split) * c.padded_dim + d) / 4U][d % 4U] =
          multiply(to_float(sums[i]), scales[h * blocks + d / 32U]);
    }
  }
  barrier();
}

#endif
