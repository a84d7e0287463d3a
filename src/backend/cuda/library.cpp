#include "backend/cuda/library.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <system_error>
#include <vector>

#include "platform/paths.hpp"
#include "platform/quote.hpp"

namespace inferno::cuda {
namespace {

namespace fs = std::filesystem;

#ifdef INFERNO_CUDA_MODULE_BUILT
constexpr bool kIsBuilt = true;
#else
constexpr bool kIsBuilt = false;
#endif

/// The module's file, or why there is none.
struct Found {
  fs::path path;
  std::string reason;
};

Found find_module() {
  const char* named = std::getenv("INFERNO_CUDA_MODULE");
  if (named != nullptr && *named != '\0') return {named, {}};
  std::error_code ignored;
  const fs::path folder = executable_path().parent_path();
  const std::vector<fs::path> places = {folder, folder.parent_path(),
                                        folder.parent_path() / "lib" / "inferno",
                                        configured_prefix() / "lib" / "inferno"};
  std::string searched;
  for (const auto& place : places) {
    if (fs::exists(place / kModuleFile, ignored)) return {place / kModuleFile, {}};
    searched += fmt::format("{}{}", searched.empty() ? "" : ", ", place.string());
  }
  if (!kIsBuilt) return {{}, "not part of this build"};
  return {{}, fmt::format("{} is in none of {}", kModuleFile, searched)};
}

Library load() {
  const auto [path, reason] = find_module();
  if (path.empty()) return {nullptr, reason, 0};
  // The module stays: CUDA's own threads may run in it until the process ends.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {nullptr, fmt::format("its module cannot be loaded: {}", dlerror()), 0};
  using Entry = const Module* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, kModuleSymbol));
  const Module* module = entry == nullptr ? nullptr : entry();
  if (module == nullptr || module->version != kModuleVersion) {
    return {nullptr,
            fmt::format("{} is of another build of inferno: expected interface {}, found {}",
                        quote(path.string()), kModuleVersion, module == nullptr ? 0 : module->version),
            0};
  }
  Library loaded{module, {}, 0};
  if (const int error = module->count_devices(&loaded.devices); error != 0) {
    loaded.reason = fmt::format("no device can be used: {}", module->error_text(error));
  } else if (loaded.devices == 0) {
    loaded.reason = "there is no CUDA device";
  }
  return loaded;
}

}  // namespace

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

}  // namespace inferno::cuda
