#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace inferno {

/// Where the system tells about memory; tests point elsewhere.
struct MemorySources {
  std::filesystem::path proc = "/proc";
  std::filesystem::path cgroup = "/sys/fs/cgroup";
};

/// Bytes this process can still take: what the system counts as available (page cache that can be dropped
/// included), and no more than what is left under the memory limits of its control groups (version 1 and 2).
/// nullopt where the system does not say.
std::optional<std::uint64_t> available_memory(const MemorySources& sources = {});

}  // namespace inferno
