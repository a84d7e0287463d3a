#pragma once

#include <filesystem>

namespace inferno {

/// The model that every command takes when it is given none: $INFERNO_MODEL, else the model that ships with
/// the project, looked for beside the running program (build tree, then install tree), then where the project
/// was installed and built. Throws Error naming the places if none exists.
std::filesystem::path default_model_path();

/// The running program's file, with links resolved.
std::filesystem::path executable_path();

}  // namespace inferno
