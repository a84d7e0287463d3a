#include <fmt/format.h>

#include <inferno/error.hpp>

#include "sampling/sampler.hpp"

namespace inferno {

void TokenHistory::check(std::int32_t id) const {
  if (id >= 0 && static_cast<std::size_t>(id) < in_prompt_.size()) return;
  throw UsageError(fmt::format("token id {} is outside the vocabulary of {} tokens", id, in_prompt_.size()));
}

void TokenHistory::add_prompt(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    check(id);
    if (!seen(id)) distinct_.push_back(id);
    in_prompt_[static_cast<std::size_t>(id)] = 1;
  }
}

void TokenHistory::add_generated(std::int32_t id) {
  check(id);
  if (!seen(id)) distinct_.push_back(id);
  ++generated_[static_cast<std::size_t>(id)];
}

}  // namespace inferno
