#include "backend/cpu/parallel/policy.hpp"

#include <atomic>
#include <chrono>
#include <ctime>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include "backend/cpu/parallel/thread_places.hpp"
#include "platform/cpu_budget.hpp"

namespace inferno::cpu {
namespace {

using Make = std::unique_ptr<ParallelPolicy> (*)(unsigned threads);

struct Policy {
  const char* name;
  Make make;
};

class Policies : public testing::TestWithParam<Policy> {};

TEST_P(Policies, RunEveryPartOnceAndSeeWhatItWrote) {
  for (const unsigned threads : {1U, 2U, 3U, 7U, 64U}) {
    const auto policy = GetParam().make(threads);
    std::vector<int> written(policy->threads(), 0);
    const int rounds = 100;
    for (int round = 0; round < rounds; ++round) {
      policy->run([&](unsigned part, unsigned parts) {
        EXPECT_EQ(parts, written.size());
        ++written[part];  // no atomic: what a part writes is visible after run
      });
      for (const int count : written) ASSERT_EQ(count, round + 1);
    }
  }
}

TEST_P(Policies, RunPartsThatAreFinerThanThreads) {
  for (const unsigned threads : {1U, 2U, 3U, 7U}) {
    const auto policy = GetParam().make(threads);
    for (const unsigned fineness : {2U, kMaxPartsPerThread, 1U, 3U}) {
      std::vector<int> written(std::size_t{threads} * fineness, 0);
      std::atomic<unsigned> seen = 0;
      policy->run(
          [&](unsigned part, unsigned parts) {
            EXPECT_LE(parts, written.size());
            EXPECT_GE(parts, policy->threads());
            ++written.at(part);
            seen = parts;
          },
          fineness);
      for (unsigned part = 0; part < written.size(); ++part) EXPECT_EQ(written[part], part < seen ? 1 : 0);
    }
  }
}

TEST_P(Policies, WorkAfterALongPause) {
  const auto policy = GetParam().make(3);
  std::atomic<int> sum = 0;
  for (int round = 0; round < 5; ++round) {
    policy->run([&](unsigned part, unsigned) { sum += static_cast<int>(part) + 1; });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // long enough to fall asleep
  }
  EXPECT_EQ(sum, 5 * (policy->threads() == 1 ? 1 : 6));
}

INSTANTIATE_TEST_SUITE_P(
    All, Policies,
    testing::Values(Policy{"serial", [](unsigned) { return make_serial_policy(); }},
                    Policy{"spawning", [](unsigned threads) { return make_spawning_policy(threads); }},
                    Policy{"pool", [](unsigned threads) { return make_pool_policy(threads, threads); }},
                    Policy{"crowded", [](unsigned threads) { return make_pool_policy(threads, 1); }}),
    [](const auto& tested) { return tested.param.name; });

TEST(Pool, AnIdlePoolTakesNoProcessorTime) {
  const auto policy = make_pool_policy(4, 4);
  policy->run([](unsigned, unsigned) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto before = std::clock();  // of all threads
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const double used = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(used, 0.02);
}

TEST(Pool, WorksWhileOthersWantItsProcessors) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> hogs;
  for (int i = 0; i < 3; ++i) {
    hogs.emplace_back([&] {
      while (!stop) {
      }
    });
  }
  {
    const auto policy = make_pool_policy(2, 2);
    std::vector<std::uint64_t> sums(std::size_t{2} * kMaxPartsPerThread, 0);
    constexpr std::uint64_t kRounds = 3000;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      policy->run([&](unsigned part, unsigned) { sums[part] += round; }, kMaxPartsPerThread);
      if (round % 1000 == 999) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // workers sleep
    }
    for (const auto sum : sums) EXPECT_EQ(sum, kRounds * (kRounds - 1) / 2);
  }
  stop = true;
  for (auto& hog : hogs) hog.join();
}

TEST(Pool, MayBeCalledByOneThreadAfterAnother) {
  const auto policy = make_pool_policy(2, 2);
  int sums[2] = {};
  for (int caller = 0; caller < 20; ++caller) {
    std::thread([&] {
      for (int i = 0; i < 50; ++i) policy->run([&](unsigned part, unsigned) { ++sums[part]; });
    }).join();  // its workers still spin: they look for a caller that has ended
    if (caller % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(sums[0], 1000);
  EXPECT_EQ(sums[1], 1000);
}

TEST(ThreadPlaces, MovesTheSecondOfTwoThreadsOnOneProcessor) {
  const auto cpus = cpu_budget().cpus;
  if (current_processor() < 0 || cpus.size() < 2) GTEST_SKIP() << "there is no other processor";
  ThreadPlaces places(2, true);
  std::atomic<bool> stop = false;
  std::atomic<int> first = -1;
  std::thread other([&] {
    places.begin(0);
    while (!stop) {
      places.keep_apart(0);
      first = current_processor();
    }
  });
  while (first < 0) std::this_thread::yield();
  places.begin(1);
  int apart = 0;
  for (int i = 0; i < 200; ++i) {
    const std::vector<int> all(cpus.begin(), cpus.end());
    std::vector<int> others = all;
    std::erase(others, first.load());
    (void)leave_processors(others);  // to the other thread
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    while (std::chrono::steady_clock::now() < until) places.keep_apart(1);
    if (current_processor() != first) ++apart;
  }
  stop = true;
  other.join();
  EXPECT_GT(apart, 50) << "of 200";
}

TEST(ThreadPlaces, LeavesTheSystemItsChoiceWhereThereAreTooFewProcessors) {
  ThreadPlaces places(2, false);
  ThreadPlaces::Doubt doubt;
  places.begin(0);
  places.keep_apart(1);
  places.help(1, doubt);
  places.leave(0);
  places.end(0);
  EXPECT_FALSE(doubt.exists);
}

TEST(ThreadPlaces, DoubtsOnlyThoseWhoAreWaitedFor) {
  ThreadPlaces places(3, true);
  ThreadPlaces::Doubt doubt;
  places.help(0, doubt);
  EXPECT_FALSE(doubt.exists) << "no worker has begun anything";
  places.begin(2);
  places.help(0, doubt);
  EXPECT_TRUE(doubt.exists);
  EXPECT_EQ(doubt.thread, 2U);
  places.end(2);
  doubt = {};
  places.help(0, doubt);
  EXPECT_FALSE(doubt.exists);
  places.help(1, doubt);
  EXPECT_FALSE(doubt.exists) << "number 0 is nowhere";
  places.keep_apart(0);
  places.help(1, doubt);
  EXPECT_EQ(doubt.exists, current_processor() >= 0);
  places.leave(0);
  doubt = {};
  places.help(1, doubt);
  EXPECT_FALSE(doubt.exists) << "number 0 sleeps";
}

TEST(Share, CoversEverythingOnce) {
  for (const std::size_t count : {0U, 1U, 5U, 64U, 1001U}) {
    for (const unsigned parts : {1U, 2U, 7U, 64U}) {
      std::size_t next = 0;
      for (unsigned part = 0; part < parts; ++part) {
        const auto share = share_of(count, part, parts);
        EXPECT_EQ(share.begin, next);
        next = share.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace inferno::cpu
