#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "step/executor.hpp"

namespace inferno {

/// What exported cache blocks say of themselves. As bytes, little-endian:
///
///     u32 magic "IKVB"   u32 version 1   u32 length of cache_format, then its bytes
///     u32 layers   u32 kv_heads   u32 head_dim   u32 block_size   u32 count   u64 block_bytes
///     count blocks of block_bytes
struct BlockShape {
  std::string cache_format;
  std::uint32_t layers = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t block_size = 0;
  std::uint64_t block_bytes = 0;
};

/// The header for `count` blocks with room for the blocks after it; `payload` is where they go.
struct BlockExport {
  std::vector<std::byte> bytes;
  std::size_t payload = 0;
};
BlockExport start_export(const BlockShape& shape, std::uint32_t count);

/// The blocks' bytes within `bytes`, which must be an export of `count` blocks of exactly `expected`. Throws
/// UsageError naming the first field that differs. Trusts nothing.
std::span<const std::byte> check_import(std::span<const std::byte> bytes, const BlockShape& expected,
                                        std::size_t count);

}  // namespace inferno
