#include "backend/cpu/parallel/thread_places.hpp"

#include <algorithm>

namespace inferno::cpu {
namespace {

using Clock = std::chrono::steady_clock;

/// Between two moves of a thread: where processors are really short the system's choice is to last.
constexpr auto kPatience = std::chrono::microseconds(500);
/// Who has run for less than a quarter of this long has lost its processor, or sleeps. Longer than what a
/// server's connections take of a core between two steps.
constexpr auto kDoubt = std::chrono::microseconds(120);

}  // namespace

int ThreadPlaces::note(unsigned thread) {
  auto& place = places_[thread].processor;
  const int processor = current_processor();
  if (place.load(kRelaxed) != processor) place.store(processor, kRelaxed);
  return processor;
}

void ThreadPlaces::keep_apart(unsigned thread) {
  if (places_.empty()) return;
  const int processor = note(thread);
  if (processor < 0) return;
  const auto is_here = [&](const Place& place) { return place.processor.load(kRelaxed) == processor; };
  const auto own = places_.begin() + thread;
  if (std::none_of(places_.begin(), own, is_here)) return;
  const auto now = Clock::now();
  if (now - own->moved < kPatience) return;
  own->moved = now;
  std::vector<int> taken;
  taken.reserve(places_.size());
  for (const auto& place : places_) taken.push_back(place.processor.load(kRelaxed));
  if (leave_processors(taken)) note(thread);
}

bool ThreadPlaces::is_waited_for(unsigned thread) const {
  const auto& place = places_[thread];
  return thread == 0 ? place.processor.load(kRelaxed) != kNowhere : place.busy.load(kRelaxed);
}

void ThreadPlaces::help(unsigned waiting, Doubt& doubt) {
  if (places_.empty()) return;
  const auto now = Clock::now();
  if (!doubt.exists) {
    const unsigned first = waiting == 0 ? 1 : 0;
    const unsigned end = waiting == 0 ? static_cast<unsigned>(places_.size()) : 1;
    for (unsigned thread = first; thread < end && !doubt.exists; ++thread) {
      if (is_waited_for(thread))
        doubt = {thread, places_[thread].handle.load(kRelaxed).run_time(), now, true};
    }
    return;
  }
  const auto waited = now - doubt.since;
  if (waited < kDoubt) return;
  doubt.exists = false;
  const auto handle = places_[doubt.thread].handle.load(kRelaxed);
  if (!is_waited_for(doubt.thread) || handle.run_time() - doubt.run_time > waited / 4) return;
  // Workers run to number 0's help together; the first is enough.
  if (helping_.exchange(true, std::memory_order_acquire)) return;
  const int here = note(waiting);
  if (handle.bring_here()) {
    places_[doubt.thread].processor.store(here, kRelaxed);  // it has not noted that itself yet
    places_[waiting].moved = now;
    if (waiting != 0 && leave_processors({&here, 1})) note(waiting);
  }
  helping_.store(false, std::memory_order_release);
}

}  // namespace inferno::cpu
