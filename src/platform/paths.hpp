#pragma once

#include <filesystem>

namespace inferno {

/// The model that every command takes when it is given none: $INFERNO_MODEL, else the model that ships with
/// the project, looked for beside the running program (build tree, then install tree), then under the
/// configured prefix, and for programs within the source tree in its models/. Throws Error naming the places
/// if none exists.
std::filesystem::path default_model_path();

/// The running program's file, with links resolved.
std::filesystem::path executable_path();

/// Where the project was to be installed when it was built: where a program that is linked to the library,
/// and stands elsewhere, finds what belongs to it.
std::filesystem::path configured_prefix();

}  // namespace inferno
