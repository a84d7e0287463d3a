#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/reader.hpp"

namespace inferno {

/// Reads one architecture's metadata ("qwen3.block_count") with checks. Keys are given without the prefix;
/// every failure names the file, the whole key, what was expected and what was found.
class MetadataReader {
 public:
  /// `prefix` includes its dot: "qwen3.". The file outlives the reader.
  MetadataReader(const gguf::File& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  const gguf::File& file() const { return file_; }
  std::string full_key(std::string_view key) const { return prefix_ + std::string(key); }

  /// A whole number in [1, max]. Throws Error if it is missing or out of range.
  std::uint32_t count(std::string_view key, std::uint32_t max) const;
  /// The same; nullopt if the key is missing.
  std::optional<std::uint32_t> optional_count(std::string_view key, std::uint32_t max) const;
  /// The same for a key that may be an array with an entry for each of `layers` layers: all must be equal.
  std::uint32_t layer_count(std::string_view key, std::uint32_t max, std::uint32_t layers) const;
  std::optional<std::uint32_t> optional_layer_count(std::string_view key, std::uint32_t max,
                                                    std::uint32_t layers) const;
  /// A finite number.
  std::optional<double> optional_number(std::string_view key) const;
  std::optional<std::string> optional_text(std::string_view key) const;
  std::optional<bool> optional_flag(std::string_view key) const;

  /// Keys of this architecture that nothing has asked for, in file order.
  std::vector<std::string> unread_keys() const;

  /// Throws Error that names file, key, what was expected, where the value stands and what it is (or
  /// `found`).
  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view expected, std::string_view found) const;
  /// A key beside another in a message: whole, with its value and that one's place.
  std::string with_value(std::string_view key) const;

 private:
  /// The value or nullptr; the key counts as read.
  const gguf::Value* find(std::string_view key) const;

  const gguf::File& file_;
  std::string prefix_;
  mutable std::set<std::string, std::less<>> read_;
};

}  // namespace inferno
