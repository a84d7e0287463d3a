#include "engine/logits_hash.hpp"

#include <bit>
#include <fmt/format.h>
#include <new>
#include <xxhash.h>

namespace inferno {

static_assert(std::endian::native == std::endian::little, "logits are hashed in memory order");

struct LogitsHash::State {
  XXH3_state_t* xxh3 = XXH3_createState();
  State() {
    if (xxh3 == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(xxh3);
  }
  ~State() { XXH3_freeState(xxh3); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

LogitsHash::LogitsHash() : state_(std::make_unique<State>()) {}
LogitsHash::~LogitsHash() = default;

void LogitsHash::add(std::span<const float> logits) {
  XXH3_64bits_update(state_->xxh3, logits.data(), logits.size_bytes());
}

std::string LogitsHash::hex() const {
  return fmt::format("{:016x}", XXH3_64bits_digest(state_->xxh3));
}

}  // namespace inferno
