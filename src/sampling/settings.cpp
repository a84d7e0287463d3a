#include "sampling/settings.hpp"

#include <cmath>
#include <fmt/format.h>

#include <inferno/error.hpp>

#include "sampling/sampler.hpp"

namespace inferno {
namespace sampling {
namespace {

// NaN compares false with everything, so that each test is spelled as what must hold.
bool within(float value, float low, float high) {
  return value >= low && value <= high;
}

constexpr float kLargestShift = 100.0F;

}  // namespace

std::string settings_problem(const SamplingSettings& settings, std::size_t vocab_size) {
  if (!std::isfinite(settings.temperature) || settings.temperature < 0.0F) {
    return fmt::format("temperature must be a finite number of at least 0, not {}", settings.temperature);
  }
  if (settings.top_k < 0) {
    return fmt::format("top_k must be at least 0 (0: off), not {}", settings.top_k);
  }
  if (!within(settings.top_p, 0.0F, 1.0F)) {
    return fmt::format("top_p must be within 0 and 1, not {}", settings.top_p);
  }
  if (!within(settings.min_p, 0.0F, 1.0F)) {
    return fmt::format("min_p must be within 0 and 1, not {}", settings.min_p);
  }
  if (!std::isfinite(settings.repetition_penalty) || settings.repetition_penalty <= 0.0F ||
      !std::isfinite(1.0F / settings.repetition_penalty)) {
    return fmt::format(
        "repetition_penalty must be a finite number above 0, with a finite reciprocal (1: off), not {}",
        settings.repetition_penalty);
  }
  if (!within(settings.presence_penalty, -kLargestShift, kLargestShift)) {
    return fmt::format("presence_penalty must be within -100 and 100, not {}", settings.presence_penalty);
  }
  if (!within(settings.frequency_penalty, -kLargestShift, kLargestShift)) {
    return fmt::format("frequency_penalty must be within -100 and 100, not {}", settings.frequency_penalty);
  }
  for (const auto& [id, bias] : settings.logit_bias) {
    if (id < 0 || static_cast<std::size_t>(id) >= vocab_size) {
      return fmt::format("logit_bias id must be within 0 and {}, not {}", vocab_size - 1, id);
    }
    if (!within(bias, -kLargestShift, kLargestShift)) {
      return fmt::format("logit_bias of id {} must be within -100 (bans it) and 100, not {}", id, bias);
    }
  }
  return {};
}

}  // namespace sampling

bool uses_history(const SamplingSettings& settings) {
  return settings.repetition_penalty != 1.0F || settings.presence_penalty != 0.0F ||
         settings.frequency_penalty != 0.0F;
}

void check_settings(const SamplingSettings& settings, std::size_t vocab_size) {
  const std::string problem = sampling::settings_problem(settings, vocab_size);
  if (!problem.empty()) throw UsageError(problem);
}

}  // namespace inferno
