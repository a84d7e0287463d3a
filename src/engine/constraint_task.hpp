#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/token_constraint.hpp"

namespace inferno {

/// What a request's constraint is asked before each token, and its answer. The serving loop fills in the
/// question and has the task to itself until it hands it on, and again from the answer on.
struct ConstraintTask {
  std::uint64_t request = 0;  ///< its id
  std::shared_ptr<TokenConstraint> constraint;
  std::size_t mask_words = 0;

  /// The question: what may come behind this token; nullopt: what may come first.
  std::optional<TokenId> chosen;
  std::uint64_t round = 0;  ///< of the loop, in which it was asked

  enum class Answer : std::uint8_t { tokens, complete, failed, refused };
  Answer answer = Answer::tokens;
  std::vector<std::uint32_t> allowed;  ///< `tokens`: their bits; empty: all
  std::string error;                   ///< `failed` and `refused`: one line

  /// Set by the loop when the request is over, whoever has the task.
  std::atomic<bool> abandoned = false;

  /// Works the answer out. What the constraint throws becomes the answer; TurnOver passes, and work goes on
  /// where it was when this is called again.
  void work(ConstraintTurn& turn);
};

/// A request's task; abandons it when the request ends.
class ConstraintTaskHolder {
 public:
  ConstraintTaskHolder() = default;
  ~ConstraintTaskHolder() {
    if (task_) task_->abandoned = true;
  }
  ConstraintTaskHolder(const ConstraintTaskHolder&) = delete;
  ConstraintTaskHolder& operator=(const ConstraintTaskHolder&) = delete;

  void hold(std::shared_ptr<ConstraintTask> task) { task_ = std::move(task); }
  const std::shared_ptr<ConstraintTask>& get() const { return task_; }
  ConstraintTask* operator->() const { return task_.get(); }
  ConstraintTask& operator*() const { return *task_; }
  explicit operator bool() const { return task_ != nullptr; }

 private:
  std::shared_ptr<ConstraintTask> task_;
};

}  // namespace inferno
