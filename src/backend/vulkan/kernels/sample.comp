#version 450
// How a token is chosen from its adjusted logits (adjust.comp), as sampling/sampler.hpp says and with the same
// integers: top-k, top-p, min-p, draw. A workgroup for each row, which goes over its logits a few times; an invocation
// asks for the next four before it looks at those it has. Once no more than kListed ids can still be chosen they are
// listed, in their order, and all that follows goes over the list.

#include "backend/gpu/kernel_constants.hpp"
#include "sampling/fixed_exp.hpp"
#include "sampling/philox.hpp"

#include "wide.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  SampleConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer Logits {
  vec4 logits[];  // [rows][stride / 4]
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
const uint kLanes = 32U;  // invocations that share a stretch
const uint kStretches = kThreads / kLanes;
const uint kStep = 4U * kThreads;  // ids of a four for each invocation
const uint kBins = 2048U;
const uint kBinsEach = kBins / kThreads;
const uint kListed = 512U;
const uint kKeyOfMinusInfinity = 0x007FFFFFU;
const uint kInfinity = 0x7F800000U;

shared uint low_bins[kBins];
shared uint high_bins[kBins];
shared uint low_sums[kThreads];
shared uint high_sums[kThreads];
shared uint low_totals[kStretches];  // of the sums of a stretch's invocations
shared uint high_totals[kStretches];
shared vec4 list_logits[kListed / 4U];
shared uint list_ids[kListed];
shared uint listed;
shared uint has_nan;
shared uint above_minus_infinity;  // how many ids
shared uint best_key;
shared uint best_id;

// A ranking by (key descending, id ascending) is cut: kept is what comes before.
struct Cut {
  uint key;
  uint last;  // id of the last one with that key
};

uint row_base;  // of logits
bool in_list;   // ids are places in the list from here on
uint ids;       // how many there are
float scale;
float best_value;
Cut top_k;
Cut top_p;
uint least_weight;

vec4 four_at(uint id) {
  uint at = min(id, ids - 1U) / 4U;
  return in_list ? list_logits[at] : logits[row_base + at];
}

bool cut_keeps(Cut cut, uint key, uint id) {
  return key > cut.key || (key == cut.key && id <= cut.last);
}

uint weight_at(uint key) {
  float distance = key == best_key ? 0.0 : subtract(best_value, value_of_key(key));
  return weight_of(distance, scale);
}

// The mass of an id: its weight or 1, 0 if it was filtered out.
uint mass_of(uint key, uint id, bool weighs) {
  if (key <= kKeyOfMinusInfinity || !cut_keeps(top_k, key, id) || !cut_keeps(top_p, key, id)) return 0U;
  if (!weighs) return 1U;
  uint weight = weight_at(key);
  return weight >= least_weight ? weight : 0U;
}

// Of ids below `end` with `only_key` (0: all).
Wide mass_at(float logit, uint id, uint end, uint only_key, bool weighs) {
  uint key = order_key(logit);
  if (id >= end || (only_key != 0U && key != only_key)) return Wide(0U, 0U);
  return Wide(mass_of(key, id, weighs), 0U);
}

Wide add_four(Wide sum, vec4 four, uint id, uint end, uint only_key, bool weighs) {
  sum = wide_add(sum, mass_at(four.x, id, end, only_key, weighs));
  sum = wide_add(sum, mass_at(four.y, id + 1U, end, only_key, weighs));
  sum = wide_add(sum, mass_at(four.z, id + 2U, end, only_key, weighs));
  return wide_add(sum, mass_at(four.w, id + 3U, end, only_key, weighs));
}

Wide sum_at(uint i) {
  return Wide(low_sums[i], high_sums[i]);
}

Wide total_at(uint stretch) {
  return Wide(low_totals[stretch], high_totals[stretch]);
}

Wide bin_at(uint i) {
  return Wide(low_bins[i], high_bins[i]);
}

