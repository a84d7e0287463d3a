#include "sampling/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "sampling/fixed_exp.hpp"
#include "sampling/fixed_settings.hpp"
#include "sampling/philox.hpp"
#include "sampling/select.hpp"
#include "sampling/settings.hpp"

namespace inferno {
namespace {

using sampling::Cut;
using sampling::fixed_share;
using sampling::kOne;
using sampling::order_key;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr float kBan = -100.0F;
constexpr std::uint32_t kMagnitudeBits = 0x7FFFFFFFU;
constexpr std::uint32_t kInfinityBits = 0x7F800000U;
constexpr std::uint32_t kKeyOfMinusInfinity = 0x007FFFFFU;
constexpr std::size_t kScanBlock = 1024;

bool is_nan(float value) {
  return (sampling::float_bits(value) & kMagnitudeBits) > kInfinityBits;
}

// Blocks are scanned without a branch per element, which compilers vectorize.
std::string find_nan(std::span<const float> logits) {
  for (std::size_t first = 0; first < logits.size(); first += kScanBlock) {
    const auto block = logits.subspan(first, std::min(kScanBlock, logits.size() - first));
    std::uint32_t largest = 0;
    for (const float value : block) {
      largest = std::max(largest, sampling::float_bits(value) & kMagnitudeBits);
    }
    if (largest <= kInfinityBits) continue;
    const auto at = std::find_if(block.begin(), block.end(), is_nan);
    return fmt::format("logit {} is NaN", first + static_cast<std::size_t>(at - block.begin()));
  }
  return {};
}

std::uint32_t largest_key(std::span<const float> block) {
  std::uint32_t largest = 0;
  for (const float value : block) largest = std::max(largest, order_key(value));
  return largest;
}

struct Best {
  std::uint32_t key = kKeyOfMinusInfinity;
  std::int32_t id = -1;  // -1: nothing is above -infinity
};

// The lowest index of the largest value above -infinity. No NaN among them.
Best find_best(std::span<const float> logits) {
  Best best;
  for (std::size_t first = 0; first < logits.size(); first += kScanBlock) {
    const auto block = logits.subspan(first, std::min(kScanBlock, logits.size() - first));
    const std::uint32_t largest = largest_key(block);
    if (largest <= best.key) continue;
    const auto at =
        std::find_if(block.begin(), block.end(), [&](float value) { return order_key(value) == largest; });
    best = {largest, static_cast<std::int32_t>(first + static_cast<std::size_t>(at - block.begin()))};
  }
  return best;
}

bool has_adjustments(const SamplingSettings& settings, const TokenHistory& history) {
  return !settings.logit_bias.empty() || (uses_history(settings) && !history.distinct().empty());
}

void mask_logits(std::span<float> logits, std::span<const std::uint32_t> allowed) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if ((allowed[i / 32] >> (i % 32) & 1U) == 0) logits[i] = kMinusInfinity;
  }
}

// ceil(share * mass / 2^31), spelled in 64-bit integers: share <= 2^31, mass < 2^63.
std::uint64_t share_of_mass(std::uint32_t share, std::uint64_t mass) {
  const std::uint64_t low = std::uint64_t{share} * (mass & 0xFFFFFFFFU);
  const std::uint64_t high = std::uint64_t{share} * (mass >> 32);
  return 2 * high + ((low + (kOne - 1)) >> 31);
}

// floor(a * b / 2^64).
std::uint64_t multiply_high_64(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a_low = a & 0xFFFFFFFFU;
  const std::uint64_t a_high = a >> 32;
  const std::uint64_t b_low = b & 0xFFFFFFFFU;
  const std::uint64_t b_high = b >> 32;
  const std::uint64_t middle = a_high * b_low + ((a_low * b_low) >> 32);
  const std::uint64_t other = a_low * b_high + (middle & 0xFFFFFFFFU);
  return a_high * b_high + (middle >> 32) + (other >> 32);
}

// Ids that may still be drawn, ascending, with their order keys and, from `weigh` on, their weights.
class Candidates {
 public:
  // All ids above -infinity, or the `k` best of them. With k, ids are collected until some more than k are
  // there, then cut back to k, and from then on only what beats all of those is looked at: a later id
  // loses every tie.
  void start(std::span<const float> logits, std::int32_t k) {
    ids_.resize(logits.size());
    keys_.resize(logits.size());
    weights_.resize(logits.size());
    size_ = 0;
    const std::size_t limit =
        k == 0 ? logits.size() : std::min(logits.size(), 2 * static_cast<std::size_t>(k) + 2 * kScanBlock);
    std::uint32_t floor = kKeyOfMinusInfinity;
    for (std::size_t first = 0; first < logits.size(); first += kScanBlock) {
      const auto block = logits.subspan(first, std::min(kScanBlock, logits.size() - first));
      if (largest_key(block) <= floor) continue;
      if (size_ + block.size() > limit) floor = keep_top_k(k);
      add(block, first, floor);
    }
    if (k != 0 && size_ > static_cast<std::size_t>(k)) keep_top_k(k);
  }

