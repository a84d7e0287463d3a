#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.hpp"

namespace inferno::http {

/// Who may use the server. Only digests of the keys are held, and digests are compared, all of them and to
/// their ends: how long it takes says nothing about a key, however much of it was guessed.
class ApiKeys {
 public:
  ApiKeys() = default;
  /// Throws UsageError if a key is empty or has bytes that a header cannot carry.
  explicit ApiKeys(const std::vector<std::string>& keys);

  /// Whether any key is asked for at all.
  bool required() const { return !digests_.empty(); }
  /// Whether the request has exactly one Authorization header, which is `Bearer KEY` (one space, this case)
  /// with one of the keys. True if none is required.
  bool admit(const Request& request) const;

 private:
  using Digest = std::array<std::uint8_t, 32>;
  std::vector<Digest> digests_;
};

/// The keys in a file, one a line; empty lines and lines that begin with # are skipped, spaces around a key
/// are not part of it. Throws Error if the file cannot be read or has none; the message never has a key.
std::vector<std::string> read_api_keys(const std::filesystem::path& path);

}  // namespace inferno::http
