#version 450
// Rows of a matrix times up to 8 vectors. A workgroup has kMatvecWorkers workers of 8 invocations, an invocation
// for each row of a panel; c.lanes workers share a panel's segments. Segment sums meet in shared memory and are
// added in ascending order.

#include "matrix_bindings.glsl"

layout(local_size_x = 128) in;

#define SEGMENT_SUMS segment_sums_1
#define SEGMENT_TOKENS 1
#include "segment_sums.glsl"
#undef SEGMENT_SUMS
#undef SEGMENT_TOKENS
#define SEGMENT_SUMS segment_sums_8
#define SEGMENT_TOKENS 8
#include "segment_sums.glsl"

// [segments of a round][tokens][rows of the workgroup]
shared float partials[4096];

void main() {
  uint own = gl_LocalInvocationID.x;
  uint worker = own / kPanel;
  uint lane = worker % c.lanes;
  uint rows = kMatvecThreads / c.lanes;                          // of the workgroup
  uint own_row = worker / c.lanes * kPanel + own % kPanel;       // among them
  uint row = gl_WorkGroupID.x * rows + own_row;                  // of the piece
  bool exists = row < (c.rows + kPanel - 1U) / kPanel * kPanel;  // if only as padding
  uint items = c.tokens * rows;                                  // at most 8 * 128
  uint round_segments = 4096U / items;

  float totals[8];  // of items own, own + kMatvecThreads, ...
  for (uint i = 0U; i < 8U; ++i) totals[i] = 0.0;
  for (uint first = 0U; first < c.segments; first += round_segments) {
    uint end = min(first + round_segments, c.segments);
    if (exists) {
      for (uint segment = first + lane; segment < end; segment += c.lanes) {
        uint at = segment_at(row, segment, c.segments);
        uint target = (segment - first) * items + own_row;
        if (c.tokens == 1U) {
          float sums[1];
          segment_sums_1(at, segment, 0U, 1U, sums);
          partials[target] = sums[0];
        } else {
          float sums[8];
          segment_sums_8(at, segment, 0U, c.tokens, sums);
          for (uint t = 0U; t < 8U; ++t) {
            if (t < c.tokens) partials[target + t * rows] = sums[t];
          }
        }
      }
    }
    barrier();
    for (uint i = 0U; i < 8U; ++i) {
      uint item = own + i * kMatvecThreads;
      if (item < items) {
        for (uint segment = 0U; segment < end - first; ++segment)
          totals[i] = add(totals[i], partials[segment * items + item]);
      }
    }
    barrier();
  }
  for (uint i = 0U; i < 8U; ++i) {
    uint item = own + i * kMatvecThreads;
    uint target = gl_WorkGroupID.x * rows + item % rows;
    if (item < items && target < c.rows) write_product(target, item / rows, totals[i]);
  }
}
