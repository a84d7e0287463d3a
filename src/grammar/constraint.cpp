#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <utility>

#include "grammar/automaton.hpp"
#include "grammar/compiled_grammar.hpp"
#include "grammar/grammar.hpp"
#include "grammar/mask_maker.hpp"
#include "grammar/vocabulary.hpp"
#include "platform/quote.hpp"

namespace inferno::grammar {
namespace {

constexpr std::string_view kThinkBegin = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCallBegin = "<tool_call>";
/// The template's own answers have two.
constexpr std::uint32_t kNewlinesAfterThoughts = 2;

class GrammarConstraint : public TokenConstraint {
 public:
  GrammarConstraint(std::shared_ptr<const Grammar> grammar,
                    const std::shared_ptr<const Vocabulary>& vocabulary, const ConstraintOptions& options)
      : grammar_(std::move(grammar)),
        masks_(grammar_->masks(vocabulary)),
        think_begin_(vocabulary->added(kThinkBegin)),
        think_end_(vocabulary->added(kThinkEnd)) {
    switch (options.thinking) {
      case Thinking::none:
        break;
      case Thinking::allowed:
        state_ = think_begin_ && think_end_ ? State::first_token : State::text;
        break;
      case Thinking::begun:
        if (!think_end_)
          throw UsageError(
              "the prompt begins thoughts, but the vocabulary has no token </think> to end them");
        state_ = State::thoughts;
        break;
    }
    if (state_ == State::thoughts) return;
    UnsharedTurn turn;
    begin(0, turn);
  }

  bool allow(std::span<std::uint32_t> allowed, ConstraintTurn& turn) override {
    const auto& vocabulary = masks_->vocabulary();
    if (allowed.size() != vocabulary.words()) {
      throw UsageError(fmt::format("a mask of {} words; expected {} for {} tokens", allowed.size(),
                                   vocabulary.words(), vocabulary.rows()));
    }
    if (state_ == State::thoughts) {
      vocabulary.all_but_ends().add_to(allowed);
      return true;
    }
    WorkMeter meter(turn);
    masks_->add_allowed(position_, *arena_, allowed, meter);
    if (may_end(position_)) {
      for (const auto id : vocabulary.end_tokens()) set_bit(allowed, static_cast<std::uint32_t>(id));
    }
    if (state_ == State::first_token) set_bit(allowed, static_cast<std::uint32_t>(*think_begin_));
    if (std::all_of(allowed.begin(), allowed.end(), [](std::uint32_t word) { return word == 0; }))
      throw Error("no token of the vocabulary can go on with the text");
    return true;
  }

  bool accept(TokenId id, ConstraintTurn& turn) override {
    if (state_ == State::thoughts) {
      if (id == *think_end_) begin(kNewlinesAfterThoughts, turn);
      return true;
    }
    if (state_ == State::first_token && id == *think_begin_) {
      state_ = State::thoughts;
      return true;
    }
    if (masks_->vocabulary().is_end(id)) {
      if (!may_end(position_)) throw Error("the text ended where it may not");
      return false;
    }
    return take(id, turn);
  }

 private:
  enum class State : std::uint8_t { first_token, thoughts, text };

  static constexpr std::size_t kCompactBytes = std::size_t{1} << 17U;

  Automaton automaton(WorkMeter& meter) {
    return {grammar_->program(), masks_->marker_is_token(), *arena_, meter};
  }

  /// Nothing changes if this throws; the same holds for `take`.
  void begin(std::uint32_t newlines, ConstraintTurn& turn) {
    WorkMeter meter(turn);
    ArenaReturn give_back(*arena_);
    FrameList first;
    automaton(meter).begin(newlines, first);
    give_back.stay();
    position_ = std::move(first);
    if (state_ == State::thoughts) state_ = State::text;
  }

  static bool may_end(const FrameList& position) {
    return std::any_of(position.begin(), position.end(),
                       [](const Frame* frame) { return Automaton::is_end(*frame); });
  }

  /// Whether anything but the end can follow: asked only where the end can.
  bool may_go_on(const FrameList& position, Automaton& automaton) {
    const auto& program = grammar_->program();
    const auto waits_for_token = [&](const Frame* frame) {
      return frame->machine != kRootMachine && program.machines[frame->machine].kind == MachineKind::marker;
    };
    if (std::any_of(position.begin(), position.end(), waits_for_token)) return true;
    if (std::all_of(position.begin(), position.end(),
                    [](const Frame* frame) { return Automaton::is_end(*frame); }))
      return false;
    const ArenaReturn give_back(*arena_);
    FrameList next;
    for (unsigned byte = 0; byte < 256 && next.empty(); ++byte)
      automaton.step(position, static_cast<std::uint8_t>(byte), next);
    return !next.empty();
  }

