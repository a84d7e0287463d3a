#include "machine_pauses.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace inferno::load {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<double> watch_clock(Clock::time_point until) {
  std::vector<double> pauses;
  for (auto last = Clock::now(); last < until;) {
    const auto now = Clock::now();
    const double away = std::chrono::duration<double, std::milli>(now - last).count();
    if (away >= kLeastPause) pauses.push_back(away);
    last = now;
  }
  return pauses;
}

}  // namespace

MachinePauses machine_pauses(double seconds) {
  const auto until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<std::vector<double>> found(std::max(1U, std::thread::hardware_concurrency()));
  {
    std::vector<std::jthread> threads;
    for (auto& pauses : found) threads.emplace_back([&pauses, until] { pauses = watch_clock(until); });
  }
  MachinePauses machine;
  for (const auto& pauses : found) {
    for (const double away : pauses) {
      machine.lengths.add(away);
      machine.share += away * 1e-3 / seconds / static_cast<double>(found.size());
    }
  }
  machine.per_second = static_cast<double>(machine.lengths.count()) / seconds;
  return machine;
}

}  // namespace inferno::load
