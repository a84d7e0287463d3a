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
    if (state_ != State::thoughts) begin(0);
  }

  bool allow(std::span<std::uint32_t> allowed) override {
    const auto& vocabulary = masks_->vocabulary();
    if (allowed.size() != vocabulary.words()) {
      throw UsageError(fmt::format("a mask of {} words; expected {} for {} tokens", allowed.size(),
                                   vocabulary.words(), vocabulary.rows()));
    }
    if (state_ == State::thoughts) {
      vocabulary.all_but_ends().add_to(allowed);
      return true;
    }
    masks_->add_allowed(position_, *arena_, allowed);
    if (may_end()) {
      for (const auto id : vocabulary.end_tokens()) set_bit(allowed, static_cast<std::uint32_t>(id));
    }
    if (state_ == State::first_token) set_bit(allowed, static_cast<std::uint32_t>(*think_begin_));
    if (std::all_of(allowed.begin(), allowed.end(), [](std::uint32_t word) { return word == 0; }))
      throw Error("no token of the vocabulary can go on with the text");
    return true;
  }

  bool accept(TokenId id) override {
    if (state_ == State::thoughts) {
      if (id != *think_end_) return true;
      state_ = State::text;
      begin(kNewlinesAfterThoughts);
      return true;
    }
    if (state_ == State::first_token) {
      state_ = State::text;
      if (id == *think_begin_) {
        state_ = State::thoughts;
        return true;
      }
    }
    const auto& vocabulary = masks_->vocabulary();
    if (vocabulary.is_end(id)) {
      if (!may_end()) throw Error("the text ended where it may not");
      return false;
    }
    take(id);
    return !may_end() || may_go_on();
  }

 private:
  enum class State : std::uint8_t { first_token, thoughts, text };

  static constexpr std::size_t kCompactBytes = std::size_t{1} << 17U;

  Automaton automaton() { return {grammar_->program(), masks_->marker_is_token(), *arena_}; }

  void begin(std::uint32_t newlines) {
    position_.clear();
    automaton().begin(newlines, position_);
  }

  bool may_end() const {
    return std::any_of(position_.begin(), position_.end(),
                       [](const Frame* frame) { return Automaton::is_end(*frame); });
  }

  /// Whether anything but the end can follow: asked only where the end can.
  bool may_go_on() {
    const auto& program = grammar_->program();
    const auto waits_for_token = [&](const Frame* frame) {
      return frame->machine != kRootMachine && program.machines[frame->machine].kind == MachineKind::marker;
    };
    if (std::any_of(position_.begin(), position_.end(), waits_for_token)) return true;
    if (std::all_of(position_.begin(), position_.end(),
                    [](const Frame* frame) { return Automaton::is_end(*frame); }))
      return false;
    const auto mark = arena_->mark();
    auto automaton = this->automaton();
    FrameList next;
    for (unsigned byte = 0; byte < 256 && next.empty(); ++byte)
      automaton.step(position_, static_cast<std::uint8_t>(byte), next);
    arena_->release(mark);
    return !next.empty();
  }

  void take(TokenId id) {
    const auto& vocabulary = masks_->vocabulary();
    auto automaton = this->automaton();
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
    position_ = std::move(next);
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

}  // namespace

std::shared_ptr<TokenConstraint> constrain(std::shared_ptr<const Grammar> grammar,
                                           const std::shared_ptr<const Vocabulary>& vocabulary,
                                           const ConstraintOptions& options) {
  return std::make_shared<GrammarConstraint>(std::move(grammar), vocabulary, options);
}

}  // namespace inferno::grammar
