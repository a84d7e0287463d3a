#include "server/http/request_id.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fmt/format.h>
#include <random>

namespace inferno::http {
namespace {

constexpr std::size_t kLongest = 128;

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.' || c == ':';
}

}  // namespace

std::string request_id(std::string_view of_client) {
  if (!of_client.empty() && of_client.size() <= kLongest &&
      std::all_of(of_client.begin(), of_client.end(), is_plain)) {
    return std::string(of_client);
  }
  // Tells requests apart, also those of another run; it is no secret.
  static const std::uint64_t run = [] {
    std::random_device device;
    return std::uint64_t{device()} << 32U | device();
  }();
  static std::atomic<std::uint64_t> next{1};
  return fmt::format("req-{:016x}-{:x}", run, next++);
}

}  // namespace inferno::http
