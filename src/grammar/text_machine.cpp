#include "grammar/text_machine.hpp"

#include <algorithm>

namespace inferno::grammar {
namespace {

/// An excepted text that this one can no longer become.
constexpr std::uint64_t kDiverged = UINT64_MAX;

// a: scan in the low half; the pattern's state, or the length so far of a text with exceptions, in the high.
// b: the length so far; of a text with exceptions: the range of those it could become, or kDiverged.

TextScan scan_of(const TextState& at) {
  return TextScan::from_bits(static_cast<std::uint32_t>(at.a));
}
std::uint32_t high_of(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32U);
}
std::uint32_t low_of(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
std::uint64_t join(std::uint32_t high, std::uint32_t low) {
  return std::uint64_t{high} << 32U | low;
}

/// With one more character: false if no text goes on so.
bool take_pattern(const TextMachine& machine, TextState& at, char32_t c) {
  const auto& dfa = *machine.pattern;
  const auto next = dfa.next(high_of(at.a), c);
  if (next == PatternDfa::kDead || !dfa.can_end_within(next, low_of(at.b) + 1)) return false;
  at.a = join(next, low_of(at.a));
  ++at.b;
  return true;
}

void take_except(const TextMachine& machine, TextState& at, char32_t c) {
  if (at.b == kDiverged) return;
  const auto& texts = *machine.except;
  const auto position = high_of(at.a);
  const auto begin = texts.begin() + low_of(at.b);
  const auto end = texts.begin() + high_of(at.b);
  // -1: ended already, before every character.
  const auto char_of = [&](const std::u32string& text) -> std::int64_t {
    return position < text.size() ? static_cast<std::int64_t>(text[position]) : -1;
  };
  const auto first = std::lower_bound(begin, end, std::int64_t{c},
                                      [&](const auto& text, std::int64_t x) { return char_of(text) < x; });
  const auto last = std::upper_bound(first, end, std::int64_t{c},
                                     [&](std::int64_t x, const auto& text) { return x < char_of(text); });
  if (first == last) {
    at.b = kDiverged;
    at.a = low_of(at.a);
    return;
  }
  at.b = join(static_cast<std::uint32_t>(last - texts.begin()),
              static_cast<std::uint32_t>(first - texts.begin()));
  at.a = join(position + 1, low_of(at.a));
}

bool may_close(const TextMachine& machine, const TextState& at) {
  if (machine.pattern)
    return machine.pattern->accepts(high_of(at.a)) && machine.pattern->length_fits(low_of(at.b));
  if (machine.except) return at.b == kDiverged || (*machine.except)[low_of(at.b)].size() != high_of(at.a);
  return at.b >= machine.least;
}

/// Whether a character between these can come next.
bool may_take(const TextMachine& machine, const TextState& at, char32_t first, char32_t last) {
  if (!machine.pattern) return machine.except || at.b < machine.most;
  const auto state = high_of(at.a);
  if (!machine.pattern->follow(state).intersects(first, last)) return false;
  if (machine.pattern->least() == 0 && machine.pattern->most() == PatternDfa::kUnlimited) return true;
  // Lengths may rule out what the pattern alone would take.
  for (const auto& range : machine.pattern->follow(state).ranges()) {
    if (range.first > last) break;
    if (range.last < first) continue;
    auto c = std::max(first, range.first);
    const auto end = std::min(last, range.last);
    while (true) {
      const auto next = machine.pattern->next(state, c);
      if (next != PatternDfa::kDead && machine.pattern->can_end_within(next, low_of(at.b) + 1)) return true;
      const auto alike = machine.pattern->last_alike(c);
      if (alike >= end) break;
      c = alike + 1;
    }
  }
  return false;
}

bool may_escape(const TextMachine& machine, const TextState& at) {
  if (!machine.pattern) return machine.except || at.b < machine.most;
  return may_take(machine, at, 0, 0x1F) || may_take(machine, at, '"', '"') ||
         may_take(machine, at, '\\', '\\');
}

}  // namespace

TextState text_start(const TextMachine& machine) {
  const TextScan scan(machine.form == TextForm::raw ? TextScan::Phase::content : TextScan::Phase::open);
  TextState state{.a = scan.bits(), .b = 0};
  if (machine.pattern) state.a = join(machine.pattern->start(), scan.bits());
  if (machine.except) {
    const auto count = static_cast<std::uint32_t>(machine.except->size());
    state.b = count == 0 ? kDiverged : join(count, 0);
  }
  return state;
}

TextMachineStep text_step(const TextMachine& machine, const TextState& at, std::uint8_t byte) {
  using Kind = TextMachineStep::Kind;
  const auto step = scan_text(machine.form, scan_of(at), byte);
  auto next = at;
  next.a = join(high_of(at.a), step.next.bits());
  switch (step.kind) {
    case TextStep::Kind::fail:
      return {};
    case TextStep::Kind::opened:
      break;
    case TextStep::Kind::closed:
      return may_close(machine, at) ? TextMachineStep{.kind = Kind::closed} : TextMachineStep{};
    case TextStep::Kind::partial:
      if (!may_take(machine, at, step.first, step.last)) return {};
      break;
    case TextStep::Kind::escape:
      if (!may_escape(machine, at)) return {};
      break;
    case TextStep::Kind::character:
      if (machine.pattern) {
        if (!take_pattern(machine, next, step.first)) return {};
      } else if (machine.except) {
        take_except(machine, next, step.first);
      } else {
        if (at.b >= machine.most) return {};
        // Beyond both bounds nothing depends on the length any more.
        if (at.b < machine.least || machine.most != kUnlimited) ++next.b;
      }
      break;
  }
  return {.kind = Kind::inside, .next = next};
}

bool raw_text_accepts(const TextMachine& machine, const TextState& at) {
  return scan_of(at).phase() == TextScan::Phase::content && may_close(machine, at);
}

TextState text_seen_from(const TextMachine& machine, const TextState& at, std::uint32_t horizon) {
  if (machine.except) return at;
  auto least = machine.least;
  auto most = machine.most;
  if (machine.pattern) {
    least = machine.pattern->least();
    most = machine.pattern->most();
  }
  const auto length = low_of(at.b);
  const auto needed = length < least ? std::min(least - length, horizon) : 0;
  const auto room = most == kUnlimited ? horizon : std::min(most - length, horizon);
  if (machine.pattern && (least != 0 || most != kUnlimited)) {
    // What a pattern can still become depends on the exact lengths, unless the end is far away.
    const bool long_way =
        length >= least && (most == kUnlimited || most - length > horizon + machine.pattern->farthest_end());
    return {.a = at.a, .b = long_way ? join(1, 0) : length};
  }
  return {.a = at.a, .b = join(needed, room)};
}

bool text_is_open(const TextState& at) {
  return scan_of(at).phase() != TextScan::Phase::open;
}

bool text_is_past_exceptions(const TextMachine& machine, const TextState& at) {
  return machine.except != nullptr && at.b == kDiverged;
}

bool text_is_free(const TextMachine& machine) {
  return machine.form != TextForm::raw && !machine.pattern && !machine.except;
}

}  // namespace inferno::grammar
