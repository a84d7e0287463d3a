#include "platform/cpu_budget.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>

#ifdef __linux__
#include <sched.h>
#endif

namespace inferno {
namespace {

namespace fs = std::filesystem;

/// Control files are a line or two; whatever is longer is no control file.
constexpr std::size_t kMaxLine = 4096;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const auto end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The file's lines, or nullopt if it cannot be read.
std::optional<std::vector<std::string>> read_lines(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return std::nullopt;
  std::ifstream stream(path);
  if (!stream) return std::nullopt;
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(stream, line)) {
    if (line.size() <= kMaxLine) lines.push_back(line);
  }
  if (stream.bad() || lines.empty()) return std::nullopt;
  return lines;
}

std::optional<double> parse_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return static_cast<double>(value);
}

/// What one group's files say.
struct GroupQuota {
  std::optional<double> processors;  ///< nullopt: no limit, or unreadable
  bool unreadable = false;           ///< the files are there and make no sense, or may not be read
};

std::optional<double> processors_of(std::optional<double> quota, std::optional<double> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

/// Version 2: cpu.max holds "150000 100000" or "max 100000".
GroupQuota read_v2(const fs::path& group) {
  const auto path = group / "cpu.max";
  std::error_code error;
  if (!fs::exists(path, error)) return {std::nullopt, static_cast<bool>(error)};
  const auto lines = read_lines(path);
  if (!lines) return {std::nullopt, true};
  const auto words = split(lines->front(), ' ');
  if (!words.empty() && words[0] == "max") return {};
  if (words.size() != 2) return {std::nullopt, true};
  const auto processors = processors_of(parse_number(words[0]), parse_number(words[1]));
  return {processors, !processors.has_value()};
}

/// Version 1: cpu.cfs_quota_us (-1: no limit) and cpu.cfs_period_us.
GroupQuota read_v1(const fs::path& group) {
  const auto path = group / "cpu.cfs_quota_us";
  std::error_code error;
  if (!fs::exists(path, error)) return {std::nullopt, static_cast<bool>(error)};
  const auto quota_lines = read_lines(path);
  if (!quota_lines) return {std::nullopt, true};
  const auto quota = parse_number(quota_lines->front());
  if (quota && *quota < 0) return {};
  const auto period_lines = read_lines(group / "cpu.cfs_period_us");
  if (!period_lines) return {std::nullopt, true};
  const auto processors = processors_of(quota, parse_number(period_lines->front()));
  return {processors, !processors.has_value()};
}

/// A place where a hierarchy of groups is mounted.
struct Mount {
  bool version2 = false;
  std::string root;  ///< the group that the mount point shows
  fs::path point;    ///< under the sources' root
};

/// mountinfo writes blanks in paths as \040 and the like.
std::string unescape_octal(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, value, 8).ptr == text.data() + i + 4) {
      result.push_back(static_cast<char>(value));
      i += 3;
    } else {
      result.push_back(text[i]);
    }
  }
  return result;
}

fs::path below(const fs::path& root, std::string_view absolute) {
  return root / fs::path(absolute).relative_path();
}

/// Mounts that may hold cpu quotas. Without a readable mountinfo the customary places are taken.
std::vector<Mount> find_mounts(const fs::path& root) {
  std::vector<Mount> mounts;
  const auto lines = read_lines(root / "proc/self/mountinfo");
  for (const auto& line : lines.value_or(std::vector<std::string>{})) {
    // id parent major:minor root point options [optional ...] - type source super_options
    const auto words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) continue;
    const auto type = dash[1];
    if (type == "cgroup2") {
      mounts.push_back({true, unescape_octal(words[3]), below(root, unescape_octal(words[4]))});
    } else if (type == "cgroup") {
      const auto controllers = split(dash[3], ',');
      if (std::find(controllers.begin(), controllers.end(), "cpu") == controllers.end()) continue;
      mounts.push_back({false, unescape_octal(words[3]), below(root, unescape_octal(words[4]))});
    }
  }
  if (!mounts.empty()) return mounts;
  std::error_code error;
  for (const auto* point : {"sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpu"}) {
    if (fs::exists(root / point, error))
      return {{false, "/", root / point}, {true, "/", root / "sys/fs/cgroup"}};
  }
  return {{true, "/", root / "sys/fs/cgroup"}};
}

