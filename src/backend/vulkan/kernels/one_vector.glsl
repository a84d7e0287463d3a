#ifndef INFERNO_ONE_VECTOR_GLSL_
#define INFERNO_ONE_VECTOR_GLSL_

// Rows of an int8 matrix times one vector that every workgroup quantizes by itself, while its weights are on their
// way: doing a few thousand elements again costs less than asking once more. With NORMS, x is multiplied by `weight`
// before that and 1 / rms is found out beside it.
//
// An invocation has two blocks of a row, a quarter of a segment, in each of up to kRounds rounds; a step is over soon
// when many invocations have a little to do each, and there is little code to fetch. c.lanes invocations, at least 4,
// share a row of a panel; a workgroup has 256 / c.lanes rows. With PARTS 2 it has that many of two stretches of the
// matrix, `part_rows` rows apart. Block terms and segment sums meet in shared memory and are added in their order.
//
// Needs weights.glsl, x [C256 / 4] vec4, weight likewise with NORMS, and the constants segments and lanes, with NORMS
// inverse_length and epsilon.

#include "arith/quantize.hpp"

const uint kThreadBits = 8U;
const uint kThreads = 1U << kThreadBits;
const uint kRounds = 2U;
const uint kChunk = 16U;  // segments of all rounds, with 32 lanes
shared uvec4 quants[kChunk * 16U];
shared float scales[kChunk * 8U];
shared uvec4 magnitudes[4U * kThreads / 4U];  // the largest of each vec4 of a chunk
shared float terms[PARTS * kRounds * 2U * kThreads];  // [parts][blocks of a chunk][rows]
shared float segment_sums[PARTS * kRounds * kThreads / 4U];  // [parts][segments of a chunk][rows]
#if NORMS
shared vec4 square_sums[8];  // the 32 partial sums
shared float norm_factor;
#endif

// What an invocation has of the chunk's weights, for each part and round: 64 columns and two half scales.
uvec4 units[PARTS * kRounds * 4U];
uint halves[PARTS * kRounds];
// What it has of x: a vec4 for each quarter of the chunk.
vec4 fours[4];

vec4 multiply_four(vec4 a, vec4 b) {
  precise vec4 products = a * b;
  return products;
}

vec4 add_four(vec4 a, vec4 b) {
  precise vec4 sum = a + b;
  return sum;
}

void load_units(uint at, uint quarter, uint to) {
  halves[to] = weights[at][quarter];
  [[unroll]] for (uint i = 0U; i < 4U; ++i) units[4U * to + i] = weights[at + (1U + 4U * quarter + i) * kPanel];
}

// Two terms of the block sums: blocks 2 * pair and 2 * pair + 1 of the chunk.
void put_terms(uint from, uint pair, uint target, uint rows) {
  uint at = 4U * pair;
  int first = dot16(units[4U * from], quants[at]) + dot16(units[4U * from + 1U], quants[at + 1U]);
  int second = dot16(units[4U * from + 2U], quants[at + 2U]) + dot16(units[4U * from + 3U], quants[at + 3U]);
  uint both = halves[from];
  terms[target] = multiply(multiply(to_float(first), half_to_float(both & 0xFFFFU)), scales[2U * pair]);
  terms[target + rows] = multiply(multiply(to_float(second), half_to_float(both >> 16)), scales[2U * pair + 1U]);
}

// The terms of a round, of which this invocation's segment of the chunk is number `segment`.
void put_terms_of(uint round, uint segment, uint segments, uint quarter, uint own_row, uint rows) {
  if (segment >= segments) return;
  uint target = (8U * segment + 2U * quarter) * rows + own_row;
  put_terms(round, 4U * segment + quarter, target, rows);
#if PARTS == 2
  put_terms(kRounds + round, 4U * segment + quarter, kRounds * 2U * kThreads + target, rows);
#endif
}

vec4 load_x(uint four) {
#if NORMS
  return multiply_four(x[four], weight[four]);
#else
  return x[four];
#endif
}

void put_magnitude(uint i, vec4 values) {
  uint largest = max(max(magnitude_bits(values.x), magnitude_bits(values.y)),
                     max(magnitude_bits(values.z), magnitude_bits(values.w)));
  magnitudes[i / 4U][i % 4U] = largest;
}

void put_quants(uint i, vec4 values) {
  uvec4 both = max(magnitudes[i / 8U * 2U], magnitudes[i / 8U * 2U + 1U]);
  uint largest = max(max(both.x, both.y), max(both.z, both.w));
  float inverse = block_inverse(largest, kInt8Levels);
  uint word = uint(quantize(values.x, inverse)) & 0xFFU;
  word |= (uint(quantize(values.y, inverse)) & 0xFFU) << 8;
  word |= (uint(quantize(values.z, inverse)) & 0xFFU) << 16;
  word |= uint(quantize(values.w, inverse)) << 24;
  quants[i / 4U][i % 4U] = word;
  if (i % 8U == 0U) scales[i / 8U] = block_scale(largest, kInt8Step);
}

