#ifndef INFERNO_ATTEND_SPLIT_GLSL_
#define INFERNO_ATTEND_SPLIT_GLSL_

// A split of 256 positions for the query heads of one KV head. An invocation has a position while scores and weights
// are made, and four dimensions of the values after that. Up to eight query heads go through together, so that keys
// and values are loaded once for them, all of them at the beginning: what takes longest is on its way while the rest
// is made ready. What only some heads need is left out where it can be: code is fetched anew for each dispatch.
//
// Shared memory says how many workgroups a processor runs at once: kernels that take fewer heads together need less of it.
//
// Needs cache, tables, statistics and outputs, the constants heads, kv_heads, padded_dim, block_size and max_splits,
// and TOKEN_OF(head), the token of the tile that a head belongs to. With HOLDS_NEW_POSITION the last position of the
// last split is not read from the cache but from new_key and new_value; heads have at most 128 elements then, and keys
// begin at multiples of 16 bytes.

#include "blocks.glsl"
#include "cache.glsl"

const uint kPositions = 256U;
// Query heads, at most; at least two.
#ifdef HEAD
const uint kTogether = kFused128Group;
#else
const uint kTogether = 8U;
#endif
const uint kBlocksAhead = 4U;   // of a key, loaded at the beginning
const uint kValuesAhead = 32U;  // words of values, likewise
const uint kStrides = 32U;      // partial sums of a denominator
const uint kMinusInfinity = 0xFF800000U;
const uint kKeyOfMinusInfinity = 0x007FFFFFU;

shared uvec4 query[8U * kTogether];            // [heads][E32 / 16]
shared float query_scale[4U * kTogether];      // [heads][E32 / 32]
shared float weights[kTogether * kPositions];  // [heads][positions]: scores, then exp(score - maximum)
// [E32 / 32][positions] scales of the values; then [heads][pairs of blocks][positions] weights of 15 bits, two in a word.
shared uvec4 integers[128U * kTogether];
shared int sums[128U * kTogether];      // [heads][4][words]: of element 4 * word + k
shared uvec4 scratch[kPositions / 4U];  // of reductions, a word for each invocation
shared uint value_at[kPositions];       // the position's values, in words
shared uint maxima[kTogether];          // as keys that order like the floats
shared float denominators[kTogether];
shared uint largest[4U * kTogether];  // [heads][E32 / 32] of the weights times scales
shared float scales[4U * kTogether];  // of the weights of 15 bits
shared float inverses[4U * kTogether];

#ifdef HOLDS_NEW_POSITION
// Of the token that attends, in words.
shared uvec4 new_key[8];
shared uvec4 new_value[8];
shared float new_key_scales[4];
shared float new_value_scales[4];
shared uint new_weights[2U * kTogether];  // [heads][pairs of blocks], as in integers
#endif

uint kv_head;
uint split;
uint first_position;  // of the split
uint positions;       // of the split that any token of the tile sees
uint stored;          // of them those that are in the cache
uint group;
#ifdef HEAD
const uint blocks = HEAD / 32U;
const uint pairs = (blocks + 1U) / 2U;
const uint words = HEAD / 4U;
#define HEAD_DIM HEAD
#define PADDED_DIM HEAD
#else
uint blocks;  // of 32 dimensions
uint pairs;   // of blocks
uint words;   // of a key
#define HEAD_DIM c.head_dim
#define PADDED_DIM c.padded_dim
#endif
// This invocation's position, if there is one.
bool has_position;
bool is_new;
CacheHead cached;
uint offset;  // in the cache block
uvec4 key_low[kBlocksAhead];
uvec4 key_high[kBlocksAhead];
float key_scales[kBlocksAhead];
float value_scales[kBlocksAhead];
// This invocation's word of fours of positions' values (load_values).
uint values[kValuesAhead];

uint scratch_at(uint i) {
  return scratch[i / 4U][i % 4U];
}

void put_integer(uint i, uint value) {
  integers[i / 4U][i % 4U] = value;
}

uint integer_at(uint i) {
  return integers[i / 4U][i % 4U];
}

// Keys that order like floats do, but for NaN.
uint key_of(float value) {
  uint bits = float_bits(value);
  return bits ^ ((bits & 0x80000000U) != 0U ? 0xFFFFFFFFU : 0x80000000U);
}

float value_of(uint key) {
  return float_from_bits(key ^ ((key & 0x80000000U) != 0U ? 0x80000000U : 0xFFFFFFFFU));
}

vec4 add_vectors(vec4 a, vec4 b) {
  precise vec4 sum = a + b;
  return sum;
}

