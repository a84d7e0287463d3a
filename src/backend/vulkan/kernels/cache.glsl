#ifndef INFERNO_CACHE_GLSL_
#define INFERNO_CACHE_GLSL_

// Where a KV head of a cache block has its parts, in words: keys [block_size][E32] int8, key scales
// [block_size][E32 / 32] float, values and value scales likewise.
struct CacheHead {
  uint keys;
  uint key_scales;
  uint values;
  uint value_scales;
};

CacheHead cache_head(uint head, uint block_size, uint padded_dim) {
  uint quants = block_size * padded_dim / 4U;
  uint scales = block_size * padded_dim / 32U;
  CacheHead result;
  result.keys = head * 2U * (quants + scales);
  result.key_scales = result.keys + quants;
  result.values = result.key_scales + scales;
  result.value_scales = result.values + quants;
  return result;
}

#endif