// Each invocation's sum, for all to read, and the totals of stretches of invocations. The workgroup comes here together,
// and has read what it wanted of those before.
void share_sums(Wide sum) {
  uint own = gl_LocalInvocationID.x;
  low_sums[own] = sum.low;
  high_sums[own] = sum.high;
  barrier();
  if (own % kLanes == 0U) {
    Wide total = Wide(0U, 0U);
    for (uint i = 0U; i < kLanes; ++i) total = wide_add(total, sum_at(own + i));
    low_totals[own / kLanes] = total.low;
    high_totals[own / kLanes] = total.high;
  }
  barrier();
}

// Ids of a stretch of `ids` ids, in whole fours.
uint stretch_of(uint ids) {
  return (ids + 4U * kStretches - 1U) / (4U * kStretches) * 4U;
}

// The masses of ids [from, end): of each stretch, and of each invocation's fours in it, every kLanes-th.
void sum_stretches(uint from, uint end, uint only_key, bool weighs) {
  uint own = gl_LocalInvocationID.x;
  uint stretch = stretch_of(end - from);
  uint first = from + own / kLanes * stretch;
  end = min(first + stretch, end);
  const uint step = 4U * kLanes;
  Wide sum = Wide(0U, 0U);
  uint id = first + own % kLanes * 4U;
  vec4 next = four_at(id);
  for (; id < end; id += step) {
    vec4 four = next;
    next = four_at(id + step);
    sum = add_four(sum, four, id, end, only_key, weighs);
  }
  share_sums(sum);
}

// The id in whose mass `target` falls, ids with `only_key` (0: all) laid end to end; `target` is below the sum of them.
// `summed`: sum_stretches() has summed all of them up. Every invocation walks the same way.
uint id_at(Wide target, uint only_key, bool weighs, bool summed) {
  uint from = 0U;
  uint end = ids;
  uint stretch;
  uint found;
  do {
    if (!summed) sum_stretches(from, end, only_key, weighs);
    summed = false;
    stretch = stretch_of(end - from);
    found = 0U;
    while (found < kStretches - 1U && !wide_less(target, total_at(found))) {
      target = wide_subtract(target, total_at(found));
      ++found;
    }
    from += found * stretch;
    end = min(from + stretch, end);
    if (stretch > 4U * kLanes) barrier();
  } while (stretch > 4U * kLanes);
  // A four for each invocation of the stretch, and the id in it.
  uint lane = 0U;
  while (lane < kLanes - 1U && !wide_less(target, sum_at(found * kLanes + lane))) {
    target = wide_subtract(target, sum_at(found * kLanes + lane));
    ++lane;
  }
  uint id = from + 4U * lane;
  vec4 four = four_at(id);
  Wide first = mass_at(four.x, id, end, only_key, weighs);
  if (wide_less(target, first)) return id;
  target = wide_subtract(target, first);
  Wide second = mass_at(four.y, id + 1U, end, only_key, weighs);
  if (wide_less(target, second)) return id + 1U;
  target = wide_subtract(target, second);
  return wide_less(target, mass_at(four.z, id + 2U, end, only_key, weighs)) ? id + 2U : id + 3U;
}

// A digit of a key that is looked for: of keys that have `prefix` in their `known` bits.
struct Digit {
  uint prefix;
  uint known;
  uint shift;
  uint mask;
};

void put_in_bin(Digit digit, float logit, uint id, bool weighs) {
  uint key = order_key(logit);
  if (id >= ids || ((key ^ digit.prefix) & digit.known) != 0U) return;
  uint mass = mass_of(key, id, weighs);
  if (mass == 0U) return;
  uint bin = key >> digit.shift & digit.mask;
  uint before = atomicAdd(low_bins[bin], mass);
  if (before + mass < before) atomicAdd(high_bins[bin], 1U);
}

void put_four_in_bins(Digit digit, vec4 four, uint id, bool weighs) {
  put_in_bin(digit, four.x, id, weighs);
  put_in_bin(digit, four.y, id + 1U, weighs);
  put_in_bin(digit, four.z, id + 2U, weighs);
  put_in_bin(digit, four.w, id + 3U, weighs);
}

void list_id(float logit, uint id, uint least_key) {
  uint key = order_key(logit);
  if (id >= ids || key < least_key || mass_of(key, id, false) == 0U) return;
  uint at = atomicAdd(listed, 1U);
  if (at >= kListed) return;
  low_bins[at] = id;
  high_bins[at] = float_bits(logit);
}