// The sum of 32 floats of scratch, from number `first` on, as a tree.
float tree_sum(uint first) {
  uint at = first / 4U;
  vec4 a = add_vectors(uintBitsToFloat(scratch[at]), uintBitsToFloat(scratch[at + 4U]));
  vec4 b = add_vectors(uintBitsToFloat(scratch[at + 1U]), uintBitsToFloat(scratch[at + 5U]));
  vec4 d = add_vectors(uintBitsToFloat(scratch[at + 2U]), uintBitsToFloat(scratch[at + 6U]));
  vec4 e = add_vectors(uintBitsToFloat(scratch[at + 3U]), uintBitsToFloat(scratch[at + 7U]));
  vec4 four = add_vectors(add_vectors(a, d), add_vectors(b, e));
  return add(add(four.x, four.z), add(four.y, four.w));
}

uint word_at(uint index) {
  return cache[index / 4U][index % 4U];
}

// Four words from `word` on of this position's key.
uvec4 key_words(uint word) {
  uint at = cached.keys + offset * words + word;
#ifndef HOLDS_NEW_POSITION
  // Cache blocks of odd sizes.
  if (at % 4U != 0U) return uvec4(word_at(at), word_at(at + 1U), word_at(at + 2U), word_at(at + 3U));
#endif
  return cache[at / 4U];
}

float key_scale(uint block) {
  return float_from_bits(word_at(cached.key_scales + offset * blocks + block));
}

float value_scale(uint block) {
  return float_from_bits(word_at(cached.value_scales + offset * blocks + block));
}

#ifdef HOLDS_NEW_POSITION
void take_new_key() {
  [[unroll]] for (uint i = 0U; i < kBlocksAhead; ++i) {
    key_low[i] = new_key[2U * i];
    key_high[i] = new_key[2U * i + 1U];
    key_scales[i] = new_key_scales[i];
    value_scales[i] = new_value_scales[i];
  }
}
#endif

#ifdef HEAD
float[4] cache_scales(uint from) {
  vec4 four = uintBitsToFloat(cache[from / 4U + offset]);
  return float[4](four.x, four.y, four.z, four.w);
}
#endif

void load_key() {
#ifdef HEAD
  key_scales = cache_scales(cached.key_scales);
  value_scales = cache_scales(cached.value_scales);
#endif
  [[unroll]] for (uint i = 0U; i < kBlocksAhead; ++i) {
    if (i < blocks) {
      key_low[i] = key_words(8U * i);
      key_high[i] = key_words(8U * i + 4U);
#ifndef HEAD
      key_scales[i] = key_scale(i);
      value_scales[i] = value_scale(i);
#endif
    }
  }
}

// A four of this invocation's values: of positions from `position` on. (Calls are spelled out where glslc does not
// unroll the loop that they would stand in: values could not stay in registers.)
void load_four(uint i, uint position, uint word) {
  if (position < stored) {
#ifdef HEAD
    // All four are in the same cache block.
    uint at = value_at[position] + word;
    [[unroll]] for (uint k = 0U; k < 4U; ++k) values[i + k] = word_at(at + k * words);
#else
    [[unroll]] for (uint k = 0U; k < 4U; ++k) values[i + k] = word_at(value_at[min(position + k, stored - 1U)] + word);
#endif
  }
}

// The first of the values from position `begin` on that are this invocation's: its word of four positions, and of the
// four that are as many fours further as invocations share the word, and so on. Can be used behind a barrier after
// begin_split().
void load_values(uint begin) {
  uint word = gl_LocalInvocationID.x % words;
  uint share = gl_LocalInvocationID.x / words;
  uint sharing = kPositions / words;
  if (share >= sharing) return;
  begin += 4U * share;
  load_four(0U, begin, word);
  load_four(4U, begin + 4U * sharing, word);
  load_four(8U, begin + 8U * sharing, word);
  load_four(12U, begin + 12U * sharing, word);
  load_four(16U, begin + 16U * sharing, word);
  load_four(20U, begin + 20U * sharing, word);
  load_four(24U, begin + 24U * sharing, word);
  load_four(28U, begin + 28U * sharing, word);
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
  stored = positions;
  group = c.heads / c.kv_heads;
#ifndef HEAD
  blocks = c.padded_dim / 32U;
  pairs = (blocks + 1U) / 2U;
  words = c.padded_dim / 4U;
#endif
  has_position = own < positions;
  is_new = false;
  offset = 0U;
#ifdef HOLDS_NEW_POSITION
  if (first_position + positions > tile.z) {
    --stored;
    is_new = own == stored;
  }
#endif
  if (own >= stored) return;
  uint position = first_position + own;
  uint block = tables[tile.w + position / c.block_size];
  offset = position % c.block_size;
  cached = cache_head(block * c.kv_heads + kv_head, c.block_size, PADDED_DIM);
  value_at[own] = cached.values + offset * words;
  load_key();
}

