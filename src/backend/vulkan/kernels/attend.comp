#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef INFERNO_INTEGER_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
// Stage attention, part one: a split of 256 positions for the query heads of one KV head and a tile of tokens.

#include "backend/gpu/kernel_constants.hpp"

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
  vec4 outputs[];  // [T'][H][max_splits][E32 / 4]
};

#define TOKEN_OF(head) ((head) / group)
#include "attend_split.glsl"

void main() {
  uint own = gl_LocalInvocationID.x;
  uvec4 tile = tiles[c.first_tile + gl_WorkGroupID.z];
  if (gl_WorkGroupID.x * kPositions >= tile.z + tile.y) return;
  begin_split(tile);
  barrier();
  load_values(0U);
  uint together = heads_together();
  for (uint first = 0U; first < tile.y * group; first += together) {
    uint heads = min(together, tile.y * group - first);
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
    barrier();
    attend_heads(tile, first, heads);
    store_split(tile, first, heads);
  }
}