void list_four(vec4 four, uint id, uint least_key) {
  list_id(four.x, id, least_key);
  list_id(four.y, id + 1U, least_key);
  list_id(four.z, id + 2U, least_key);
  list_id(four.w, id + 3U, least_key);
}

// Goes on with a list of the ids that are left and have keys from `least_key` on, unless they are too many.
void list_from(uint least_key) {
  uint own = gl_LocalInvocationID.x;
  if (own == 0U) listed = 0U;
  barrier();
  vec4 next = four_at(4U * own);
  for (uint id = 4U * own; id < ids; id += kStep) {
    vec4 four = next;
    next = four_at(id + kStep);
    list_four(four, id, least_key);
  }
  barrier();
  if (listed > kListed) return;
  // They came as it happened.
  for (uint i = own; i < listed; i += kThreads) {
    uint id = low_bins[i];
    uint place = 0U;
    for (uint j = 0U; j < listed; ++j) place += low_bins[j] < id ? 1U : 0U;
    list_ids[place] = id;
    list_logits[place / 4U][place % 4U] = float_from_bits(high_bins[i]);
  }
  barrier();
  ids = listed;
  in_list = true;
  top_k = Cut(0U, 0xFFFFFFFFU);
}

// The shortest prefix of the ranking whose masses come to `target`: the key of its last id, and in `target` what is left
// for ids with that key (sampling/select.hpp, digit by digit).
uint key_at_mass(inout Wide target, bool weighs) {
  uint own = gl_LocalInvocationID.x;
  Digit digit = Digit(0U, 0U, 21U, 2047U);
  for (uint number = 0U; number < 3U; ++number) {
    barrier();
    for (uint i = own; i < kBins; i += kThreads) {
      low_bins[i] = 0U;
      high_bins[i] = 0U;
    }
    barrier();
    vec4 next = four_at(4U * own);
    for (uint id = 4U * own; id < ids; id += kStep) {
      vec4 four = next;
      next = four_at(id + kStep);
      put_four_in_bins(digit, four, id, weighs);
    }
    barrier();
    Wide sum = Wide(0U, 0U);
    for (uint i = own * kBinsEach; i < (own + 1U) * kBinsEach; ++i) sum = wide_add(sum, bin_at(i));
    share_sums(sum);
    uint stretch = kStretches - 1U;
    while (stretch > 0U && wide_less(total_at(stretch), target)) {
      target = wide_subtract(target, total_at(stretch));
      --stretch;
    }
    uint i = stretch * kLanes + kLanes - 1U;
    while (i > stretch * kLanes && wide_less(sum_at(i), target)) {
      target = wide_subtract(target, sum_at(i));
      --i;
    }
    uint bin = i * kBinsEach + kBinsEach - 1U;
    while (bin > i * kBinsEach && wide_less(bin_at(bin), target)) {
      target = wide_subtract(target, bin_at(bin));
      --bin;
    }
    digit.prefix |= bin << digit.shift;
    digit.known |= digit.mask << digit.shift;
    digit.shift = number == 0U ? 10U : 0U;
    digit.mask = number == 0U ? 2047U : 1023U;
    if (number == 0U && !in_list) list_from(digit.prefix);
  }
  barrier();
  return digit.prefix;
}

// What an invocation has seen of the logits.
struct Seen {
  uint key;  // the largest, of its first id
  uint id;
  uint above;  // ids above -infinity
  bool nan;
};

void see(inout Seen seen, float logit, uint id) {
  if (id >= ids) return;
  uint key = order_key(logit);
  if ((float_bits(logit) & 0x7FFFFFFFU) > kInfinity) seen.nan = true;
  if (key > kKeyOfMinusInfinity) ++seen.above;
  if (key > seen.key) {
    seen.key = key;
    seen.id = id;
  }
}

void see_four(inout Seen seen, vec4 four, uint id) {
  see(seen, four.x, id);
  see(seen, four.y, id + 1U);
  see(seen, four.z, id + 2U);
  see(seen, four.w, id + 3U);
}

