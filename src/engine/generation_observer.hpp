#pragma once

#include <cstdint>
#include <string>

#include "step/observer.hpp"

namespace inferno {

/// One generated token, for logs.
struct TokenRecord {
  std::uint32_t number = 0;  ///< counts from 0
  std::int32_t id = 0;
  std::string bytes;       ///< of the token; may be half a character
  double probability = 0;  ///< under the whole distribution, before sampling settings
  bool prefill = false;    ///< chosen by the submission that ended the prompt
};

/// Watches generations from inside inferno. Every question is asked once per submission.
class GenerationObserver {
 public:
  virtual ~GenerationObserver() = default;
  /// If true, logits are read back so that `token` can be told the probability.
  virtual bool wants_tokens() const { return false; }
  virtual void token(const TokenRecord& /*record*/) {}
  /// Who watches the stages of a submission; nullptr: nobody.
  virtual StageObserver* stages(bool /*prefill*/) { return nullptr; }
  /// A submission is done: how many model steps it ran.
  virtual void forward(bool /*prefill*/, std::uint32_t /*steps*/, double /*milliseconds*/) {}
};

}  // namespace inferno
