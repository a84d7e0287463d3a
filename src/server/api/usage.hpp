#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/serving_request.hpp"

namespace inferno::api {

/// Counts of an answer. Choices of one prompt count it once.
class Usage {
 public:
  explicit Usage(std::size_t prompts) : prompts_(prompts) {}

  void add(std::size_t prompt, const RequestUsage& usage, std::uint32_t reasoning_tokens);
  /// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details": {"cached_tokens"},
  /// "completion_tokens_details": {"reasoning_tokens"}}
  void append_to(std::string& out) const;
  std::uint64_t prompt_tokens() const;

 private:
  struct Prompt {
    bool is_known = false;
    std::uint32_t tokens = 0;
    std::uint32_t cached = 0;  ///< the fewest of its choices: the first one that was run
  };
  std::vector<Prompt> prompts_;
  std::uint64_t completion_tokens_ = 0;
  std::uint64_t reasoning_tokens_ = 0;
};

}  // namespace inferno::api
