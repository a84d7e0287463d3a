#include "server/http/api_keys.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sstream>

#include <inferno/error.hpp>

#include "platform/quote.hpp"
#include "server/http/small_file.hpp"
#include "server/http/text.hpp"

namespace inferno::http {
namespace {

constexpr std::string_view kScheme = "Bearer ";

bool is_printable(char c) {
  return c > ' ' && c < '\x7F';
}

std::array<std::uint8_t, 32> digest_of(std::string_view text) {
  std::array<std::uint8_t, 32> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].empty() || !std::all_of(keys[i].begin(), keys[i].end(), is_printable)) {
      throw UsageError(
          fmt::format("API key {} of {} is empty or has characters other than printable ASCII without spaces",
                      i + 1, keys.size()));
    }
    digests_.push_back(digest_of(keys[i]));
  }
}

bool ApiKeys::admit(const Request& request) const {
  if (!required()) return true;
  std::string_view given;
  std::size_t count = 0;
  for (const auto& header : request.headers) {
    if (!equal_ignoring_case(header.name, "authorization")) continue;
    given = header.value;
    ++count;
  }
  if (count != 1 || !given.starts_with(kScheme)) return false;
  const auto digest = digest_of(given.substr(kScheme.size()));
  unsigned matches = 0;
  for (const auto& known : digests_) {
    matches |= CRYPTO_memcmp(known.data(), digest.data(), digest.size()) == 0 ? 1U : 0U;
  }
  return matches != 0;
}

std::vector<std::string> read_api_keys(const std::filesystem::path& path) {
  const auto name = quote(path.string());
  std::istringstream file(read_small_file(path, "API keys"));
  std::vector<std::string> keys;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    constexpr const char* kBlanks = " \t\r";
    const auto begin = line.find_first_not_of(kBlanks);
    if (begin == std::string::npos || line[begin] == '#') continue;
    keys.push_back(line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin));
    const auto wrong = std::find_if_not(keys.back().begin(), keys.back().end(), is_printable);
    if (wrong == keys.back().end()) continue;
    throw Error(fmt::format(
        "{} line {}: an API key is printable ASCII without spaces; found the byte 0x{:02X} at column {}",
        name, number, static_cast<unsigned char>(*wrong),
        begin + 1 + static_cast<std::size_t>(wrong - keys.back().begin())));
  }
  if (keys.empty()) throw Error(fmt::format("no API key in {}; expected one a line", name));
  return keys;
}

}  // namespace inferno::http
