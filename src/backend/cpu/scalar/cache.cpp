#include "backend/cpu/scalar/cache.hpp"

namespace inferno::scalar {

Cache::Cache(const ModelConfig& config, std::uint32_t block_size, std::uint32_t blocks)
    : buffer_("the cache", block_floats(config, block_size) * blocks),
      stride_(block_floats(config, block_size)),
      head_floats_(std::size_t{block_size} * config.head_dim),
      kv_heads_(config.kv_heads),
      block_size_(block_size) {}

std::uint64_t Cache::block_floats(const ModelConfig& config, std::uint32_t block_size) {
  return std::uint64_t{config.layers} * 2 * config.kv_width() * block_size;
}

}  // namespace inferno::scalar
