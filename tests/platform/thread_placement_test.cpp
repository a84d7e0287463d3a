#include "platform/thread_placement.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include "platform/cpu_budget.hpp"

namespace inferno::test {
namespace {

std::vector<int> allowed_processors() {
  const auto cpus = cpu_budget().cpus;
  return {cpus.begin(), cpus.end()};
}

/// Whether `arrives` does ten times. A thread that was moved may be moved on at once by a system that has
/// much else to do, so it may need many attempts; for a minute.
template <typename Arrives>
bool arrives_often(const Arrives& arrives) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  int arrivals = 0;
  while (arrivals < 10 && std::chrono::steady_clock::now() < until) arrivals += arrives() ? 1 : 0;
  return arrivals == 10;
}

TEST(ThreadPlacement, RunsWhereItMay) {
  const auto processor = current_processor();
  if (processor < 0) GTEST_SKIP() << "this system does not tell processors";
  const auto allowed = allowed_processors();
  EXPECT_NE(std::find(allowed.begin(), allowed.end(), processor), allowed.end());
}

TEST(ThreadPlacement, LeavesOneProcessorForAnother) {
  const auto allowed = allowed_processors();
  if (current_processor() < 0 || allowed.size() < 2) GTEST_SKIP() << "there is no other processor";
  std::thread([&] {
    for (const int processor : allowed) {
      auto others = allowed;
      others.erase(std::find(others.begin(), others.end(), processor));
      EXPECT_TRUE(arrives_often([&] {
        EXPECT_TRUE(leave_processors(others));
        return current_processor() == processor;
      })) << processor;
    }
  }).join();
}

TEST(ThreadPlacement, KeepsWhatItMayUse) {
  if (current_processor() < 0) GTEST_SKIP() << "this system does not tell processors";
  const auto before = allowed_processors();
  std::thread([&] {
    EXPECT_FALSE(leave_processors(before)) << "there is no other";
    (void)leave_processors({});
    const int elsewhere[] = {-1, 1'000'000};
    (void)leave_processors(elsewhere);
    EXPECT_EQ(allowed_processors(), before);
  }).join();
  EXPECT_EQ(allowed_processors(), before);
}

TEST(ThreadHandle, TellsHowLongAThreadHasRun) {
  if (current_processor() < 0) GTEST_SKIP() << "this system does not tell";
  const auto self = ThreadHandle::current();
  EXPECT_EQ(self, ThreadHandle::current());
  EXPECT_NE(self, ThreadHandle());
  const auto before = self.run_time();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (self.run_time() - before < std::chrono::milliseconds(5) &&
         std::chrono::steady_clock::now() < until) {
  }
  EXPECT_GE(self.run_time() - before, std::chrono::milliseconds(5));
  const auto at_rest = self.run_time();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LT(self.run_time() - at_rest, std::chrono::milliseconds(10));
  EXPECT_EQ(ThreadHandle().run_time(), std::chrono::nanoseconds(0));
}

TEST(ThreadHandle, BringsAThreadToTheProcessorOfAnother) {
  const auto allowed = allowed_processors();
  if (current_processor() < 0 || allowed.size() < 2) GTEST_SKIP() << "there is no other processor";
  std::atomic<bool> stop = false;
  std::atomic<ThreadHandle> handle = ThreadHandle();
  std::atomic<int> place = -1;
  std::vector<int> allowed_there;
  std::thread other([&] {
    handle = ThreadHandle::current();
    while (!stop) place = current_processor();
    allowed_there = allowed_processors();
  });
  while (place < 0) std::this_thread::yield();
  EXPECT_TRUE(arrives_often([&] {
    const int here[] = {place.load()};
    (void)leave_processors(here);
    const int target = current_processor();
    EXPECT_TRUE(handle.load().bring_here());
    // It may come when this thread gives the processor up; then either may be moved on.
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (place != target && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return place == target;
  }));
  stop = true;
  other.join();
  EXPECT_EQ(allowed_there, allowed);
  (void)handle.load().bring_here();  // it has ended, which the system may know a little later
  EXPECT_FALSE(ThreadHandle().bring_here());
}

}  // namespace
}  // namespace inferno::test