  /// Whether anything but the end can follow.
  bool take(TokenId id, ConstraintTurn& turn) {
    const auto& vocabulary = masks_->vocabulary();
    WorkMeter meter(turn);
    ArenaReturn give_back(*arena_);
    auto automaton = this->automaton(meter);
    FrameList next;
    if (const auto* name = vocabulary.added_name(id)) {
      automaton.take_marker(position_, *name, next);
    } else {
      const auto bytes = vocabulary.bytes(id);
      next = bytes.empty() ? FrameList{} : position_;
      for (const auto byte : bytes) {
        FrameList before;
        before.swap(next);
        automaton.step(before, static_cast<std::uint8_t>(byte), next);
        if (next.empty()) break;
      }
    }
    if (next.empty()) {
      throw Error(
          fmt::format("token {} ({}) does not go on with the text", id, quote(vocabulary.bytes(id), 40)));
    }
    const bool goes_on = !may_end(next) || may_go_on(next, automaton);
    give_back.stay();
    position_ = std::move(next);
    state_ = State::text;
    compact();
    return goes_on;
  }

  void compact() {
    if (arena_->used() < compact_at_) return;
    // Most of it is of bytes long gone.
    auto fresh = std::make_unique<FrameArena>();
    position_ = copy_frames(position_, *fresh);
    arena_ = std::move(fresh);
    compact_at_ = kCompactBytes + 2 * arena_->used();
  }

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<MaskMaker> masks_;
  std::optional<TokenId> think_begin_;
  std::optional<TokenId> think_end_;
  State state_ = State::text;
  std::unique_ptr<FrameArena> arena_ = std::make_unique<FrameArena>();
  std::size_t compact_at_ = kCompactBytes;
  FrameList position_;
};

/// Lets everything come until a call begins; then the call's own constraint decides.
class CallsConstraint : public TokenConstraint {
 public:
  CallsConstraint(std::shared_ptr<const Grammar> call, std::shared_ptr<const Vocabulary> vocabulary,
                  bool single, const ConstraintOptions& options)
      : call_(std::move(call)),
        vocabulary_(std::move(vocabulary)),
        single_(single),
        thinks_(options.thinking == Thinking::begun) {
    if (!vocabulary_->added(kCallBegin)) {
      throw UsageError(
          fmt::format("the vocabulary has no token {}, so that calls cannot be told from text while they are "
                      "written",
                      kCallBegin));
    }
  }

  bool allow(std::span<std::uint32_t> allowed, ConstraintTurn& turn) override {
    return current_ && current_->allow(allowed, turn);
  }

  bool accept(TokenId id, ConstraintTurn& turn) override {
    if (!current_) return note(id, turn);
    if (current_->accept(id, turn)) return true;
    current_.reset();
    return !single_;
  }

 private:
  /// Outside of a call.
  bool note(TokenId id, ConstraintTurn& turn) {
    const auto* name = vocabulary_->added_name(id);
    if (name == nullptr) return true;
    if (*name == kThinkBegin) thinks_ = true;
    if (*name == kThinkEnd) thinks_ = false;
    if (*name != kCallBegin || thinks_) return true;
    auto next = std::make_unique<GrammarConstraint>(call_, vocabulary_, ConstraintOptions{});
    if (next->accept(id, turn)) current_ = std::move(next);
    return true;
  }

  std::shared_ptr<const Grammar> call_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  bool single_;
  bool thinks_;
  std::unique_ptr<TokenConstraint> current_;  ///< of the call that is being written
};

}  // namespace

std::shared_ptr<TokenConstraint> constrain_calls(std::shared_ptr<const Grammar> call,
                                                 std::shared_ptr<const Vocabulary> vocabulary, bool single,
                                                 const ConstraintOptions& options) {
  return std::make_shared<CallsConstraint>(std::move(call), std::move(vocabulary), single, options);
}

std::shared_ptr<TokenConstraint> constrain(std::shared_ptr<const Grammar> grammar,
                                           const std::shared_ptr<const Vocabulary>& vocabulary,
                                           const ConstraintOptions& options) {
  return std::make_shared<GrammarConstraint>(std::move(grammar), vocabulary, options);
}

}  // namespace inferno::grammar
