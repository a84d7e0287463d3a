#include "grammar/crowd.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/automaton.hpp"
#include "grammar/frames.hpp"
#include "grammar/text_machine.hpp"
#include "grammar/work_meter.hpp"

namespace inferno::grammar {
namespace {

constexpr std::size_t kMostBytes = 400;
/// Of the meter, each after some hundred steps: ten milliseconds in all.
constexpr int kMostLooks = 2000;

/// Of bytes that leave equally many ways open the first is taken: what leads on to other places.
constexpr std::string_view kFirstBetween = "{[\":,0}]";
constexpr std::string_view kFirstInText = "\"";

bool is_open_text(const Program& program, const Frame& frame) {
  return frame.machine != kRootMachine && program.machines[frame.machine].kind == MachineKind::text &&
         text_is_open({.a = frame.a, .b = frame.b});
}

bool is_pattern(const Program& program, const Frame& frame) {
  if (!is_open_text(program, frame)) return false;
  const auto& text = program.texts[program.machines[frame.machine].index];
  return !text_is_free(text) && !text_is_past_exceptions(text, {.a = frame.a, .b = frame.b});
}

/// The first of the innermost that have just begun: that is where they crowd.
MachineId example_of(const FrameList& position) {
  const Frame* found = nullptr;
  const auto rank = [](const Frame& frame) { return 2 * frame.depth + (frame.phase == 0 ? 1 : 0); };
  for (const auto* frame : position) {
    if (frame->machine != kRootMachine && (found == nullptr || rank(*frame) > rank(*found))) found = frame;
  }
  return found == nullptr ? kNone : found->machine;
}

/// A text says which objects and arrays are open and how far each is, so at any place there is one state of
/// a machine at most, or a few around the ends of values. Most schemas have too few machines to crowd.
bool cannot_crowd(const Program& program) {
  const auto patterns = std::count_if(program.texts.begin(), program.texts.end(),
                                      [](const TextMachine& text) { return !text_is_free(text); });
  return std::cmp_less_equal(patterns, kMostPatterns) && program.machines.size() <= kMaxFrames / 4;
}

class Probe {
 public:
  /// `backwards`: among bytes that are as good as each other, the last is taken.
  Probe(const Program& program, bool backwards)
      : program_(program),
        backwards_(backwards),
        markers_(program.markers.size(), false),
        automaton_(program, markers_, arena_, meter_) {}

  std::optional<Crowd> run() {
    FrameList position;
    try {
      automaton_.begin(0, position);
      for (std::size_t i = 0; i < kMostBytes && !position.empty(); ++i) {
        if (auto crowd = crowd_in(position)) return crowd;
        if (!go_on(position)) return std::nullopt;
      }
    } catch (const TurnOver&) {
      return std::nullopt;  // looked at enough
    } catch (const ConstraintRefused&) {
      return Crowd{
          .most = kMaxFrames, .of_patterns = false, .example = example_of(next_.empty() ? position : next_)};
    }
    return std::nullopt;
  }

 private:
  /// Ends the search when it has taken long enough.
  class Limit : public ConstraintTurn {
   public:
    void go_on() override {
      if (++looks_ > kMostLooks) throw TurnOver();
    }
    void give_way() override {}

   private:
    int looks_ = 0;
  };

  std::optional<Crowd> crowd_in(const FrameList& position) const {
    const auto open = std::count_if(position.begin(), position.end(),
                                    [&](const Frame* frame) { return is_pattern(program_, *frame); });
    if (std::cmp_less_equal(open, kMostPatterns)) return std::nullopt;
    const auto* first = *std::find_if(position.begin(), position.end(),
                                      [&](const Frame* frame) { return is_pattern(program_, *frame); });
    return Crowd{.most = kMostPatterns, .of_patterns = true, .example = first->machine};
  }

  /// By the byte that leaves most open; false if none is left.
  bool go_on(FrameList& position) {
    const bool in_text = std::any_of(position.begin(), position.end(),
                                     [&](const Frame* frame) { return is_open_text(program_, *frame); });
    std::size_t most = 0;
    std::uint8_t chosen = 0;
    const auto look_at = [&](std::uint8_t byte) {
      const ArenaReturn give_back(arena_);
      next_.clear();
      automaton_.step(position, byte, next_);
      if (next_.size() <= most) return;
      most = next_.size();
      chosen = byte;
    };
    for (const char c : in_text ? kFirstInText : kFirstBetween) look_at(static_cast<std::uint8_t>(c));
    for (unsigned byte = 0; byte < 256; ++byte)
      look_at(static_cast<std::uint8_t>(backwards_ ? 255 - byte : byte));
    if (most == 0) return false;
    next_.clear();
    automaton_.step(position, chosen, next_);
    position = std::exchange(next_, {});
    return true;
  }

  const Program& program_;
  bool backwards_;
  std::vector<bool> markers_;
  FrameArena arena_;
  Limit limit_;
  WorkMeter meter_{limit_, SIZE_MAX};
  Automaton automaton_;
  FrameList next_;  // being made
};

}  // namespace

std::optional<Crowd> find_crowd(const Program& program) {
  if (cannot_crowd(program)) return std::nullopt;
  if (auto crowd = Probe(program, false).run()) return crowd;
  return Probe(program, true).run();
}

}  // namespace inferno::grammar