// The score with one more block of the key: of the query's block number `block` in `query`.
float add_block(float score, uvec4 low, uvec4 high, float scale, uint block) {
  int dot = dot16(low, query[2U * block]) + dot16(high, query[2U * block + 1U]);
  return add(score, multiply(multiply(to_float(dot), scale), query_scale[block]));
}

float score_of(uint head) {
  uint at = head * blocks;
  float score = add_block(0.0, key_low[0], key_high[0], key_scales[0], at);
  if (blocks > 1U) score = add_block(score, key_low[1], key_high[1], key_scales[1], at + 1U);
  if (blocks > 2U) score = add_block(score, key_low[2], key_high[2], key_scales[2], at + 2U);
  if (blocks > 3U) score = add_block(score, key_low[3], key_high[3], key_scales[3], at + 3U);
#ifndef HOLDS_NEW_POSITION
  for (uint b = kBlocksAhead; b < blocks; ++b)
    score = add_block(score, key_words(8U * b), key_words(8U * b + 4U), key_scale(b), at + b);
#endif
  return score;
}

// Two weights of 15 bits in a word: of blocks 2 * pair and 2 * pair + 1.
uint two_weights(uint head, uint pair, float weight, float first_scale, float second_scale) {
  uint b = head * blocks + 2U * pair;
  int low = quantize(multiply(weight, first_scale), inverses[b]);
  int high = 2U * pair + 1U < blocks ? quantize(multiply(weight, second_scale), inverses[b + 1U]) : 0;
  return uint(low) & 0xFFFFU | uint(high) << 16;
}

// Where this position's weights belong. The new position is not among the values of the cache.
void put_weights(uint head, uint pair, uint two) {
  uint i = head * pairs + pair;
#ifdef HOLDS_NEW_POSITION
  if (is_new) {
    new_weights[i] = two;
    two = 0U;
  }
#endif
  put_integer(i * kPositions + gl_LocalInvocationID.x, two);
}

// Byte b of word a to byte a of word b.
uvec4 transposed(uvec4 a) {
  uint even_low = a.x & 0x00FF00FFU | (a.y & 0x00FF00FFU) << 8;
  uint odd_low = a.x >> 8 & 0x00FF00FFU | a.y & 0xFF00FF00U;
  uint even_high = a.z & 0x00FF00FFU | (a.w & 0x00FF00FFU) << 8;
  uint odd_high = a.z >> 8 & 0x00FF00FFU | a.w & 0xFF00FF00U;
  return uvec4(even_low & 0xFFFFU | even_high << 16, odd_low & 0xFFFFU | odd_high << 16,
               even_low >> 16 | even_high & 0xFFFF0000U, odd_low >> 16 | odd_high & 0xFFFF0000U);
}

#ifdef INFERNO_INTEGER_DOT
// So that dot products of four positions can be made, the weights of four positions become a word of their low bytes and
// one of their high bytes for each of the two blocks, and the values of four positions one word for each dimension.
void arrange_weights(uint heads) {
  for (uint i = gl_LocalInvocationID.x; i < heads * pairs * (kPositions / 4U); i += kPositions)
    integers[i] = transposed(integers[i]);
  barrier();
}

void arrange_values() {
  [[unroll]] for (uint i = 0U; i < kValuesAhead; i += 4U) {
    uvec4 four = transposed(uvec4(values[i], values[i + 1U], values[i + 2U], values[i + 3U]));
    values[i] = four.x;
    values[i + 1U] = four.y;
    values[i + 2U] = four.z;
    values[i + 3U] = four.w;
  }
}

// Four positions' values from values[i] on times their weights, for each of four dimensions.
ivec4 add_four(ivec4 sum, uvec4 four_weights, bool second, uint i) {
  uint low = second ? four_weights.z : four_weights.x;
  uint high = second ? four_weights.w : four_weights.y;
  return sum + ivec4(dot4_unsigned(values[i], low), dot4_unsigned(values[i + 1U], low),
                     dot4_unsigned(values[i + 2U], low), dot4_unsigned(values[i + 3U], low)) +
         256 * ivec4(dot4(values[i], high), dot4(values[i + 1U], high), dot4(values[i + 2U], high),
                     dot4(values[i + 3U], high));
}
#else
void arrange_weights(uint heads) {}
void arrange_values() {}

