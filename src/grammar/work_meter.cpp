#include "grammar/work_meter.hpp"

#include <fmt/format.h>
#include <utility>

namespace inferno::grammar {

void WorkMeter::look() {
  spent_ += std::exchange(recent_, 0);
  if (spent_ > most_) {
    throw ConstraintRefused(
        fmt::format("the schema leaves so much open at once that one token takes more than {} steps to find; "
                    "expected fewer alternatives and patterns that can hold together",
                    most_));
  }
  turn_.go_on();
}

}  // namespace inferno::grammar
