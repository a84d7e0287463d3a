#ifndef INFERNO_ROW_SUMS_GLSL_
#define INFERNO_ROW_SUMS_GLSL_

// Rows of a matrix times TOKENS vectors, at most 8, for a workgroup of kThreads invocations. An invocation takes one row and
// every lanes-th of its segments; segment sums meet in shared memory and are added in ascending order.

#include "segment_sums.glsl"

const uint kPartials = 4096U;
shared float partials[kPartials];  // [segments of a round][tokens][rows]
shared float row_totals[1024];     // [tokens][rows], at most 8 * 128

// Fills row_totals for the workgroup's `rows` rows, of which `own_row` is the invocation's: row `row` of the piece,
// if it `exists`. Of Q8, the invocation's first segment, number `lane`, has been loaded. All invocations come here
// together; row_totals can be read after it.
void sum_rows(uint row, uint own_row, uint rows, uint lane, uint lanes, bool exists) {
  uint own = gl_LocalInvocationID.x;
  uint items = TOKENS * rows;
  uint round_segments = kPartials / items;
  for (uint first = 0U; first < c.segments; first += round_segments) {
    uint end = min(first + round_segments, c.segments);
    if (exists) {
      // The first of this round that is the invocation's.
      for (uint segment = (first + lanes - 1U - lane) / lanes * lanes + lane; segment < end; segment += lanes) {
        uint target = (segment - first) * items + own_row;
#if FORMAT == Q8
        if (segment != lane) load_segment(row, segment);
        for (uint t = 0U; t < TOKENS; ++t) partials[target + t * rows] = segment_sum(segment, t);
#else
        for (uint t = 0U; t < TOKENS; ++t) partials[target + t * rows] = segment_sum(row, segment, t);
#endif
      }
    }
    barrier();
    for (uint item = own; item < items; item += kThreads) {
      float total = first == 0U ? 0.0 : row_totals[item];
      for (uint segment = 0U; segment < end - first; ++segment) total = add(total, partials[segment * items + item]);
      row_totals[item] = total;
    }
    barrier();
  }
}

#endif
