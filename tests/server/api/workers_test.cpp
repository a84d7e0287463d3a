#include "server/api/workers.hpp"

#include <atomic>
#include <future>
#include <gtest/gtest.h>

namespace inferno::api {
namespace {

/// A job that runs until it is let go.
class Blocker {
 public:
  Workers::Job job() {
    return [this] {
      started_.set_value();
      open_.get_future().wait();
    };
  }
  void wait_until_it_runs() { started_.get_future().wait(); }
  void let_go() { open_.set_value(); }

 private:
  std::promise<void> started_, open_;
};

TEST(Workers, LargeJobsLeaveAThreadToSmallOnes) {
  Blocker large;
  std::promise<void> small;
  std::atomic<bool> second = false;
  Workers workers(2, 100);
  ASSERT_TRUE(workers.add(large.job(), true));
  large.wait_until_it_runs();
  ASSERT_TRUE(workers.add([&] { second = true; }, true));
  ASSERT_TRUE(workers.add([&] { small.set_value(); }, false));
  small.get_future().wait();
  EXPECT_FALSE(second);
  std::promise<void> last;
  large.let_go();
  ASSERT_TRUE(workers.add([&] { last.set_value(); }, true));
  last.get_future().wait();
  EXPECT_TRUE(second);
}

TEST(Workers, TheQueueIsBounded) {
  Blocker one;
  Blocker two;
  Workers workers(2, 3);
  ASSERT_TRUE(workers.add(one.job(), false));
  ASSERT_TRUE(workers.add(two.job(), false));
  one.wait_until_it_runs();
  two.wait_until_it_runs();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(workers.add([] {}, i == 1));
  EXPECT_FALSE(workers.add([] {}, false));
  EXPECT_FALSE(workers.add([] {}, true));
  one.let_go();
  two.let_go();
}

TEST(Workers, WhatWaitsAtTheEndIsDropped) {
  const auto held = std::make_shared<int>(1);
  std::atomic<int> ran = 0;
  {
    Blocker one;
    Blocker two;
    auto workers = std::make_unique<Workers>(2, 10);
    workers->add(one.job(), false);
    workers->add(two.job(), false);
    one.wait_until_it_runs();
    two.wait_until_it_runs();
    workers->add([held, &ran] { ++ran; }, false);
    auto ending = std::async(std::launch::async, [&] { workers.reset(); });
    while (held.use_count() > 1) std::this_thread::yield();
    one.let_go();
    two.let_go();
  }
  EXPECT_EQ(ran, 0);
}

}  // namespace
}  // namespace inferno::api
