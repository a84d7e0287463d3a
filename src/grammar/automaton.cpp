#include "grammar/automaton.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

#include <inferno/error.hpp>

#include "grammar/text_machine.hpp"

namespace inferno::grammar {
namespace {

// Phases of the bottom.
constexpr std::uint8_t kNewlines = 0;  ///< a: how many may still come
constexpr std::uint8_t kValue = 1;     ///< a parent
constexpr std::uint8_t kEnd = 2;

// Phases of an object.
constexpr std::uint8_t kObjectStart = 0;
constexpr std::uint8_t kFirstKey = 1;  ///< behind "{"; a: the next property, b: space
constexpr std::uint8_t kNextKey = 2;   ///< behind ","; the same
constexpr std::uint8_t kInKey = 3;  ///< a: the range of keys, b: how much of the key has come, next property
constexpr std::uint8_t kOtherKey = 4;    ///< a parent: a key of none of the properties is being written
constexpr std::uint8_t kColon = 5;       ///< behind such a key
constexpr std::uint8_t kValueSpace = 6;  ///< behind a colon; a: the property being written, the next property
constexpr std::uint8_t kInValue = 7;     ///< a parent; the same
constexpr std::uint8_t kAfterValue = 8;  ///< a: the next property, b: space

// Phases of an array.
constexpr std::uint8_t kArrayStart = 0;
constexpr std::uint8_t kFirstItem = 1;  ///< behind "["; a: items, b: space
constexpr std::uint8_t kNextItem = 2;   ///< behind ","; the same
constexpr std::uint8_t kInItem = 3;     ///< a parent; a: items, this one too
constexpr std::uint8_t kAfterItem = 4;  ///< the same, b: space

/// Comparisons that cost about as much as a step.
constexpr std::size_t kComparedPerStep = 8;

constexpr std::uint32_t kOther = UINT32_MAX;  ///< as a property: none of those that are named

std::uint32_t high_of(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32U);
}
std::uint32_t low_of(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
std::uint64_t join(std::uint32_t high, std::uint32_t low) {
  return std::uint64_t{high} << 32U | low;
}

// Space between the parts of an object or array is nothing, or one blank, or a line feed and a few blanks:
// what json.dumps writes with any indent, and nothing that could go on for ever.
constexpr std::uint64_t kNoSpace = 0;
constexpr std::uint64_t kBlank = 1;
constexpr std::uint64_t kLine = 2;    ///< + blanks behind it
constexpr std::uint64_t kIndent = 4;  ///< most blanks for each level of nesting

constexpr std::uint64_t kBadSpace = UINT64_MAX;

std::uint64_t take_space(std::uint64_t space, std::uint32_t depth, std::uint8_t byte) {
  if (space == kNoSpace && byte == ' ') return kBlank;
  if (space == kNoSpace && byte == '\n') return kLine;
  if (space >= kLine && byte == ' ' && space < kLine + kIndent * depth) return space + 1;
  return kBadSpace;
}

Frame with(const Frame& frame, std::uint8_t phase, std::uint64_t a, std::uint64_t b) {
  auto next = frame;
  next.phase = phase;
  next.a = a;
  next.b = b;
  return next;
}

}  // namespace

bool Automaton::is_end(const Frame& frame) {
  return frame.machine == kRootMachine && frame.phase == kEnd;
}

void Automaton::begin(std::uint32_t newlines, FrameList& out) {
  out_ = &out;
  begin_ = out.size();
  const Frame root{.machine = kRootMachine, .phase = kValue};
  if (newlines > 0) emit(with(root, kNewlines, newlines, 0));
  enter(program_.root, root);
}

void Automaton::step(std::size_t from_begin, std::size_t from_end, std::uint8_t byte, FrameList& out) {
  out_ = &out;
  begin_ = out.size();
  for (auto i = from_begin; i < from_end; ++i) take(*out[i], byte);
}

void Automaton::step(std::span<const Frame* const> from, std::uint8_t byte, FrameList& out) {
  out_ = &out;
  begin_ = out.size();
  for (const auto* frame : from) take(*frame, byte);
}

void Automaton::take_marker(std::span<const Frame* const> from, const std::string& text, FrameList& out) {
  out_ = &out;
  begin_ = out.size();
  for (const auto* frame : from) {
    if (frame->machine == kRootMachine) continue;
    const auto& machine = program_.machines[frame->machine];
    if (machine.kind == MachineKind::marker && program_.markers[machine.index].text == text) done(*frame);
  }
}

void Automaton::leave(const Frame& frame, FrameList& out) {
  out_ = &out;
  begin_ = out.size();
  done(frame);
}

void Automaton::take(const Frame& frame, std::uint8_t byte) {
  meter_.spend(1);
  if (frame.machine == kRootMachine) return take_root(frame, byte);
  switch (program_.machines[frame.machine].kind) {
    case MachineKind::object:
      return take_object(frame, byte);
    case MachineKind::array:
      return take_array(frame, byte);
    case MachineKind::text:
      return take_text(frame, byte);
    case MachineKind::number:
      return take_number(frame, byte);
    case MachineKind::choice:
      return take_choice(frame, byte);
    case MachineKind::marker:
      return take_marker_byte(frame, byte);
    case MachineKind::sequence:
      break;  // only a parent
  }
}

void Automaton::take_root(const Frame& frame, std::uint8_t byte) {
  if (frame.phase != kNewlines || byte != '\n') return;
  if (frame.a > 1) emit(with(frame, kNewlines, frame.a - 1, 0));
  enter(program_.root, with(frame, kValue, 0, 0));
}

void Automaton::take_object(const Frame& frame, std::uint8_t byte) {
  const auto& object = program_.objects[program_.machines[frame.machine].index];
  switch (frame.phase) {
    case kObjectStart:
      if (byte == '{') emit(with(frame, kFirstKey, 0, kNoSpace));
      return;
    case kFirstKey:
    case kNextKey:
    case kAfterValue:
      return take_object_space(frame, object, byte);
    case kInKey:
      return take_object_key(frame, object, byte);
    case kColon:
      if (byte == ':') begin_object_value(frame, kOther);
      return;
    case kValueSpace: {
      if (byte != ' ') return;
      const auto property = high_of(frame.a);
      enter(property == kOther ? object.additional : object.properties[property].value,
            with(frame, kInValue, frame.a, 0));
      return;
    }
    default:
      return;  // only a parent
  }
}

/// Between the parts of an object: space, a comma, the next key or the end.
void Automaton::take_object_space(const Frame& frame, const ObjectMachine& object, std::uint8_t byte) {
  const auto next = static_cast<std::uint32_t>(frame.a);
  const bool closes = frame.phase != kNextKey && may_close(object, next) && frame.count >= object.least;
  if (byte == '}') {
    if (closes) done(frame);
  } else if (byte == ',') {
    if (frame.phase != kAfterValue || frame.b != kNoSpace) return;
    const auto keys = static_cast<std::uint32_t>(object.keys.size());
    if (may_add(object, frame, next) || has_key(object, frame, next, 0, keys))
      emit(with(frame, kNextKey, next, kNoSpace));
  } else if (byte == '"') {
    if (frame.phase != kAfterValue) begin_key(frame);
  } else if (frame.phase != kAfterValue || closes) {
    const auto space = take_space(frame.b, frame.depth, byte);
    if (space != kBadSpace) emit(with(frame, frame.phase, next, space));
  }
}

/// The quote before a key was taken.
void Automaton::begin_key(const Frame& frame) {
  const auto& object = program_.objects[program_.machines[frame.machine].index];
  const auto next = static_cast<std::uint32_t>(frame.a);
  const auto keys = static_cast<std::uint32_t>(object.keys.size());
  if (has_key(object, frame, next, 0, keys)) emit(with(frame, kInKey, join(keys, 0), join(1, next)));
  if (!may_add(object, frame, next)) return;
  const auto* parent = arena_.add(with(frame, kOtherKey, next, 0));
  const auto& text = program_.texts[program_.machines[object.other_key].index];
  const auto start = text_start(text);
  const auto opened = text_step(text, start, '"').next;
  emit({.machine = object.other_key,
        .depth = frame.depth,
        .parent_count = 1,
        .a = opened.a,
        .b = opened.b,
        .parents = arena_.add_parents({&parent, 1})});
}

void Automaton::take_object_key(const Frame& frame, const ObjectMachine& object, std::uint8_t byte) {
  const auto position = high_of(frame.b);
  const auto next = low_of(frame.b);
  const auto begin = object.keys.begin() + low_of(frame.a);
  const auto end = object.keys.begin() + high_of(frame.a);
  // Keys end in a colon behind a quote: none is the beginning of another.
  const auto first = std::lower_bound(begin, end, byte, [&](const std::string& key, std::uint8_t c) {
    return static_cast<std::uint8_t>(key[position]) < c;
  });
  const auto last = std::upper_bound(first, end, byte, [&](std::uint8_t c, const std::string& key) {
    return c < static_cast<std::uint8_t>(key[position]);
  });
  const auto low = static_cast<std::uint32_t>(first - object.keys.begin());
  const auto high = static_cast<std::uint32_t>(last - object.keys.begin());
  if (!has_key(object, frame, next, low, high)) return;
  if (high - low == 1 && position + 1 == first->size()) {
    begin_object_value(frame, object.key_property[low]);
  } else {
    emit(with(frame, kInKey, join(high, low), join(position + 1, next)));
  }
}

/// The colon was taken.
void Automaton::begin_object_value(const Frame& frame, std::uint32_t property) {
  const auto& object = program_.objects[program_.machines[frame.machine].index];
  const auto next = property == kOther ? static_cast<std::uint32_t>(object.properties.size()) : property + 1;
  auto counted = frame;
  // Without an upper bound nothing depends on the count beyond what must be there.
  if (object.counts())
    counted.count = object.most == kUnlimited ? std::min(frame.count + 1, object.least) : frame.count + 1;
  emit(with(counted, kValueSpace, join(property, next), 0));
  enter(property == kOther ? object.additional : object.properties[property].value,
        with(counted, kInValue, join(property, next), 0));
}

void Automaton::take_array(const Frame& frame, std::uint8_t byte) {
  const auto& array = program_.arrays[program_.machines[frame.machine].index];
  switch (frame.phase) {
    case kArrayStart:
      if (byte != '[') return;
      emit(with(frame, kFirstItem, 0, kNoSpace));
      return enter_item(frame, 0);
    case kFirstItem:
    case kNextItem:
    case kAfterItem:
      break;
    default:
      return;  // only a parent
  }
  const bool closes = frame.phase != kNextItem && item_count(array, frame.a) >= array.least;
  const bool has_more = item_at(array, frame.a, frame.depth) != kNone;
  if (byte == ']') {
    if (closes) done(frame);
  } else if (byte == ',') {
    if (frame.phase != kAfterItem || frame.b != kNoSpace || !has_more) return;
    emit(with(frame, kNextItem, frame.a, kNoSpace));
    enter_item(frame, frame.a);
  } else if (frame.phase != kAfterItem || closes) {
    const auto space = take_space(frame.b, frame.depth, byte);
    if (space == kBadSpace) return;
    emit(with(frame, frame.phase, frame.a, space));
    if (frame.phase != kAfterItem) enter_item(frame, frame.a);
  }
}

void Automaton::enter_item(const Frame& frame, std::uint64_t count) {
  const auto& array = program_.arrays[program_.machines[frame.machine].index];
  const auto item = item_at(array, count, frame.depth);
  if (item == kNone) return;
  if (!array.unique.empty()) {
    // `count` has a bit for each that has come.
    for (std::size_t i = 0; i < array.unique.size(); ++i) {
      const auto bit = std::uint64_t{1} << i;
      if ((count & bit) == 0) enter(array.unique[i], with(frame, kInItem, count | bit, 0));
    }
    return;
  }
  // Without an upper bound nothing depends on the count beyond what must be there.
  const auto counts = std::max<std::uint64_t>(array.least, array.prefix.size());
  const auto next = array.most == kUnlimited ? std::min(count + 1, counts) : count + 1;
  enter(item, with(frame, kInItem, next, 0));
}

void Automaton::take_text(const Frame& frame, std::uint8_t byte) {
  const auto& text = program_.texts[program_.machines[frame.machine].index];
  const auto step = text_step(text, {.a = frame.a, .b = frame.b}, byte);
  if (step.kind == TextMachineStep::Kind::fail) return;
  if (step.kind == TextMachineStep::Kind::closed) return done(frame);
  emit(with(frame, 0, step.next.a, step.next.b));
  if (text.form == TextForm::raw && raw_text_accepts(text, step.next)) done(frame);
}

void Automaton::take_number(const Frame& frame, std::uint8_t byte) {
  const auto& number = program_.numbers[program_.machines[frame.machine].index];
  const auto next = number.step({.a = frame.a, .b = frame.b}, byte);
  if (!next) return;
  emit(with(frame, 0, next->a, next->b));
  if (number.accepts(*next)) done(frame);
}

void Automaton::take_choice(const Frame& frame, std::uint8_t byte) {
  const auto& texts = program_.choices[program_.machines[frame.machine].index].texts;
  const auto position = frame.b;
  const auto char_of = [&](const std::string& text) {
    return position < text.size() ? static_cast<int>(static_cast<std::uint8_t>(text[position])) : -1;
  };
  const auto begin = texts.begin() + low_of(frame.a);
  const auto end = texts.begin() + high_of(frame.a);
  const auto first = std::lower_bound(begin, end, int{byte},
                                      [&](const std::string& text, int c) { return char_of(text) < c; });
  const auto last = std::upper_bound(first, end, int{byte},
                                     [&](int c, const std::string& text) { return c < char_of(text); });
  if (first == last) return;
  // Of texts that begin alike, the one that ends here comes first.
  const bool ends = first->size() == position + 1;
  if (last - first > (ends ? 1 : 0)) {
    emit(with(frame, 0,
              join(static_cast<std::uint32_t>(last - texts.begin()),
                   static_cast<std::uint32_t>(first - texts.begin())),
              position + 1));
  }
  if (ends) done(frame);
}

void Automaton::take_marker_byte(const Frame& frame, std::uint8_t byte) {
  const auto index = program_.machines[frame.machine].index;
  const auto& text = program_.markers[index].text;
  if (marker_is_token_[index] || static_cast<std::uint8_t>(text[frame.a]) != byte) return;
  if (frame.a + 1 == text.size()) return done(frame);
  emit(with(frame, 0, frame.a + 1, 0));
}

/// Begins a value, in all ways that leave room for its end.
void Automaton::enter(ValueId value, const Frame& parent_state) {
  const auto* parent = arena_.add(parent_state);
  const auto* const* parents = arena_.add_parents({&parent, 1});
  for (const auto id : program_.values[value].machines) {
    const auto& machine = program_.machines[id];
    const auto height = program_.machine_heights[id];
    if (height == kNone || parent->depth + height > kMaxNesting) continue;
    Frame frame{.machine = id, .depth = parent->depth, .phase = 0, .parent_count = 1, .parents = parents};
    switch (machine.kind) {
      case MachineKind::object:
      case MachineKind::array:
        ++frame.depth;
        emit(frame);
        break;
      case MachineKind::text: {
        const auto& text = program_.texts[machine.index];
        const auto start = text_start(text);
        frame.a = start.a;
        frame.b = start.b;
        emit(frame);
        if (text.form == TextForm::raw && raw_text_accepts(text, start)) done(frame);
        break;
      }
      case MachineKind::choice:
        frame.a = join(static_cast<std::uint32_t>(program_.choices[machine.index].texts.size()), 0);
        emit(frame);
        break;
      case MachineKind::number:
      case MachineKind::marker:
        emit(frame);
        break;
      case MachineKind::sequence:
        enter(program_.sequences[machine.index].items.front(), frame);
        break;
    }
  }
}

/// The machine of `frame` is done: its parents go on.
void Automaton::done(const Frame& frame) {
  for (const auto* parent : frame.above()) resume(*parent);
}

void Automaton::resume(const Frame& frame) {
  if (frame.machine == kRootMachine) return emit(with(frame, kEnd, 0, 0));
  const auto& machine = program_.machines[frame.machine];
  switch (machine.kind) {
    case MachineKind::object:
      if (frame.phase == kOtherKey) return emit(with(frame, kColon, 0, 0));
      return emit(with(frame, kAfterValue, low_of(frame.a), kNoSpace));
    case MachineKind::array:
      return emit(with(frame, kAfterItem, frame.a, kNoSpace));
    case MachineKind::sequence: {
      // a: the item that is done; one less than the first: the separator.
      const auto& sequence = program_.sequences[machine.index];
      const auto next = frame.a + 1;
      if (next < sequence.items.size()) return enter(sequence.items[next], with(frame, 0, next, 0));
      if (sequence.separator != kNone) enter(sequence.separator, with(frame, 0, UINT64_MAX, 0));
      return done(frame);
    }
    default:
      return;
  }
}

/// Adds a frame to the position; frames that are alike become one with the parents of both.
void Automaton::emit(const Frame& frame) {
  auto& out = *out_;
  meter_.spend(1 + (out.size() - begin_) / kComparedPerStep);
  for (auto i = begin_; i < out.size(); ++i) {
    if (!out[i]->alike(frame)) continue;
    FrameList parents(out[i]->above().begin(), out[i]->above().end());
    for (const auto* parent : frame.above()) {
      meter_.spend(1 + parents.size() / kComparedPerStep);
      if (std::find(parents.begin(), parents.end(), parent) == parents.end()) parents.push_back(parent);
    }
    if (parents.size() == out[i]->parent_count) return;
    auto merged = frame;
    merged.parent_count = static_cast<std::uint32_t>(parents.size());
    merged.parents = arena_.add_parents(parents);
    out[i] = arena_.add(merged);
    return;
  }
  if (out.size() - begin_ >= kMaxFrames)
    throw ConstraintRefused(
        fmt::format("the schema leaves more than {} ways to go on open at once; expected fewer alternatives "
                    "that can hold together",
                    kMaxFrames));
  out.push_back(arena_.add(frame));
}

/// Whether a value can be written where `depth` objects and arrays are open.
bool Automaton::fits(ValueId value, std::uint32_t depth) const {
  const auto height = value == kNone ? kNone : program_.value_heights[value];
  return height != kNone && depth + height <= kMaxNesting;
}

/// Whether some key from `low` to `high` may come where property `next` is the first that has not been
/// decided.
bool Automaton::has_key(const ObjectMachine& object, const Frame& frame, std::uint32_t next,
                        std::uint32_t low, std::uint32_t high) const {
  const auto end =
      std::min<std::size_t>(std::size_t{object.next_required[next]} + 1, object.properties.size());
  const auto last = counted_end(object, frame, next, static_cast<std::uint32_t>(end));
  const auto may_come = [&](std::uint32_t property) {
    return fits(object.properties[property].value, frame.depth) &&
           (object.most == kUnlimited ||
            std::uint64_t{frame.count} + 1 + object.required_left[property + 1] <= object.most);
  };
  if (high - low == object.keys.size()) {
    // In the properties' order: the first that may come is soon found.
    for (auto property = next; property < last; ++property) {
      if (may_come(property)) return true;
    }
    return false;
  }
  meter_.spend((high - low) / kComparedPerStep);
  for (auto key = low; key < high; ++key) {
    const auto property = object.key_property[key];
    if (property >= next && property < last && may_come(property)) return true;
  }
  return false;
}

/// Of the properties from `next` to `end`, those that may come first: the ones behind must be enough for what
/// must be there. Returns the end of these.
std::uint32_t Automaton::counted_end(const ObjectMachine& object, const Frame& frame, std::uint32_t next,
                                     std::uint32_t end) const {
  if (frame.count + 1 >= object.least) return end;
  const auto count = static_cast<std::uint32_t>(object.properties.size());
  meter_.spend((count - next) / kComparedPerStep);
  // Names that are not declared count as one, since one could come twice.
  auto behind = fits(object.additional, frame.depth) ? 1U : 0U;
  const auto needed = object.least - frame.count - 1;
  auto property = count;
  for (; property > next && behind < needed; --property)
    behind += fits(object.properties[property - 1].value, frame.depth) ? 1 : 0;
  return std::min(property, end);
}

bool Automaton::may_add(const ObjectMachine& object, const Frame& frame, std::uint32_t next) const {
  return may_close(object, next) && frame.count < object.most && frame.count + 1 >= object.least &&
         fits(object.additional, frame.depth);
}

bool Automaton::may_close(const ObjectMachine& object, std::uint32_t next) {
  return object.next_required[next] == object.properties.size();
}

/// How many items an array has, of what its frame knows.
std::uint64_t Automaton::item_count(const ArrayMachine& array, std::uint64_t state) {
  return array.unique.empty() ? state : static_cast<std::uint64_t>(std::popcount(state));
}

/// What the item behind `count` others is (of unique items: one of them); kNone: there can be none.
ValueId Automaton::item_at(const ArrayMachine& array, std::uint64_t count, std::uint32_t depth) const {
  if (array.most != kUnlimited && item_count(array, count) >= array.most) return kNone;
  if (!array.unique.empty()) {
    const auto next = static_cast<std::size_t>(std::countr_one(count));
    return next < array.unique.size() && fits(array.unique[next], depth) ? array.unique[next] : kNone;
  }
  const auto item = count < array.prefix.size() ? array.prefix[count] : array.items;
  return fits(item, depth) ? item : kNone;
}

}  // namespace inferno::grammar