ivec4 bytes_of(uint word) {
  return ivec4(byte_of(word, 0U), byte_of(word, 1U), byte_of(word, 2U), byte_of(word, 3U));
}

ivec4 add_four(ivec4 sum, uvec4 four_weights, bool second, uint i) {
  ivec4 weight = ivec4(four_weights >> (second ? 16U : 0U) & 0x7FFFU);
  return sum + weight.x * bytes_of(values[i]) + weight.y * bytes_of(values[i + 1U]) +
         weight.z * bytes_of(values[i + 2U]) + weight.w * bytes_of(values[i + 3U]);
}
#endif

// The sums of values times weights, exact and therefore in any order. What is loaded in place of positions that are not
// there has the weight 0.
void sum_values(uint heads) {
  uint own = gl_LocalInvocationID.x;
  uint word = own % words;
  uint share = own / words;
  uint sharing = kPositions / words;
  bool second = word / 8U % 2U == 1U;
  if (share >= sharing) return;
  for (uint begin = 0U; begin < stored; begin += kValuesAhead * sharing) {
#ifndef HOLDS_NEW_POSITION
    if (stored > kValuesAhead * sharing) {
      load_values(begin);
      arrange_values();
    }
#endif
    uint position = begin + 4U * share;
    if (position >= stored) break;
    for (uint h = 0U; h < heads; ++h) {
      uint at = (h * pairs + word / 16U) * (kPositions / 4U) + position / 4U;
      ivec4 sum = ivec4(0);
      [[unroll]] for (uint i = 0U; i < kValuesAhead; i += 4U) {
        if (position + i * sharing < stored) sum = add_four(sum, integers[at + i / 4U * sharing], second, i);
      }
      [[unroll]] for (uint k = 0U; k < 4U; ++k) atomicAdd(sums[h * PADDED_DIM + k * words + word], sum[k]);
    }
  }
#ifdef HOLDS_NEW_POSITION
  if (stored == positions || share != 0U) return;
  for (uint h = 0U; h < heads; ++h) {
    int weight = int(new_weights[h * pairs + word / 16U] >> (second ? 16U : 0U) & 0x7FFFU);
    uint four = new_value[word / 4U][word % 4U];
    [[unroll]] for (uint k = 0U; k < 4U; ++k)
      atomicAdd(sums[h * PADDED_DIM + k * words + word], weight * byte_of(four, k));
  }
#endif
}

