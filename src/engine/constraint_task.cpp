#include "engine/constraint_task.hpp"

#include <exception>
#include <fmt/format.h>

namespace inferno {

void ConstraintTask::work(ConstraintTurn& turn) {
  try {
    if (chosen) {
      const bool goes_on = constraint->accept(*chosen, turn);
      chosen.reset();
      if (!goes_on) {
        answer = Answer::complete;
        return;
      }
    }
    allowed.assign(mask_words, 0);
    if (!constraint->allow(allowed, turn)) allowed.clear();
    answer = Answer::tokens;
  } catch (const ConstraintRefused& thrown) {
    answer = Answer::refused;
    error = thrown.what();
  } catch (const std::exception& thrown) {
    answer = Answer::failed;
    error = fmt::format("the constraint failed: {}", thrown.what());
  }
}

}  // namespace inferno
