#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "gguf/reader.hpp"
#include "gguf/value.hpp"

/// How everybody who reads a GGUF file says what is wrong with it: one line with file, key or tensor, what
/// was expected, the byte, what was found.
namespace inferno::gguf {

/// A path as messages print it.
std::string name_for_messages(const std::filesystem::path& path);

/// A metadata value, shortened: `7`, `"text"`, `an array of 3 u32`.
std::string describe(const Value& value);

/// " at byte N", or nothing for a value that stands in no file.
std::string at_byte(std::optional<std::uint64_t> offset);

/// A key to be mentioned beside another: `qwen3.block_count = 2 (at byte N)`; only its name if the file lacks
/// it.
std::string key_with_value(const File& file, std::string_view key);

/// Throws Error: `"<file>": metadata key "<key>": expected <expected> at byte N, found <found>`. A key that
/// the file lacks has no byte.
[[noreturn]] void refuse_value(const File& file, std::string_view key, std::string_view expected,
                               std::string_view found);
/// The same, finding the value that the file has, or "no such key".
[[noreturn]] void refuse_value(const File& file, std::string_view key, std::string_view expected);

/// Throws Error: `"<its shard>": tensor "<name>": <field>: expected <expected> at byte N, found <found>`,
/// where N is the place of the tensor's entry in the table.
[[noreturn]] void refuse_tensor(const File& file, const TensorInfo& tensor, std::string_view field,
                                std::string_view expected, std::string_view found);

}  // namespace inferno::gguf
