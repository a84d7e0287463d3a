#version 450
// How a token is chosen from its adjusted logits (adjust.comp), as sampling/sampler.hpp says and with the same
// integers: top-k, top-p, min-p, draw. A workgroup for each row.

#include "backend/gpu/kernel_constants.hpp"
#include "sampling/fixed_exp.hpp"
#include "sampling/philox.hpp"

#include "wide.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  SampleConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer Logits {
  float logits[];  // [rows][stride]
};
layout(std430, set = 0, binding = 1) readonly buffer States {
  uint states[];  // [rows][kSampleWords]
};
layout(std430, set = 0, binding = 2) buffer Counts {
  uint counts[];  // [slots][V]: times generated; the highest bit: stands in the prompt
};
layout(std430, set = 0, binding = 3) readonly buffer Positions {
  uint positions[];  // [T]
};
layout(std430, set = 0, binding = 4) readonly buffer HeadMap {
  uint head_map[];  // [rows], into the tokens
};
layout(std430, set = 0, binding = 5) writeonly buffer Chosen {
  uint chosen[];  // [rows]
};

const uint kThreads = 256U;
const uint kBins = 2048U;
const uint kBinsEach = kBins / kThreads;
const uint kKeyOfMinusInfinity = 0x007FFFFFU;
const uint kInfinity = 0x7F800000U;

shared uint low_bins[kBins];
shared uint high_bins[kBins];
shared uint low_sums[kThreads];
shared uint high_sums[kThreads];
shared uint found;         // what one invocation found out for all
shared Wide left_of_target;
shared uint best_key;
shared uint best_id;

// A ranking by (key descending, id ascending) is cut: kept is what comes before.
struct Cut {
  uint key;
  uint last;  // id of the last one with that key
};

uint row_base;
float scale;
float best_value;
Cut top_k;
Cut top_p;
uint least_weight;

bool cut_keeps(Cut cut, uint key, uint id) {
  return key > cut.key || (key == cut.key && id <= cut.last);
}

uint weight_at(uint key) {
  float distance = key == best_key ? 0.0 : subtract(best_value, value_of_key(key));
  return weight_of(distance, scale);
}

// The mass of an id: its weight or 1, 0 if it was filtered out.
uint mass_at(uint id, bool weighs) {
  uint key = order_key(logits[row_base + id]);
  if (key <= kKeyOfMinusInfinity || !cut_keeps(top_k, key, id) || !cut_keeps(top_p, key, id)) return 0U;
  if (!weighs) return 1U;
  uint weight = weight_at(key);
  return weight >= least_weight ? weight : 0U;
}

Wide sum_at(uint i) {
  return Wide(low_sums[i], high_sums[i]);
}

void set_sum(uint i, Wide sum) {
  low_sums[i] = sum.low;
  high_sums[i] = sum.high;
}

// Ids in the order of invocations: each has a stretch.
uint stretch() {
  return (c.columns + kThreads - 1U) / kThreads;
}

// The mass of everything.
Wide total_mass(bool weighs) {
  uint own = gl_LocalInvocationID.x;
  Wide sum = Wide(0U, 0U);
  for (uint id = own; id < c.columns; id += kThreads) sum = wide_add(sum, Wide(mass_at(id, weighs), 0U));
  set_sum(own, sum);
  barrier();
  for (uint width = kThreads / 2U; width > 0U; width /= 2U) {
    if (own < width) set_sum(own, wide_add(sum_at(own), sum_at(own + width)));
    barrier();
  }
  Wide total = sum_at(0U);
  barrier();
  return total;
}

// The id in whose stretch of mass `target` falls, ids with `only_key` (0: all) laid end to end.
uint id_at(Wide target, uint only_key, bool weighs) {
  uint own = gl_LocalInvocationID.x;
  uint first = own * stretch();
  uint end = min(first + stretch(), c.columns);
  Wide sum = Wide(0U, 0U);
  for (uint id = first; id < end; ++id) {
    if (only_key != 0U && order_key(logits[row_base + id]) != only_key) continue;
    sum = wide_add(sum, Wide(mass_at(id, weighs), 0U));
  }
  set_sum(own, sum);
  barrier();
  if (own == 0U) {
    uint i = 0U;
    while (i < kThreads - 1U && !wide_less(target, sum_at(i))) {
      target = wide_subtract(target, sum_at(i));
      ++i;
    }
    found = i;
    left_of_target = target;
  }
  barrier();
  uint finder = found;
  target = left_of_target;
  barrier();
  if (own == finder) {
    uint last = first;
    for (uint id = first; id < end; ++id) {
      if (only_key != 0U && order_key(logits[row_base + id]) != only_key) continue;
      Wide mass = Wide(mass_at(id, weighs), 0U);
      last = id;
      if (wide_less(target, mass)) break;
      target = wide_subtract(target, mass);
    }
    found = last;
  }
  barrier();
  uint id = found;
  barrier();
  return id;
}

