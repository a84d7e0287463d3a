#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "step/batch.hpp"
#include "step/result.hpp"

namespace inferno {

/// What an executor remembers of its latest submissions so that tokens can refer to what they chose: the
/// outputs' kinds from the submission on, the ids from its end on, also after the result was handed over.
class ReferenceMemory {
 public:
  /// Throws UsageError naming the token if a reference of `batch` names a ticket that is not remembered, an
  /// output that the ticket does not have, or one that is not of kind token.
  void check(const StepBatch& batch) const;

  /// A submission was made; tickets come in ascending order without gaps.
  void add(Ticket ticket, const StepBatch& batch);
  /// A submission ended: remembers the last id of every token output whose row ended ok.
  void finish(Ticket ticket, const StepBatch& batch, const StepResult& result);
  /// The id a reference stands for, or -1 if there is none: the row stopped, failed, was skipped or
  /// cancelled. The ticket has ended and is remembered.
  std::int32_t resolve(const TokenInput& reference) const;

  /// Drops what nobody can refer to any more: everything before `oldest`.
  void forget_before(Ticket oldest);
  void clear();

 private:
  struct Entry {
    std::vector<OutputKind> kinds;   // [O]
    std::vector<std::int32_t> last;  // [O]; -1: none
  };
  Entry* find(Ticket ticket);
  const Entry* find(Ticket ticket) const;

  Ticket first_ = 0;           // of entries_.front()
  std::deque<Entry> entries_;  // consecutive tickets
  std::vector<Entry> spare_;   // for their memory
};

}  // namespace inferno
