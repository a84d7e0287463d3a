#include "server/api/usage.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace inferno::api {

void Usage::add(std::size_t prompt, const RequestUsage& usage, std::uint32_t reasoning_tokens) {
  auto& counts = prompts_[prompt];
  counts.cached = counts.is_known ? std::min(counts.cached, usage.cached_tokens) : usage.cached_tokens;
  counts.tokens = usage.prompt_tokens;
  counts.is_known = true;
  completion_tokens_ += usage.completion_tokens;
  reasoning_tokens_ += reasoning_tokens;
}

std::uint64_t Usage::prompt_tokens() const {
  std::uint64_t sum = 0;
  for (const auto& prompt : prompts_) sum += prompt.tokens;
  return sum;
}

void Usage::append_to(std::string& out) const {
  std::uint64_t cached = 0;
  for (const auto& prompt : prompts_) cached += prompt.cached;
  const auto prompt = prompt_tokens();
  fmt::format_to(std::back_inserter(out),
                 R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)"
                 R"("prompt_tokens_details":{{"cached_tokens":{}}},)"
                 R"("completion_tokens_details":{{"reasoning_tokens":{}}}}})",
                 prompt, completion_tokens_, prompt + completion_tokens_, cached, reasoning_tokens_);
}

}  // namespace inferno::api
