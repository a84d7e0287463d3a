#version 450
#ifdef INFERNO_INTEGER_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
#extension GL_EXT_control_flow_attributes : require
// Rows of a matrix times up to 8 vectors. A workgroup has kMatvecWorkers workers of 8 invocations, an invocation
// for each row of a panel; c.lanes workers share a panel's segments.

#include "matrix_bindings.glsl"

layout(local_size_x = 128) in;
#define TOKENS c.tokens
const uint kThreads = kMatvecThreads;
#include "row_sums.glsl"

void main() {
  uint own = gl_LocalInvocationID.x;
  uint worker = own / kPanel;
  uint lane = worker % c.lanes;
  uint rows = kThreads / c.lanes;                           // of the workgroup
  uint own_row = worker / c.lanes * kPanel + own % kPanel;  // among them
  uint first_row = gl_WorkGroupID.x * rows;
  uint row = first_row + own_row;
  bool exists = row < (c.rows + kPanel - 1U) / kPanel * kPanel;  // if only as padding
#if FORMAT == Q8
  if (exists && lane < c.segments) load_segment(row, lane);
#endif
  // What the first product is added to comes along with the weights.
  float before = 0.0;
  if (c.accumulate != 0U && own < c.tokens * rows && first_row + own % rows < c.rows)
    before = y[place_of(first_row + own % rows, own / rows)];
  sum_rows(row, own_row, rows, lane, c.lanes, exists);
  for (uint item = own; item < c.tokens * rows; item += kThreads) {
    uint target = first_row + item % rows;
    if (target >= c.rows) continue;
    if (item == own) {
      write_product(target, item / rows, row_totals[item], before);
    } else {
      write_product(target, item / rows, row_totals[item]);
    }
  }
}