// Heads [first, first + heads) of the tile: head h of these is query head (first + h) % group of the group, of token
// TOKEN_OF(first + h). `query` and `query_scale` hold them, and can be read. What comes out of it stands in maxima,
// denominators, sums and scales, and can be read after it.
void attend_heads(uvec4 tile, uint first, uint heads) {
  uint own = gl_LocalInvocationID.x;
  if (first != 0U) barrier();  // the heads before have been used
  for (uint i = own; i < heads * PADDED_DIM; i += kPositions) sums[i] = 0;
  if (own < kTogether) maxima[own] = kKeyOfMinusInfinity;
  if (own < 4U * kTogether) largest[own] = 0U;
#ifdef HOLDS_NEW_POSITION
  if (is_new) take_new_key();
#endif

  // Scores of this position, for tokens that are not before it.
  for (uint h = 0U; h < heads; ++h) {
    bool sees = has_position && first_position + own <= tile.z + TOKEN_OF(first + h);
    weights[h * kPositions + own] = sees ? score_of(h) : float_from_bits(kMinusInfinity);
  }
  if (has_position) {
    put_integer(own, float_bits(value_scales[0]));
    if (blocks > 1U) put_integer(kPositions + own, float_bits(value_scales[1]));
    if (blocks > 2U) put_integer(2U * kPositions + own, float_bits(value_scales[2]));
    if (blocks > 3U) put_integer(3U * kPositions + own, float_bits(value_scales[3]));
#ifndef HOLDS_NEW_POSITION
    for (uint b = kBlocksAhead; b < blocks; ++b) put_integer(b * kPositions + own, float_bits(value_scale(b)));
#endif
  }
  barrier();
#ifdef HOLDS_NEW_POSITION
  // Not before: keys come sooner without them, and until the weights are made there is time enough.
  if (first == 0U) load_values(0U);
#endif

  // The largest of each head: 32 invocations look at 8 scores each.
  uint own_head = own / kStrides;
  uint lane = own % kStrides;
  if (own_head < heads) {
    float maximum = float_from_bits(kMinusInfinity);
    for (uint i = lane; i < kPositions; i += kStrides) {
      float score = weights[own_head * kPositions + i];
      maximum = score > maximum ? score : maximum;
    }
    atomicMax(maxima[own_head], key_of(maximum));
  }
  barrier();
  for (uint h = 0U; h < heads; ++h) {
    // Weights of positions that are not seen are zero, which changes no sum.
    bool sees = has_position && first_position + own <= tile.z + TOKEN_OF(first + h);
    float score = weights[h * kPositions + own];
    weights[h * kPositions + own] = sees ? exponential(subtract(score, value_of(maxima[h]))) : 0.0;
  }
  barrier();

  // 32 partial sums of each denominator; the largest weight times scale of each head and block.
  if (own_head < heads) {
    float sum = 0.0;
    for (uint i = lane; i < kPositions; i += kStrides) sum = add(sum, weights[own_head * kPositions + i]);
    scratch[own / 4U][own % 4U] = float_bits(sum);
  }
  uint sharing = kPositions / 32U;  // invocations for each head and block
  while (sharing * heads * blocks * 2U <= kPositions) sharing *= 2U;
  uint own_pair = own / sharing;
  if (own_pair < heads * blocks) {
    uint h = own_pair / blocks;
    uint magnitude = 0U;
    // Up to the last position that the token sees: what is behind it may be anything.
    uint end = min(positions, max(tile.z + TOKEN_OF(first + h) + 1U, first_position) - first_position);
    for (uint i = own % sharing; i < end; i += sharing) {
      float scale = float_from_bits(integer_at(own_pair % blocks * kPositions + i));
      magnitude = max(magnitude, magnitude_bits(multiply(weights[h * kPositions + i], scale)));
    }
    atomicMax(largest[own_pair], magnitude);
  }
  barrier();
  if (own < heads * blocks) {
    scales[own] = block_scale(largest[own], kWeightStep);
    inverses[own] = block_inverse(largest[own], kWeightLevels);
  }
  if (own >= kPositions - kTogether && own - (kPositions - kTogether) < heads)
    denominators[own - (kPositions - kTogether)] = tree_sum((own - (kPositions - kTogether)) * kStrides);
  barrier();
  // Positions that are not seen have the weight 0 already, but what scales they have may be anything.
  for (uint h = 0U; h < heads; ++h) {
    bool sees = has_position && first_position + own <= tile.z + TOKEN_OF(first + h);
    float weight = weights[h * kPositions + own];
    put_weights(h, 0U, sees ? two_weights(h, 0U, weight, value_scales[0], value_scales[1]) : 0U);
    if (pairs > 1U) put_weights(h, 1U, sees ? two_weights(h, 1U, weight, value_scales[2], value_scales[3]) : 0U);
#ifndef HOLDS_NEW_POSITION
    for (uint pair = 2U; pair < pairs; ++pair)
      put_weights(h, pair,
                  sees ? two_weights(h, pair, weight, value_scale(2U * pair),
                                     value_scale(min(2U * pair + 1U, blocks - 1U)))
                       : 0U);
#endif
  }
  if (first == 0U) arrange_values();
  barrier();
  arrange_weights(heads);
  sum_values(heads);
  barrier();
}

// Four dimensions of what a head's split comes to, from `d` on.
vec4 split_output(uint head, uint d) {
  uint at = head * PADDED_DIM + d / 4U;
  precise vec4 output_four =
      vec4(ivec4(sums[at], sums[at + words], sums[at + 2U * words], sums[at + 3U * words])) *
      vec4(scales[head * blocks + d / 32U]);
  return output_four;
}

// Leaves the split's results of heads [first, first + heads) for the merge.
void store_split(uvec4 tile, uint first, uint heads) {
  uint own = gl_LocalInvocationID.x;
  if (own < heads) {
    uint token = TOKEN_OF(first + own);
    if (first_position <= tile.z + token) {
      uint from = (tile.x + token - c.first_token) * c.heads + kv_head * group + (first + own) % group;
      statistics[from * c.max_splits + split] = vec2(value_of(maxima[own]), denominators[own]);
    }
  }
  for (uint i = own; i < heads * words; i += kPositions) {
    uint h = i / words;
    uint token = TOKEN_OF(first + h);
    if (first_position <= tile.z + token) {
      uint from = (tile.x + token - c.first_token) * c.heads + kv_head * group + (first + h) % group;
      outputs[(from * c.max_splits + split) * words + i % words] = split_output(h, i % words * 4U);
    }
  }
}

#endif