// The shortest prefix of the ranking whose mass is at least `target`: sampling/select.hpp, digit by digit.
Cut cut_at_mass(Wide target, bool weighs) {
  uint own = gl_LocalInvocationID.x;
  uint prefix = 0U;
  for (uint digit = 0U; digit < 3U; ++digit) {
    uint shift = digit == 0U ? 21U : digit == 1U ? 10U : 0U;
    uint mask = digit == 2U ? 1023U : 2047U;
    uint known = digit == 0U ? 0U : digit == 1U ? 0xFFE00000U : 0xFFFFFC00U;
    for (uint i = own; i < kBins; i += kThreads) {
      low_bins[i] = 0U;
      high_bins[i] = 0U;
    }
    barrier();
    for (uint id = own; id < c.columns; id += kThreads) {
      uint key = order_key(logits[row_base + id]);
      if (((key ^ prefix) & known) != 0U) continue;
      uint mass = mass_at(id, weighs);
      if (mass == 0U) continue;
      uint bin = key >> shift & mask;
      uint before = atomicAdd(low_bins[bin], mass);
      if (before + mass < before) atomicAdd(high_bins[bin], 1U);
    }
    barrier();
    Wide sum = Wide(0U, 0U);
    for (uint i = own * kBinsEach; i < (own + 1U) * kBinsEach; ++i)
      sum = wide_add(sum, Wide(low_bins[i], high_bins[i]));
    set_sum(own, sum);
    barrier();
    if (own == 0U) {
      uint i = kThreads - 1U;
      while (i > 0U && wide_less(sum_at(i), target)) {
        target = wide_subtract(target, sum_at(i));
        --i;
      }
      uint bin = (i + 1U) * kBinsEach - 1U;
      while (bin > i * kBinsEach && wide_less(Wide(low_bins[bin], high_bins[bin]), target)) {
        target = wide_subtract(target, Wide(low_bins[bin], high_bins[bin]));
        --bin;
      }
      found = bin;
      left_of_target = target;
    }
    barrier();
    prefix |= found << shift;
    target = left_of_target;
    barrier();
  }
  // Of equal keys the lower ids, as far as the target reaches: the id in whose mass unit target - 1 lies.
  Cut cut;
  cut.key = prefix;
  cut.last = id_at(wide_subtract(target, Wide(1U, 0U)), prefix, weighs);
  return cut;
}

bool is_nan(float value) {
  return (float_bits(value) & 0x7FFFFFFFU) > kInfinity;
}

// The largest and the lowest id that has it, to all.
void find_best() {
  uint own = gl_LocalInvocationID.x;
  uint key = kKeyOfMinusInfinity;
  uint at = 0xFFFFFFFFU;
  for (uint id = own; id < c.columns; id += kThreads) {
    uint other = order_key(logits[row_base + id]);
    if (other > key) {
      key = other;
      at = id;
    }
  }
  low_sums[own] = key;
  high_sums[own] = at;
  barrier();
  for (uint width = kThreads / 2U; width > 0U; width /= 2U) {
    if (own < width) {
      uint other = low_sums[own + width];
      if (other > low_sums[own] || (other == low_sums[own] && high_sums[own + width] < high_sums[own])) {
        low_sums[own] = other;
        high_sums[own] = high_sums[own + width];
      }
    }
    barrier();
  }
  if (own == 0U) {
    best_key = low_sums[0];
    best_id = high_sums[0];
  }
  barrier();
}

void main() {
  uint own = gl_LocalInvocationID.x;
  uint row = gl_WorkGroupID.x;
  uint state = row * kSampleWords;
  uint flags = states[state + kSampleFlags];
  if ((flags & kSampleHere) == 0U) return;  // argmax has chosen
  uint slot = states[state + kSampleSlot];
  row_base = row * c.stride;

  if (own == 0U) found = 0U;
  barrier();
  for (uint id = own; id < c.columns; id += kThreads) {
    if (is_nan(logits[row_base + id])) atomicOr(found, 1U);
  }
  barrier();
  bool spoilt = found != 0U;
  barrier();
  if (!spoilt) find_best();
  if (spoilt || best_id == 0xFFFFFFFFU) {
    if (own == 0U) chosen[row] = kNothingChosen;
    return;
  }

  uint id = best_id;
  if ((flags & kSampleDraws) != 0U) {
    scale = float_from_bits(states[state + kSampleScale]);
    best_value = value_of_key(best_key);
    top_k = Cut(0U, 0xFFFFFFFFU);
    top_p = Cut(0U, 0xFFFFFFFFU);
    least_weight = 0U;
    uint k = states[state + kSampleTopK];
    if (k != 0U) {
      Wide all = total_mass(false);
      if (wide_less(Wide(k, 0U), all)) top_k = cut_at_mass(Wide(k, 0U), false);
    }
    if ((flags & kSampleTopP) != 0U) {
      Wide mass = total_mass(true);
      uint share = states[state + kSampleShare];
      // ceil(share * mass / 2^31)
      Wide low = wide_add(wide_product(share, mass.low), Wide(kOne - 1U, 0U));
      Wide high = wide_product(share, mass.high);
      Wide target = wide_add(wide_add(high, high), Wide(low.high << 1U | low.low >> 31U, low.high >> 31U));
      if (target.low == 0U && target.high == 0U) target.low = 1U;
      top_p = cut_at_mass(target, true);
    }
    least_weight = states[state + kSampleLeast];
    Wide mass = total_mass(true);
    uint position = positions[head_map[row]] + 1U;
    Words4 counter;
    counter.a = position;
    counter.b = 0U;
    counter.c = 0U;
    counter.d = 0U;
    Words4 words = philox(counter, states[state + kSampleSeed], states[state + kSampleSeed + 1U]);
    id = id_at(wide_multiply_high(Wide(words.a, words.b), mass), 0U, true);
  }
  if (own == 0U) {
    chosen[row] = id;
    if ((flags & kSamplePenalizes) != 0U) counts[slot * c.columns + id] += 1U;
  }
}
