#include "platform/available_memory.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace inferno {
namespace {

std::optional<std::uint64_t> parse(std::string_view text) {
  std::uint64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc()) return std::nullopt;  // "max", for one
  return number;
}

/// The number in a file of one line.
std::optional<std::uint64_t> read_number(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return parse(word);
}

/// The number after `key` in a file of "key number" lines.
std::optional<std::uint64_t> read_entry(const std::filesystem::path& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (word == key && file >> word) return parse(word);
  }
  return std::nullopt;
}

/// Whether a comma-separated list has the memory controller.
bool names_memory(std::string_view controllers) {
  while (!controllers.empty()) {
    const auto comma = controllers.find(',');
    if (controllers.substr(0, comma) == "memory") return true;
    controllers = comma == std::string_view::npos ? std::string_view{} : controllers.substr(comma + 1);
  }
  return false;
}

/// Names of the files of one version of control groups.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // key in memory.stat
};

/// The tightest of the limits of a group and its parents: limit - usage + file cache that can be dropped.
std::optional<std::uint64_t> left_in_group(const std::filesystem::path& root, std::string group,
                                           const GroupFiles& files) {
  std::optional<std::uint64_t> least;
  while (true) {
    const auto folder = root / std::filesystem::path(group).relative_path();
    const auto limit = read_number(folder / files.limit);
    const auto usage = read_number(folder / files.usage);
    if (limit && usage) {
      const std::uint64_t cache = read_entry(folder / "memory.stat", files.reclaimable).value_or(0);
      const std::uint64_t held = *usage - std::min(*usage, cache);
      const std::uint64_t left = *limit - std::min(*limit, held);
      least = least ? std::min(*least, left) : left;
    }
    if (group.empty() || group == "/") return least;
    group = std::filesystem::path(group).parent_path().string();
  }
}

}  // namespace

std::optional<std::uint64_t> available_memory(const MemorySources& sources) {
  auto available = read_entry(sources.proc / "meminfo", "MemAvailable:");
  if (available) *available *= 1024;  // the system prints KiB

  std::ifstream groups(sources.proc / "self" / "cgroup");
  std::string line;
  while (std::getline(groups, line)) {  // "id:controllers:path"
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const auto group = line.substr(second + 1);
    std::optional<std::uint64_t> left;
    if (controllers.empty()) {
      left = left_in_group(sources.cgroup, group, {"memory.max", "memory.current", "inactive_file"});
    } else if (names_memory(controllers)) {
      left = left_in_group(sources.cgroup / "memory", group,
                           {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"});
    }
    if (left) available = available ? std::min(*available, *left) : left;
  }
  return available;
}

}  // namespace inferno