  void weigh(std::uint32_t best_key, float temperature) {
    const float scale = sampling::weight_scale(temperature);
    const float best = sampling::value_of_key(best_key);
    mass_ = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      // Equal keys apart, because infinity minus infinity is NaN.
      const float distance = keys_[i] == best_key ? 0.0F : best - sampling::value_of_key(keys_[i]);
      weights_[i] = sampling::weight_of(distance, scale);
      mass_ += weights_[i];
    }
  }

  void keep_top_p(float top_p) {
    if (top_p >= 1.0F) return;
    const std::uint64_t target = std::max<std::uint64_t>(share_of_mass(fixed_share(top_p), mass_), 1);
    keep(sampling::cut_at_mass(
        keys(), [this](std::size_t i) { return weights_[i]; }, target));
  }

  void keep_min_p(float min_p) {
    const std::uint32_t least = fixed_share(min_p);
    filter([&](std::size_t i) { return weights_[i] >= least; });
  }

  std::int32_t draw(std::uint64_t random) {
    mass_ = 0;
    for (std::size_t i = 0; i < size_; ++i) mass_ += weights_[i];
    std::uint64_t left = multiply_high_64(random, mass_);
    std::size_t i = 0;
    while (left >= weights_[i]) left -= weights_[i++];
    return ids_[i];
  }

 private:
  // Returns the lowest key kept.
  std::uint32_t keep_top_k(std::int32_t k) {
    const Cut cut = sampling::cut_at_mass(
        keys(), [](std::size_t) { return 1U; }, static_cast<std::uint64_t>(k));
    keep(cut);
    return cut.key;
  }

  void add(std::span<const float> block, std::size_t first, std::uint32_t floor) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::uint32_t key = order_key(block[i]);
      ids_[size_] = static_cast<std::int32_t>(first + i);
      keys_[size_] = key;
      size_ += key > floor ? 1 : 0;
    }
  }

  std::span<const std::uint32_t> keys() const { return std::span(keys_).first(size_); }

  void keep(const Cut& cut) {
    filter([&](std::size_t i) { return cut.keeps(keys_[i], i); });
  }

  template <typename Keep>
  void filter(Keep kept) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      if (!kept(i)) continue;
      ids_[count] = ids_[i];
      keys_[count] = keys_[i];
      weights_[count] = weights_[i];
      ++count;
    }
    size_ = count;
  }

  std::vector<std::int32_t> ids_;
  std::vector<std::uint32_t> keys_;
  std::vector<std::uint32_t> weights_;
  std::size_t size_ = 0;
  std::uint64_t mass_ = 0;
};

// Kept between calls: a call per token should not allocate.
struct Scratch {
  std::vector<float> logits;
  Candidates candidates;
};

Scratch& scratch() {
  thread_local Scratch instance;
  return instance;
}

std::string find_problem(std::span<const float> logits, const SamplingSettings& settings,
                         const TokenHistory& history, std::span<const std::uint32_t> allowed) {
  const std::size_t vocab_size = logits.size();
  if (vocab_size == 0) return "there are no logits to choose from";
  if (std::string problem = sampling::settings_problem(settings, vocab_size); !problem.empty())
    return problem;
  if (history.vocab_size() != 0 && history.vocab_size() != vocab_size) {
    return fmt::format("the token history is of {} tokens, the logits of {}", history.vocab_size(),
                       vocab_size);
  }
  if (!allowed.empty() && allowed.size() < (vocab_size + 31) / 32) {
    return fmt::format("the set of allowed tokens has {} words, {} logits need {}", allowed.size(),
                       vocab_size, (vocab_size + 31) / 32);
  }
  return find_nan(logits);
}

std::uint64_t random_bits(std::uint64_t seed, std::uint32_t position) {
  const sampling::Words4 words = sampling::philox({position, 0, 0, 0}, static_cast<std::uint32_t>(seed),
                                                  static_cast<std::uint32_t>(seed >> 32));
  return std::uint64_t{words.b} << 32 | words.a;
}

}  // namespace

Choice argmax(std::span<const float> logits) {
  if (logits.empty()) return {-1, "there are no logits to choose from"};
  if (std::string problem = find_nan(logits); !problem.empty()) return {-1, std::move(problem)};
  const Best best = find_best(logits);
  if (best.id < 0) return {-1, fmt::format("all {} logits are -infinity", logits.size())};
  return {best.id, {}};
}

void adjust_logits(std::span<float> logits, const SamplingSettings& settings, const TokenHistory& history) {
  for (const auto& [id, bias] : settings.logit_bias) {
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = bias <= kBan ? kMinusInfinity : logit + bias;
  }
  // Devices multiply by the reciprocal, because not all of them divide exactly.
  const float reciprocal = 1.0F / settings.repetition_penalty;
  for (const std::int32_t id : history.distinct()) {
    float& logit = logits[static_cast<std::size_t>(id)];
    if (settings.repetition_penalty != 1.0F) {
      logit = logit > 0.0F ? logit * reciprocal : logit * settings.repetition_penalty;
    }
    const std::uint32_t count = history.generated(id);
    if (count == 0) continue;
    logit = logit - settings.presence_penalty;
    logit = logit - settings.frequency_penalty * static_cast<float>(count);
  }
}

Choice choose(std::span<const float> logits, const SamplingSettings& settings, const TokenHistory& history,
              std::uint32_t position, std::span<const std::uint32_t> allowed) {
  if (std::string problem = find_problem(logits, settings, history, allowed); !problem.empty()) {
    return {-1, std::move(problem)};
  }
  Scratch& own = scratch();
  if (has_adjustments(settings, history) || !allowed.empty()) {
    own.logits.assign(logits.begin(), logits.end());
    adjust_logits(own.logits, settings, history);
    if (!allowed.empty()) mask_logits(own.logits, allowed);
    logits = own.logits;
  }
  const Best best = find_best(logits);
  if (best.id < 0) {
    return {-1,
            fmt::format("every token is banned: all {} logits are -infinity, biased by -100 or not allowed",
                        logits.size())};
  }
  if (settings.temperature < SamplingSettings::kGreedyBelow) return {best.id, {}};

  Candidates& candidates = own.candidates;
  candidates.start(logits, settings.top_k);
  candidates.weigh(best.key, settings.temperature);
  candidates.keep_top_p(settings.top_p);
  candidates.keep_min_p(settings.min_p);
  return {candidates.draw(random_bits(settings.seed, position)), {}};
}

}  // namespace inferno
