#include "sampling/reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace inferno::test {
namespace {

__extension__ using Wide = unsigned __int128;

// 2^(31 - x / 2^27) with the polynomial of the documentation in 32.32 fixed point.
std::uint64_t reference_weight(float distance, float scale) {
  const float x = distance * scale;
  if (!(x < 0x1p32F)) return 0;
  const auto units = static_cast<std::uint64_t>(x);
  const std::uint64_t fraction = units % (std::uint64_t{1} << 27) * 32;
  std::uint64_t sum = 0;
  for (const std::uint64_t c :
       {468271ULL, 5475056ULL, 41142263ULL, 238330953ULL, 1031755844ULL, 2977044019ULL}) {
    sum = c - static_cast<std::uint64_t>(Wide{sum} * fraction / (Wide{1} << 32));
  }
  const std::uint64_t y =
      (std::uint64_t{1} << 31) - static_cast<std::uint64_t>(Wide{sum} * fraction / (Wide{1} << 33));
  const std::uint64_t halvings = units >> 27;
  return (2 * y + (std::uint64_t{1} << halvings)) / (std::uint64_t{2} << halvings);
}

std::array<std::uint32_t, 4> reference_philox(std::array<std::uint32_t, 4> c,
                                              std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(p0)};
    k = {k[0] + 0x9E3779B9U, k[1] + 0xBB67AE85U};
  }
  return c;
}

// ceil(share * mass), share in units of 2^-31 rounded up.
std::uint64_t reference_target(float share, std::uint64_t mass) {
  const auto units = static_cast<std::uint64_t>(std::ceil(static_cast<double>(share) * 0x1p31));
  const Wide product = Wide{units} * mass;
  return static_cast<std::uint64_t>((product + ((Wide{1} << 31) - 1)) >> 31);
}

}  // namespace

std::int32_t reference_choice(const std::vector<float>& logits, const SamplingSettings& settings,
                              const TokenHistory& history, std::uint32_t position) {
  std::vector<float> l = logits;
  std::vector<bool> banned(l.size(), false);
  for (const auto& [id, bias] : settings.logit_bias) {
    l[static_cast<std::size_t>(id)] += bias;
    if (bias == -100.0F) banned[static_cast<std::size_t>(id)] = true;
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < l.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const std::uint32_t count = history.generated(id);
    if (history.in_prompt(id) || count > 0) {
      l[i] = l[i] > 0 ? l[i] * (1.0F / settings.repetition_penalty) : l[i] * settings.repetition_penalty;
    }
    if (count > 0) {
      l[i] -= settings.presence_penalty;
      l[i] -= settings.frequency_penalty * static_cast<float>(count);
    }
    if (!banned[i] && l[i] != -std::numeric_limits<float>::infinity()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return l[a] > l[b]; });
  if (settings.temperature < 1e-3F) return static_cast<std::int32_t>(order[0]);

  const auto scale =
      static_cast<float>(134217728.0 * 1.4426950408889634 / static_cast<double>(settings.temperature));
  if (settings.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(settings.top_k)));
  std::vector<std::uint64_t> weight(l.size(), 0);
  std::uint64_t mass = 0;
  for (const std::size_t i : order) {
    weight[i] = reference_weight(l[i] == l[order[0]] ? 0.0F : l[order[0]] - l[i], scale);
    mass += weight[i];
  }
  if (settings.top_p < 1.0F) {
    const std::uint64_t target = reference_target(settings.top_p, mass);
    std::uint64_t sum = 0;
    std::size_t kept = 0;
    do {
      sum += weight[order[kept++]];
    } while (sum < target);
    order.resize(kept);
  }
  const std::uint64_t least = reference_target(settings.min_p, std::uint64_t{1} << 31);
  std::erase_if(order, [&](std::size_t i) { return weight[i] < least; });
  std::sort(order.begin(), order.end());
  mass = 0;
  for (const std::size_t i : order) mass += weight[i];
  const auto words = reference_philox({position, 0, 0, 0}, {static_cast<std::uint32_t>(settings.seed),
                                                            static_cast<std::uint32_t>(settings.seed >> 32)});
  const Wide random = Wide{words[1]} << 32 | words[0];
  auto left = static_cast<std::uint64_t>(random * mass >> 64);
  for (const std::size_t i : order) {
    if (left < weight[i]) return static_cast<std::int32_t>(i);
    left -= weight[i];
  }
  return -1;
}

}  // namespace inferno::test
