#pragma once

#include <memory>
#include <span>
#include <string>

namespace inferno {

/// XXH3-64 over the little-endian bytes of float32 logits, in the order they are added.
class LogitsHash {
 public:
  LogitsHash();
  ~LogitsHash();
  LogitsHash(const LogitsHash&) = delete;
  LogitsHash& operator=(const LogitsHash&) = delete;

  void add(std::span<const float> logits);
  /// 16 hex digits, of everything added so far.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace inferno
