#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace inferno::test {

/// Opens a bad file, mapped and read, in a child of limited memory, and checks what every refusal promises:
/// an Error, at once, in a few megabytes, the same in both modes, with a message of one bounded, printable
/// line that names the file. Returns the message; its own words are the caller's to check.
std::string refusal(const std::filesystem::path& path);

/// The same for a file with these bytes.
std::string refusal_of_bytes(std::string_view bytes);

}  // namespace inferno::test
