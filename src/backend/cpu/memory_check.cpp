#include "backend/cpu/memory_check.hpp"

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

}  // namespace inferno