#if NORMS
// Four of the 32 partial sums of squares, by each of eight invocations.
void sum_squares(uint own) {
  vec4 sum = vec4(0.0);
  [[dont_unroll]] for (uint four = own; four < c.segments * 64U; four += 64U) {
    vec4 values[8];
    [[unroll]] for (uint i = 0U; i < 8U; ++i) values[i] = x[four + 8U * i];
    // Spelled out: unrolled loops of floats lose `precise`.
    sum = add_four(sum, multiply_four(values[0], values[0]));
    sum = add_four(sum, multiply_four(values[1], values[1]));
    sum = add_four(sum, multiply_four(values[2], values[2]));
    sum = add_four(sum, multiply_four(values[3], values[3]));
    sum = add_four(sum, multiply_four(values[4], values[4]));
    sum = add_four(sum, multiply_four(values[5], values[5]));
    sum = add_four(sum, multiply_four(values[6], values[6]));
    sum = add_four(sum, multiply_four(values[7], values[7]));
  }
  square_sums[own] = sum;
}

// 1 / rms of the squares' sums.
float factor_of_squares() {
  vec4 a = add_four(square_sums[0], square_sums[4]);
  vec4 b = add_four(square_sums[1], square_sums[5]);
  vec4 d = add_four(square_sums[2], square_sums[6]);
  vec4 e = add_four(square_sums[3], square_sums[7]);
  vec4 four = add_four(add_four(a, d), add_four(b, e));
  float sum = add(add(four.x, four.z), add(four.y, four.w));
  return reciprocal_sqrt(add(multiply(sum, c.inverse_length), c.epsilon));
}
#endif

// The sum of row `own` of the workgroup's, of part 0 in x and of part 1 in y; invocations from `rows` on get nothing.
// The workgroup comes here together. `limit`: rows of a part, padded to the panel.
vec2 sum_rows(uint limit, uint part_rows) {
  uint own = gl_LocalInvocationID.x;
  uint row_bits = kThreadBits - uint(findLSB(c.lanes));  // divisions take longer than anything else here
  uint rows = 1U << row_bits;
  uint lane = own / kPanel & (c.lanes - 1U);
  uint own_row = (own / kPanel >> findLSB(c.lanes)) * kPanel + own % kPanel;
  uint row = gl_WorkGroupID.x * rows + own_row;
  uint quarter = lane % 4U;
  uint together = c.lanes / 4U;  // segments of a round
  vec2 totals = vec2(0.0);
  [[dont_unroll]] for (uint first = 0U; first < c.segments; first += kRounds * together) {
    uint segments = min(kRounds * together, c.segments - first);
    if (row < limit) {
      [[unroll]] for (uint round = 0U; round < kRounds; ++round) {
        uint segment = round * together + lane / 4U;
        if (segment < segments) {
          load_units(segment_at(row, first + segment, c.segments), quarter, round);
#if PARTS == 2
          load_units(segment_at(row + part_rows, first + segment, c.segments), quarter, kRounds + round);
#endif
        }
      }
    }
    // A vec4 for each invocation and four segments.
    if (own < segments * 64U) fours[0] = load_x(first * 64U + own);
    if (own + kThreads < segments * 64U) fours[1] = load_x(first * 64U + kThreads + own);
    if (own + 2U * kThreads < segments * 64U) fours[2] = load_x(first * 64U + 2U * kThreads + own);
    if (own + 3U * kThreads < segments * 64U) fours[3] = load_x(first * 64U + 3U * kThreads + own);
    if (own < segments * 64U) put_magnitude(own, fours[0]);
    if (own + kThreads < segments * 64U) put_magnitude(kThreads + own, fours[1]);
    if (own + 2U * kThreads < segments * 64U) put_magnitude(2U * kThreads + own, fours[2]);
    if (own + 3U * kThreads < segments * 64U) put_magnitude(3U * kThreads + own, fours[3]);
    barrier();
    if (own < segments * 64U) put_quants(own, fours[0]);
    if (own + kThreads < segments * 64U) put_quants(kThreads + own, fours[1]);
    if (own + 2U * kThreads < segments * 64U) put_quants(2U * kThreads + own, fours[2]);
    if (own + 3U * kThreads < segments * 64U) put_quants(3U * kThreads + own, fours[3]);
#if NORMS
    if (first == 0U && own >= kThreads - 8U) sum_squares(own - (kThreads - 8U));
#endif
    barrier();
    if (row < limit) {  // no loop: one that is unrolled loses `precise`
      put_terms_of(0U, lane / 4U, segments, quarter, own_row, rows);
      put_terms_of(1U, together + lane / 4U, segments, quarter, own_row, rows);
    }
    barrier();
    // An invocation for each segment of a row; one finds out the norm's factor.
#if NORMS
    if (first == 0U && own == kThreads - 1U) norm_factor = factor_of_squares();
#endif
    [[dont_unroll]] for (uint i = own; i < PARTS * rows * segments; i += kThreads) {
      uint segment = i >> row_bits;
      uint from = segment * 8U * rows + (i & (rows - 1U));
#if PARTS == 2
      if (segment >= segments) from += kRounds * 2U * kThreads - segments * 8U * rows;
#endif
      float sum = terms[from];
      sum = add(0.0, sum);
      sum = add(sum, terms[from + rows]);
      sum = add(sum, terms[from + 2U * rows]);
      sum = add(sum, terms[from + 3U * rows]);
      sum = add(sum, terms[from + 4U * rows]);
      sum = add(sum, terms[from + 5U * rows]);
      sum = add(sum, terms[from + 6U * rows]);
      segment_sums[i] = add(sum, terms[from + 7U * rows]);
    }
    barrier();
    if (own < rows) {
      [[dont_unroll]] for (uint segment = 0U; segment < segments; ++segment) {
        totals.x = add(totals.x, segment_sums[segment * rows + own]);
#if PARTS == 2
        totals.y = add(totals.y, segment_sums[(segments + segment) * rows + own]);
#endif
      }
    }
  }
  return totals;
}

#endif