/// The process's group in a hierarchy as /proc/self/cgroup names it; "/" if it does not say.
std::string group_path(const fs::path& root, bool version2) {
  const auto lines = read_lines(root / "proc/self/cgroup");
  for (const auto& line : lines.value_or(std::vector<std::string>{})) {
    // hierarchy:controllers:path; version 2 has hierarchy 0 and no controllers
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto names = std::string_view(line).substr(first + 1, second - first - 1);
    const auto controllers = split(names, ',');
    const bool has_cpu = std::find(controllers.begin(), controllers.end(), "cpu") != controllers.end();
    if (version2 ? names.empty() : has_cpu) return line.substr(second + 1);
  }
  return "/";
}

/// The group's folders from the mount point down to the group itself. In a container the group's path may
/// name folders above what is mounted: what is not there is left out.
std::vector<fs::path> group_folders(const Mount& mount, const std::string& path) {
  std::string relative = path;
  if (mount.root != "/" && relative.rfind(mount.root, 0) == 0 &&
      (relative.size() == mount.root.size() || relative[mount.root.size()] == '/')) {
    relative = relative.substr(mount.root.size());
  }
  std::vector<fs::path> folders{mount.point};
  for (const auto part : split(relative, '/')) {
    if (part == "." || part == "..") return {mount.point};
    folders.push_back(folders.back() / part);
  }
  return folders;
}

std::vector<std::uint32_t> system_affinity() {
  std::vector<std::uint32_t> cpus;
#ifdef __linux__
  // The kernel refuses a set smaller than its own, which may be larger than cpu_set_t.
  for (std::size_t count = CPU_SETSIZE; count <= (std::size_t{1} << 20U); count *= 2) {
    std::vector<unsigned long> bits(count / (8 * sizeof(unsigned long)));
    const auto bytes = bits.size() * sizeof(unsigned long);
    auto* set = reinterpret_cast<cpu_set_t*>(bits.data());
    if (sched_getaffinity(0, bytes, set) != 0) continue;
    for (std::size_t cpu = 0; cpu < count; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(static_cast<std::uint32_t>(cpu));
    }
    break;
  }
#endif
  if (cpus.empty()) {
    const auto count = std::max(1U, std::thread::hardware_concurrency());
    for (std::uint32_t cpu = 0; cpu < count; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

CpuBudget cpu_budget(const CpuBudgetSources& sources) {
  CpuBudget budget;
  budget.cpus = sources.affinity ? *sources.affinity : system_affinity();
  std::sort(budget.cpus.begin(), budget.cpus.end());

  std::string limited_by;
  std::string unreadable;
  for (const auto& mount : find_mounts(sources.root)) {
    const auto path = group_path(sources.root, mount.version2);
    for (const auto& folder : group_folders(mount, path)) {
      const auto group = mount.version2 ? read_v2(folder) : read_v1(folder);
      const auto shown = fmt::format("/{}", folder.lexically_relative(sources.root).generic_string());
      if (group.unreadable && unreadable.empty()) unreadable = shown;
      if (group.processors && (!budget.quota || *group.processors < *budget.quota)) {
        budget.quota = group.processors;
        limited_by = shown;
      }
    }
  }

  const auto allowed = static_cast<std::uint32_t>(std::max<std::size_t>(1, budget.cpus.size()));
  budget.threads = allowed;
  // Half a processor more would make one thread wait for the others while it is throttled: round down.
  if (budget.quota && *budget.quota < allowed) {
    budget.threads = std::max(1U, static_cast<std::uint32_t>(std::floor(*budget.quota)));
  }
  budget.reason =
      fmt::format("{}: affinity allows {}, ", plural(budget.threads, "thread"), plural(allowed, "processor"));
  budget.reason += budget.quota ? fmt::format("the control group {} grants {:.4g}", limited_by, *budget.quota)
                                : std::string("no control group limits them");
  if (!unreadable.empty()) budget.reason += fmt::format(" ({} could not be read)", unreadable);
  return budget;
}

ThreadChoice choose_threads(std::uint32_t requested, const CpuBudget& budget) {
  if (requested == 0) return {budget.threads, budget.reason, {}};
  ThreadChoice choice{requested, fmt::format("{}: asked for", plural(requested, "thread")), {}};
  if (requested > budget.threads) {
    choice.warning = fmt::format("{} were asked for, more than can run at once ({})",
                                 plural(requested, "thread"), budget.reason);
  }
  return choice;
}

}  // namespace inferno
