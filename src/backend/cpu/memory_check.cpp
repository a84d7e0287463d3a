#include "backend/cpu/memory_check.hpp"

#include <algorithm>
#include <fmt/format.h>

#include <inferno/error.hpp>

#include "platform/available_memory.hpp"

namespace inferno {

void check_memory(std::string_view backend, const MemoryNeed& need, const Limits& limits) {
  const auto available = available_memory();
  if (!available || (need.cache_bytes <= *available && need.scratch_bytes <= *available - need.cache_bytes))
    return;
  throw Error(
      fmt::format("the {} backend needs {} bytes for the cache ({} blocks of {} positions) and {} bytes for "
                  "a step of {} tokens, but {} "
                  "bytes are available; ask for a shorter context, fewer sequences or smaller steps",
                  backend, need.cache_bytes, limits.blocks, limits.block_size, need.scratch_bytes,
                  limits.max_tokens, *available));
}

BlockRoom room_for_blocks(const MemoryNeed& need, const Limits& limits, std::optional<std::uint64_t> free,
                          std::string_view where) {
  if (!free) return {};
  const std::uint64_t block = std::max<std::uint64_t>(need.cache_bytes / limits.blocks, 1);
  const std::uint64_t usable = *free / 10 * 9;
  return {usable > need.scratch_bytes ? (usable - need.scratch_bytes) / block : 0,
          fmt::format("{} bytes are free {}, of which a step needs {}", *free, where, need.scratch_bytes)};
}

}  // namespace inferno
