#include "backend/cpu/parallel/policy.hpp"

#include <atomic>
#include <chrono>
#include <ctime>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

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
