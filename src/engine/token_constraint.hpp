#pragma once

#include <cstdint>
#include <span>
#include <thread>

#include <inferno/error.hpp>

#include "tokenizer/tokenizer.hpp"

namespace inferno {

/// Leaves a constraint's call before it is done, by way of ConstraintTurn. Not a fault, so no exception
/// class: who handles errors lets it pass.
struct TurnOver {};

/// The time that a constraint works in. Others share it.
class ConstraintTurn {
 public:
  ConstraintTurn() = default;
  virtual ~ConstraintTurn() = default;
  ConstraintTurn(const ConstraintTurn&) = delete;
  ConstraintTurn& operator=(const ConstraintTurn&) = delete;

  /// To be called every few microseconds of work. May let others go first. Throws TurnOver if nobody wants
  /// the answer any more, or if it takes too long for now.
  virtual void go_on() = 0;
  /// Lets others go first: for who waits for what another thread is working out. Throws the same.
  virtual void give_way() = 0;
};

/// All the time there is, shared with nobody.
class UnsharedTurn : public ConstraintTurn {
 public:
  void go_on() override {}
  void give_way() override { std::this_thread::yield(); }
};

/// What a request wants of its output is more work than is done for one: the request's own fault.
class ConstraintRefused : public UsageError {
 public:
  using UsageError::UsageError;
};

/// What a grammar allows next, asked once per token. The engine owns a reference; calls come one at a time,
/// each from whatever thread has room for it, in the order of the text: `allow`, then `accept` of what was
/// chosen, and so on. What they throw fails the request and no other. A call that TurnOver left comes again,
/// perhaps, and must find the constraint as it was before.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// Sets the bits of the ids that may come next (bit i % 32 of word i / 32). `allowed` is
  /// [ceil(vocabulary / 32)], all zero. Returns false if everything may come: the bits are then ignored. End
  /// tokens are ids like any other: allow them where the text may end.
  virtual bool allow(std::span<std::uint32_t> allowed, ConstraintTurn& turn) = 0;
  /// This id was chosen (end tokens too). Returns false if the text is complete with it: the request ends
  /// with `stop`.
  virtual bool accept(TokenId id, ConstraintTurn& turn) = 0;
};

}  // namespace inferno
