#version 450
// Between two chained steps: what a row chose is its next token, at the next position. One workgroup, an invocation
// for each row in turn.

#include "arith/constants.hpp"
#include "backend/gpu/kernel_constants.hpp"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  AdvanceConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer Chosen {
  uint chosen[];  // [rows]
};
layout(std430, set = 0, binding = 1) writeonly buffer Tokens {
  int tokens[];  // [rows]
};
layout(std430, set = 0, binding = 2) buffer Positions {
  uint positions[];  // [rows]
};
layout(std430, set = 0, binding = 3) writeonly buffer Slots {
  uvec2 slots[];  // [rows]
};
layout(std430, set = 0, binding = 4) readonly buffer Tables {
  uint tables[];
};
layout(std430, set = 0, binding = 5) buffer Tiles {
  uvec4 tiles[];  // [rows]
};
layout(std430, set = 0, binding = 6) writeonly buffer Grid {
  uint grid[];  // [3]
};
layout(std430, set = 0, binding = 7) readonly buffer Stops {
  int stops[];  // offsets [rows + 1], then ids
};
layout(std430, set = 0, binding = 8) coherent buffer Chain {
  uint chain[];
};
layout(std430, set = 0, binding = 9) writeonly buffer Ids {
  int ids[];  // [steps][rows]
};

const uint kThreads = 256U;
shared uint most_splits;

bool is_stop(uint row, int id) {
  for (uint i = uint(stops[row]); i < uint(stops[row + 1U]); ++i) {
    if (stops[c.rows + 1U + i] == id) return true;
  }
  return false;
}

void main() {
  uint own = gl_LocalInvocationID.x;
  uint step = chain[kChainStep];
  bool cancelled = chain[kChainCancelled] != 0U;
  if (own == 0U) most_splits = 1U;
  barrier();
  for (uint row = own; row < c.rows; row += kThreads) {
    bool runs = chain[kChainRunning + row] != 0U;
    uint choice = chosen[row];
    int id = kNotRunning;
    if (runs) id = choice == kNothingChosen ? kRunsDry : int(choice);
    ids[step * c.rows + row] = id;

    uint position = positions[row];
    if (runs && id >= 0 && !is_stop(row, id) && !cancelled) {
      ++position;
      tokens[row] = id;
      positions[row] = position;
      tiles[row].z = position;
      slots[row] = uvec2(tables[tiles[row].w + position / c.block_size], position % c.block_size);
    } else {
      chain[kChainRunning + row] = 0U;
      slots[row].x = kNoBlock;
    }
    atomicMax(most_splits, position / uint(kSplit) + 1U);
  }
  barrier();
  if (own == 0U) {
    grid[0] = most_splits;
    chain[kChainStep] = step + 1U;
  }
}
