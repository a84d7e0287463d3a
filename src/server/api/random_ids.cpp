#include "server/api/random_ids.hpp"

#include <random>

namespace inferno::api {
namespace {

constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr std::size_t kIdLetters = 24;

}  // namespace

std::uint64_t random_number() {
  thread_local std::random_device device;
  const std::uint64_t high = device();
  return high << 32U | device();
}

std::string random_id(std::string_view prefix) {
  std::string id(prefix);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kIdLetters; ++i) {
    // Ten letters of 62 fit 64 bits.
    if (i % 10 == 0) bits = random_number();
    id += kLetters[bits % kLetters.size()];
    bits /= kLetters.size();
  }
  return id;
}

}  // namespace inferno::api