// The largest logit and the lowest id that has it, how many are above -infinity, and whether there is a NaN, to all.
void look_at_all() {
  uint own = gl_LocalInvocationID.x;
  if (own == 0U) {
    has_nan = 0U;
    above_minus_infinity = 0U;
  }
  Seen seen = Seen(kKeyOfMinusInfinity, 0xFFFFFFFFU, 0U, false);
  vec4 next = four_at(4U * own);
  for (uint id = 4U * own; id < ids; id += kStep) {
    vec4 four = next;
    next = four_at(id + kStep);
    see_four(seen, four, id);
  }
  low_sums[own] = seen.key;
  high_sums[own] = seen.id;
  barrier();
  if (seen.nan) atomicOr(has_nan, 1U);
  atomicAdd(above_minus_infinity, seen.above);
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

// The sum of what sum_stretches() summed up.
Wide total_mass() {
  Wide sum = Wide(0U, 0U);
  for (uint i = 0U; i < kStretches; ++i) sum = wide_add(sum, total_at(i));
  return sum;
}

// ceil(share * mass / 2^31), but at least 1.
Wide share_of(uint share, Wide mass) {
  Wide low = wide_add(wide_product(share, mass.low), Wide(kOne - 1U, 0U));
  Wide high = wide_product(share, mass.high);
  Wide target = wide_add(wide_add(high, high), Wide(low.high << 1U | low.low >> 31U, low.high >> 31U));
  if (target.low == 0U && target.high == 0U) target.low = 1U;
  return target;
}

// Where in the mass the draw falls.
Wide draw(uint row, uint state, Wide mass) {
  Words4 counter;
  counter.a = positions[head_map[row]] + 1U;
  counter.b = 0U;
  counter.c = 0U;
  counter.d = 0U;
  Words4 words = philox(counter, states[state + kSampleSeed], states[state + kSampleSeed + 1U]);
  return wide_multiply_high(Wide(words.a, words.b), mass);
}

const uint kTopK = 0U;
const uint kTopP = 1U;
const uint kDraw = 2U;

uint draw_id(uint row, uint state, uint flags) {
  scale = float_from_bits(states[state + kSampleScale]);
  best_value = value_of_key(best_key);
  top_k = Cut(0U, 0xFFFFFFFFU);
  top_p = Cut(0U, 0xFFFFFFFFU);
  least_weight = 0U;
  uint k = states[state + kSampleTopK];
  uint id = 0U;
  // In a loop, so that what is long stands in the code once.
  for (uint part = kTopK; part <= kDraw; ++part) {
    if (part == kTopK && (k == 0U || k >= above_minus_infinity)) continue;
    if (part == kTopP && (flags & kSampleTopP) == 0U) continue;
    bool weighs = part != kTopK;
    if (part == kDraw) least_weight = states[state + kSampleLeast];
    Wide target = Wide(k, 0U);
    if (weighs) {
      sum_stretches(0U, ids, 0U, true);
      Wide mass = total_mass();
      target = part == kTopP ? share_of(states[state + kSampleShare], mass) : draw(row, state, mass);
    }
    uint key = 0U;
    if (part != kDraw) {
      key = key_at_mass(target, weighs);
      // Of equal keys the lower ids, as far as the target reaches: the id in whose mass unit target - 1 lies.
      target = wide_subtract(target, Wide(1U, 0U));
    }
    id = id_at(target, key, weighs, part == kDraw);
    if (part == kTopK) top_k = Cut(key, id);
    if (part == kTopP) top_p = Cut(key, id);
    barrier();
  }
  return in_list ? list_ids[id] : id;
}

void main() {
  uint row = gl_WorkGroupID.x;
  uint state = row * kSampleWords;
  uint flags = states[state + kSampleFlags];
  if ((flags & kSampleHere) == 0U) return;  // argmax has chosen
  row_base = row * (c.stride / 4U);
  in_list = false;
  ids = c.columns;
  look_at_all();
  bool dry = has_nan != 0U || best_id == 0xFFFFFFFFU;
  uint id = best_id;
  if (!dry && (flags & kSampleDraws) != 0U) id = draw_id(row, state, flags);
  if (gl_LocalInvocationID.x != 0U) return;
  chosen[row] = dry ? kNothingChosen : id;
  if (!dry && (flags & kSamplePenalizes) != 0U) counts[states[state + kSampleSlot] * c.columns + id] += 1U;
}
