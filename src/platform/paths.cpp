#include "platform/paths.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <vector>

#include <inferno/error.hpp>

namespace inferno {
namespace {

constexpr const char* kModelFile = "tale-12m-q8_0.gguf";

}  // namespace

std::filesystem::path executable_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

std::filesystem::path configured_prefix() {
  return INFERNO_INSTALL_PREFIX;
}

std::filesystem::path default_model_path() {
  if (const char* named = std::getenv("INFERNO_MODEL"); named != nullptr && *named != '\0') return named;
  const auto here = executable_path().parent_path();
  const std::filesystem::path installed = INFERNO_INSTALL_DATADIR "/inferno/models";
  std::vector<std::filesystem::path> places = {
      here / "../../models",            // build/<preset>/inferno
      here / ".." / installed,          // <prefix>/bin/inferno
      configured_prefix() / installed,  // a program linked to the library
  };
  // Tests and tools stand deeper in the build tree. What is installed must not depend on a source tree.
  if (here.string().starts_with(INFERNO_SOURCE_DIR "/")) places.emplace_back(INFERNO_SOURCE_DIR "/models");
  std::string tried;
  for (const auto& place : places) {
    std::error_code error;
    const auto path = place / kModelFile;
    if (std::filesystem::is_regular_file(path, error)) return path.lexically_normal();
    tried += fmt::format("{}{}", tried.empty() ? "" : ", ", place.lexically_normal().string());
  }
  throw Error(
      fmt::format("the model that ships with inferno ({}) is not in any of {}; name a model with -m FILE or "
                  "in INFERNO_MODEL",
                  kModelFile, tried));
}

}  // namespace inferno
