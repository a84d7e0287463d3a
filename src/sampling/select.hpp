#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace inferno::sampling {

/// Where a ranking by (key descending, index ascending) is cut: kept is what has a larger key than `key`,
/// and what has that key at an index up to `last`.
struct Cut {
  std::uint32_t key = 0;
  std::uint32_t last = 0;

  bool keeps(std::uint32_t candidate_key, std::size_t index) const {
    return candidate_key > key || (candidate_key == key && index <= last);
  }
};

/// The shortest prefix of the ranking whose masses sum to at least `target`, found without sorting: a
/// histogram of mass over the key's leading digits says in which digit the cut lies, and so on down to
/// single keys (three passes over `keys`, whatever the target). Sums are integers, so that a device may
/// add them in any order. `mass(index)` is the integer mass of keys[index]; 0 < target <= the sum of all.
template <typename Mass>
Cut cut_at_mass(std::span<const std::uint32_t> keys, Mass mass, std::uint64_t target) {
  struct Digit {
    unsigned shift;
    unsigned bits;
  };
  std::array<std::uint64_t, 2048> histogram{};
  std::uint32_t prefix = 0;  // the leading digits of the cut's key, found so far
  for (const Digit digit : {Digit{21, 11}, Digit{10, 11}, Digit{0, 10}}) {
    histogram.fill(0);
    const unsigned known = digit.shift + digit.bits;
    const std::uint32_t digit_mask = (1U << digit.bits) - 1U;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if ((std::uint64_t{keys[i] ^ prefix} >> known) == 0)
        histogram[keys[i] >> digit.shift & digit_mask] += mass(i);
    }
    std::uint32_t value = digit_mask;
    while (value > 0 && histogram[value] < target) target -= histogram[value--];
    prefix |= value << digit.shift;
  }
  Cut cut{prefix, 0};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] != prefix) continue;
    cut.last = static_cast<std::uint32_t>(i);
    const std::uint64_t own = mass(i);
    if (own >= target) break;
    target -= own;
  }
  return cut;
}

}  // namespace inferno::sampling
