#include "engine/trace.hpp"

namespace inferno {

void StageTrace::begin(const StageEvent& /*event*/) {
  started_ = std::chrono::steady_clock::now();
}

void StageTrace::end(const StageEvent& event) {
  const auto elapsed = std::chrono::steady_clock::now() - started_;
  auto& totals = totals_[static_cast<std::size_t>(event.stage)];
  ++totals.count;
  totals.milliseconds += std::chrono::duration<double, std::milli>(elapsed).count();
  totals.bytes += event.bytes;
  totals.operations += event.operations;
}

std::uint64_t StageTrace::stages() const {
  std::uint64_t sum = 0;
  for (const auto& totals : totals_) sum += totals.count;
  return sum - of(Stage::embedding).count;
}

double StageTrace::milliseconds() const {
  double sum = 0;
  for (const auto& totals : totals_) sum += totals.milliseconds;
  return sum;
}

void TraceObserver::forward(bool prefill, std::uint32_t steps, double /*milliseconds*/) {
  (prefill ? prefill_steps_ : decode_steps_) += steps;
}

}  // namespace inferno
