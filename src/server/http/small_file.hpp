#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace inferno::http {

/// All of a regular file that is named on the command line. `what` says in messages what it holds. Throws
/// Error if it cannot be read, is no regular file, or is larger than such a file can sensibly be.
std::string read_small_file(const std::filesystem::path& path, std::string_view what);

}  // namespace inferno::http
