// How requests come, wait, are paused, cancelled and cut off, and what happens when the executor fails.

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <numeric>
#include <thread>

#include "engine/serving_fixture.hpp"

namespace inferno::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Holds every step up until it is let go.
class Gate {
 public:
  explicit Gate(const std::shared_ptr<Controls>& controls) {
    controls->before_wait = [this](const StepBatch&) {
      std::unique_lock lock(mutex_);
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_ || passes_ > 0; });
      if (!open_) --passes_;
      --waiting_;
    };
  }
  /// Lets so many steps go.
  void pass(int steps) {
    const std::lock_guard lock(mutex_);
    passes_ += steps;
    changed_.notify_all();
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  /// Until a step stands before the gate and all passes are used.
  void wait_for_step() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0 && passes_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int passes_ = 0;
  int waiting_ = 0;
  bool open_ = false;
};

TEST(Lifecycle, CancelEndsARequestWhereverItIs) {
  auto controls = std::make_shared<Controls>();
  Gate gate(controls);
  auto options = small();
  options.max_rows = 2;
  ServingEngine engine(tiny(), controlled(tiny(), controls), options);
  auto running = engine.submit(asking(10, 400));
  gate.wait_for_step();
  gate.pass(3);
  gate.wait_for_step();
  auto prefilling = engine.submit(asking(600, 10, 2));
  auto queued = engine.submit(asking(600, 10, 3));
  gate.pass(3);
  gate.wait_for_step();
  EXPECT_EQ(engine.metrics().running, 2U);
  EXPECT_EQ(engine.metrics().queued, 1U);
  queued.cancel();
  prefilling.cancel();
  running.cancel();
  gate.pass(1);  // the step that runs
  EXPECT_EQ(read_all(queued).end, RequestEnd::cancelled);
  EXPECT_EQ(read_all(prefilling).end, RequestEnd::cancelled);
  const auto answer = read_all(running);
  EXPECT_EQ(answer.end, RequestEnd::cancelled);
  EXPECT_EQ(answer.ids.size(), 7U);
  EXPECT_EQ(settled(engine).blocks_in_use, 0U);
  running.cancel();  // over already
  gate.open();
}

TEST(Lifecycle, DroppingTheStreamCancels) {
  ServingEngine engine(tiny(), small());
  {
    auto stream = engine.submit(asking(10, 600));
    read_tokens(stream, 5);
  }
  EXPECT_EQ(settled(engine).ended[static_cast<std::size_t>(RequestEnd::cancelled)], 1U);
}

TEST(Lifecycle, ManyAbortsLeaveNothingBehind) {
  auto options = small();
  options.kv_blocks = 40;
  ServingEngine engine(tiny(), options);
  for (int round = 0; round < 50; ++round) {
    std::vector<RequestStream> streams;
    for (std::uint64_t i = 0; i < 8; ++i) streams.push_back(engine.submit(asking(60 + 7 * i, 120, i)));
    read_tokens(streams[static_cast<std::size_t>(round % 8)], static_cast<std::size_t>(round % 7));
  }
  const auto metrics = settled(engine);
  EXPECT_EQ(metrics.blocks_in_use, 0U);
  EXPECT_EQ(metrics.paused, 0U);
  EXPECT_EQ(metrics.blocks_free + metrics.blocks_cached, 40U);
  EXPECT_EQ(std::accumulate(metrics.ended.begin(), metrics.ended.end(), std::uint64_t{0}), 400U);
}

TEST(Lifecycle, WhatCanNeverFitIsRefusedWithBothNumbers) {
  auto options = small();
  options.context = 0;
  options.kv_blocks = 40;
  ServingEngine engine(tiny(), options);
  try {
    engine.submit(asking(700, 10));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ContextExceeded& refusal) {
    EXPECT_THAT(refusal.what(), testing::AllOf(HasSubstr("700"), HasSubstr("640"), HasSubstr("cache")));
    EXPECT_EQ(refusal.asked, 700U);
    EXPECT_EQ(refusal.limit, 640U);
  }
  EXPECT_EQ(engine.metrics().context_limit, 640U);
}

/// A pool of 40 blocks of 16; eight requests that need 12 blocks each by the end, 96 in all.
TEST(Lifecycle, AllFinishThoughTheCacheIsTooSmallForAll) {
  for (const std::uint32_t lookahead : {0U, 32U}) {
    auto options = small();
    options.kv_blocks = 40;
    options.lookahead = lookahead;
    ServingEngine roomy(tiny(), small());
    ServingEngine tight(tiny(), options);
    std::vector<ServingRequest> requests;
    for (std::uint64_t i = 0; i < 8; ++i) requests.push_back(asking(72, 120, i));
    auto expected_streams = roomy.submit(requests);
    const auto expected = read_all(expected_streams);
    auto streams = tight.submit(requests);
    const auto answers = read_all(streams);
    EXPECT_EQ(answers, expected);
    EXPECT_EQ(settled(roomy).pauses, 0U);
    for (const auto& answer : answers) EXPECT_LE(answer.outcome.usage.pauses, 4U);
    EXPECT_EQ(answers[0].outcome.usage.pauses, 0U);  // the oldest always goes on
    const auto counts = settled(tight);
    EXPECT_GT(counts.recomputed_tokens, 0U);
    EXPECT_EQ(counts.prompt_tokens + counts.recomputed_tokens,
              counts.cached_prompt_tokens + counts.prefilled_tokens);
    EXPECT_EQ(settled(tight).blocks_in_use, 0U);
  }
}

TEST(Lifecycle, SharedBlocksAreCountedOnceAndStayWhileInUse) {
  auto options = small();
  options.kv_blocks = 40;
  auto controls = std::make_shared<Controls>();
  Gate gate(controls);
  ServingEngine engine(tiny(), controlled(tiny(), controls), options);
  std::vector<ServingRequest> requests(6, asking(160, 60));
  for (std::size_t i = 0; i < 6; ++i) requests[i].prompt_ids.push_back(static_cast<TokenId>(i));
  auto streams = engine.submit(requests);
  gate.pass(20);  // enough for everybody's first token, and for nobody's last
  for (auto& stream : streams) read_tokens(stream, 1);
  // 10 shared ones and, for the rest of each, at most 4: all six fit 40 blocks at once.
  EXPECT_LE(engine.metrics().blocks_in_use, 34U);
  gate.open();
  for (auto& stream : streams) EXPECT_EQ(read_all(stream).end, RequestEnd::length);
  EXPECT_EQ(settled(engine).pauses, 0U);
  EXPECT_EQ(engine.metrics().evictions, 0U);
}

TEST(Lifecycle, AFullQueueRefuses) {
  auto controls = std::make_shared<Controls>();
  Gate gate(controls);
  auto options = small();
  options.max_rows = 2;
  options.max_queue = 3;
  ServingEngine engine(tiny(), controlled(tiny(), controls), options);
  std::vector<RequestStream> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(engine.submit(asking(4, 3)));
  EXPECT_THROW(engine.submit(asking(4, 3)), QueueFull);
  EXPECT_EQ(engine.metrics().refused, 1U);
  streams.pop_back();  // cancelled
  gate.open();
  for (auto& stream : streams) EXPECT_EQ(read_all(stream).end, RequestEnd::length);
  settled(engine);
  // All or none.
  std::vector<ServingRequest> many(6, asking(4, 3));
  EXPECT_THROW(engine.submit(many), QueueFull);
  EXPECT_EQ(engine.metrics().refused, 2U);
  many.pop_back();
  auto more = engine.submit(many);
  for (auto& stream : more) EXPECT_EQ(read_all(stream).end, RequestEnd::length);
}

// Each asks for the next one the moment it is told its end, in the worker's own thread: no other
// moment is as early.
TEST(Lifecycle, WhoIsToldTheEndFindsTheRoomThatItLeft) {
  auto controls = std::make_shared<Controls>();
  Gate gate(controls);
  auto options = small();
  options.max_rows = 1;
  options.max_queue = 0;
  ServingEngine engine(tiny(), controlled(tiny(), controls), options);
  RequestStream stream;
  std::promise<unsigned> asked;
  unsigned left = 20;
  std::function<void()> told;
  const auto ask = [&] {
    auto request = asking(4, left % 3);  // nothing to do is an end, too
    request.notify = told;
    return engine.submit(std::move(request));
  };
  told = [&] {
    StreamUpdate update;
    while (stream.take(update)) {
      if (!update.outcome) continue;
      const auto metrics = engine.metrics();
      EXPECT_EQ(metrics.running, 0U);
      EXPECT_EQ(metrics.ended[static_cast<std::size_t>(RequestEnd::length)], 21U - left);
      if (--left == 0) return asked.set_value(0);
      try {
        stream = ask();
      } catch (const QueueFull&) {
        return asked.set_value(left);
      }
    }
  };
  stream = ask();
  gate.open();
  auto refused = asked.get_future();
  ASSERT_EQ(refused.wait_for(60s), std::future_status::ready);
  EXPECT_EQ(refused.get(), 0U) << "requests that were still to be asked";
}

TEST(Lifecycle, DrainLetsRequestsEndAndTakesNoMore) {
  ServingEngine engine(tiny(), small());
  auto stream = engine.submit(asking(20, 100));
  auto other = engine.submit(asking(20, 50, 2));
  EXPECT_TRUE(engine.drain(10s));
  EXPECT_THROW(engine.submit(asking(4, 3)), EngineStopped);
  EXPECT_EQ(read_all(stream).ids.size(), 100U);
  EXPECT_EQ(read_all(other).ids.size(), 50U);
}

TEST(Lifecycle, StopEndsWhatADrainLeft) {
  auto controls = std::make_shared<Controls>();
  Gate gate(controls);
  ServingEngine engine(tiny(), controlled(tiny(), controls), small());
  auto stream = engine.submit(asking(20, 400));
  gate.wait_for_step();
  EXPECT_FALSE(engine.drain(1ms));
  std::thread stopper([&] { engine.stop(); });
  std::this_thread::sleep_for(20ms);
  gate.open();
  stopper.join();
  engine.stop();
  EXPECT_EQ(read_all(stream).end, RequestEnd::shutdown);
}

TEST(Lifecycle, AStreamMayOutliveItsEngine) {
  RequestStream stream;
  {
    ServingEngine engine(tiny(), small());
    stream = engine.submit(asking(20, 600));
  }
  EXPECT_EQ(read_all(stream).end, RequestEnd::shutdown);
  stream.cancel();
}

TEST(Lifecycle, HigherPrioritiesGoFirst) {
  auto controls = std::make_shared<Controls>();
  Gate gate(controls);
  auto options = small();
  options.max_rows = 1;
  std::vector<int> order;  // written in the worker's thread
  ServingEngine engine(tiny(), controlled(tiny(), controls), options);
  std::vector<RequestStream> streams;
  const auto ask = [&](int name, std::int32_t priority, std::uint32_t tokens) {
    auto request = asking(20, tokens, static_cast<std::uint64_t>(name));
    request.priority = priority;
    request.notify = [&order, name] { order.push_back(name); };
    streams.push_back(engine.submit(std::move(request)));
  };
  ask(0, 0, 3);
  gate.wait_for_step();
  ask(1, 0, 1);
  ask(2, 0, 1);
  ask(3, 5, 1);
  ask(4, -1, 1);
  gate.open();
  const auto answers = read_all(streams);
  // 0 was running its prompt when the others came; 3 takes the only row from it.
  EXPECT_EQ(answers[0].outcome.usage.pauses, 1U);
  EXPECT_EQ(answers[0].ids.size(), 3U);
  engine.stop();  // the last call may still be on its way
  std::vector<int> first;
  for (const int name : order) {
    if (std::find(first.begin(), first.end(), name) == first.end()) first.push_back(name);
  }
  EXPECT_EQ(first, (std::vector<int>{0, 3, 1, 2, 4}));
}

TEST(Lifecycle, ASlowConsumerIsPausedAndGoesOnWhereItWas) {
  auto options = small();
  options.buffered_tokens = 10;
  ServingEngine engine(tiny(), options);
  ServingEngine quick(tiny(), small());
  auto expected = quick.submit(asking(30, 300));
  std::vector<RequestStream> slow;
  for (int i = 0; i < 8; ++i) slow.push_back(engine.submit(asking(30, 300)));
  EXPECT_TRUE(eventually([&] { return engine.metrics().stalled == 8; }));
  EXPECT_EQ(engine.metrics().blocks_in_use, 0U);
  EXPECT_EQ(engine.metrics().generated_tokens, 80U);
  // The rows are free for whoever reads.
  auto normal = engine.submit(asking(30, 9, 7));
  EXPECT_EQ(read_all(normal).end, RequestEnd::length);
  const auto answer = read_all(expected);
  for (auto& stream : slow) EXPECT_EQ(read_all(stream), answer);
}

TEST(Lifecycle, WhoNeverReadsIsCutOff) {
  auto options = small();
  options.buffered_tokens = 10;
  options.stall_timeout = 50ms;
  ServingEngine engine(tiny(), options);
  auto stream = engine.submit(asking(30, 300));
  EXPECT_TRUE(
      eventually([&] { return engine.metrics().ended[static_cast<std::size_t>(RequestEnd::stalled)] == 1; }));
  const auto answer = read_all(stream);
  EXPECT_EQ(answer.end, RequestEnd::stalled);
  EXPECT_EQ(answer.ids.size(), 10U);
}

TEST(Lifecycle, ALostExecutorIsReplacedAndNobodyNotices) {
  ServingEngine healthy(tiny(), small());
  std::vector<ServingRequest> requests;
  for (std::uint64_t i = 0; i < 12; ++i) {
    requests.push_back(asking(30 * (1 + i % 5), 40, i));
    requests.back().logprobs = 2;
    if (i % 2 == 1) {
      requests.back().sampling.temperature = 1.5F;
      requests.back().sampling.presence_penalty = 0.5F;
      requests.back().sampling.seed = i;
    }
    if (i % 6 == 4) requests.back().kind = RequestKind::embed_mean;
    if (i % 6 == 3) requests.back().prompt_logprobs = 1;
  }
  auto expected_streams = healthy.submit(requests);
  const auto expected = read_all(expected_streams);

  int steps = 0;
  auto controls = std::make_shared<Controls>();
  controls->before_wait = [&steps](const StepBatch&) {
    if (++steps == 15) throw DeviceLost("backend test lost its device");
  };
  auto options = small();
  auto rest = std::make_shared<Controls>();
  options.failover = [&rest] { return controlled(tiny(), rest, "reference"); };
  ServingEngine engine(tiny(), controlled(tiny(), controls), options);
  auto streams = engine.submit(requests);
  EXPECT_EQ(read_all(streams), expected);
  EXPECT_EQ(engine.metrics().failovers, 1U);
  EXPECT_EQ(engine.metrics().backend, "reference");
  const auto counts = settled(engine);
  EXPECT_GT(counts.recomputed_tokens, 0U);
  EXPECT_EQ(counts.prompt_tokens + counts.recomputed_tokens,
            counts.cached_prompt_tokens + counts.prefilled_tokens);
}

TEST(Lifecycle, WithoutAnotherExecutorRequestsFailAndNoMoreAreTaken) {
  auto controls = std::make_shared<Controls>();
  controls->before_wait = [](const StepBatch& batch) {
    if (batch.tokens.size() < 30) throw DeviceLost("backend test lost its device");
  };
  auto options = small();
  options.failover = []() -> std::unique_ptr<Executor> { throw Error("there is no other"); };
  ServingEngine engine(tiny(), controlled(tiny(), controls), options);
  auto stream = engine.submit(asking(40, 40));
  const auto answer = read_all(stream);
  EXPECT_EQ(answer.end, RequestEnd::failed);
  EXPECT_THAT(answer.outcome.error,
              testing::AllOf(HasSubstr("lost its device"), HasSubstr("there is no other")));
  EXPECT_THROW(engine.submit(asking(4, 4)), EngineStopped);
  EXPECT_THAT(settled(engine).broken, HasSubstr("lost its device"));
  EXPECT_TRUE(engine.drain(1s));
}

TEST(Lifecycle, ExecutorsThatKeepDyingAreGivenUp) {
  auto controls = std::make_shared<Controls>();
  int lost = 0;
  controls->before_wait = [&lost](const StepBatch&) { throw DeviceLost(std::to_string(++lost) + " lost"); };
  auto options = small();
  options.failover = [&] { return controlled(tiny(), controls); };
  ServingEngine engine(tiny(), controlled(tiny(), controls), options);
  auto stream = engine.submit(asking(40, 40));
  EXPECT_EQ(read_all(stream).end, RequestEnd::failed);
  EXPECT_LE(lost, 5);
}

TEST(Lifecycle, ARefusedSubmissionIsTriedAgain) {
  auto controls = std::make_shared<Controls>();
  int calls = 0;
  controls->before_submit = [&calls](const StepBatch&) {
    if (++calls % 3 == 0) throw Error("busy");
  };
  ServingEngine healthy(tiny(), small());
  ServingEngine engine(tiny(), controlled(tiny(), controls), small());
  auto expected = healthy.submit(asking(100, 30));
  auto stream = engine.submit(asking(100, 30));
  EXPECT_EQ(read_all(stream), read_all(expected));
  EXPECT_EQ(engine.metrics().failovers, 0U);
}

TEST(Lifecycle, ARowThatFailsFailsAlone) {
  auto controls = std::make_shared<Controls>();
  controls->change_result = [](StepResult& result) {
    if (result.status.size() != 3) return;
    result.status[1] = RowStatus::failed;
    result.errors[1] = "logit 17 is NaN";
    result.ids[1].clear();
  };
  ServingEngine healthy(tiny(), small());
  ServingEngine engine(tiny(), controlled(tiny(), controls), small());
  std::vector<ServingRequest> requests;
  for (std::uint64_t i = 0; i < 3; ++i) requests.push_back(asking(10, 30, i));
  auto expected_streams = healthy.submit(requests);
  const auto expected = read_all(expected_streams);
  auto streams = engine.submit(requests);
  const auto answers = read_all(streams);
  EXPECT_EQ(answers[0], expected[0]);
  EXPECT_EQ(answers[2], expected[2]);
  EXPECT_EQ(answers[1].end, RequestEnd::failed);
  EXPECT_THAT(answers[1].outcome.error, HasSubstr("logit 17 is NaN"));
}

/// Allows one id after the other, then ends.
class Spelling : public TokenConstraint {
 public:
  explicit Spelling(std::vector<TokenId> ids) : ids_(std::move(ids)) {}
  bool allow(std::span<std::uint32_t> allowed, ConstraintTurn&) override {
    const auto id = static_cast<std::size_t>(ids_.at(next_));
    allowed[id / 32] |= 1U << id % 32;
    return true;
  }
  bool accept(TokenId id, ConstraintTurn&) override {
    EXPECT_EQ(id, ids_[next_]);
    return ++next_ < ids_.size();
  }

 private:
  std::vector<TokenId> ids_;
  std::size_t next_ = 0;
};

TEST(Lifecycle, AConstraintDecidesAndEnds) {
  auto options = small();
  options.kv_blocks = 9;  // some are paused in between
  options.context = 144;
  options.lookahead = 0;
  ServingEngine engine(tiny(), options);
  std::vector<ServingRequest> requests;
  for (std::uint64_t i = 0; i < 4; ++i) {
    requests.push_back(asking(20, 100, i));
    requests.back().constraint = std::make_shared<Spelling>(tiny_prompt(50, i));
    if (i == 2) requests.back().sampling.temperature = 2;
  }
  auto streams = engine.submit(requests);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto answer = read_all(streams[i]);
    EXPECT_EQ(answer.ids, tiny_prompt(50, i));
    EXPECT_EQ(answer.end, RequestEnd::stop);
  }
}

TEST(Lifecycle, AConstraintThatThrowsFailsItsRequestAlone) {
  class Thrower : public TokenConstraint {
   public:
    bool allow(std::span<std::uint32_t>, ConstraintTurn&) override {
      if (++calls_ == 3) throw Error("no way on");
      return false;
    }
    bool accept(TokenId, ConstraintTurn&) override { return true; }

   private:
    int calls_ = 0;
  };
  class Forbidder : public TokenConstraint {
   public:
    bool allow(std::span<std::uint32_t>, ConstraintTurn&) override { return true; }
    bool accept(TokenId, ConstraintTurn&) override { return true; }
  };
  ServingEngine engine(tiny(), small());
  auto with = asking(10, 30);
  with.constraint = std::make_shared<Thrower>();
  auto failing = engine.submit(with);
  with.constraint = std::make_shared<Forbidder>();
  auto stuck = engine.submit(with);
  auto without = engine.submit(asking(10, 30));
  const auto expected = read_all(without);
  EXPECT_EQ(expected.end, RequestEnd::length);
  const auto answer = read_all(failing);
  EXPECT_EQ(answer.end, RequestEnd::failed);
  EXPECT_THAT(answer.outcome.error, HasSubstr("no way on"));
  EXPECT_EQ(answer.ids, std::vector<TokenId>(expected.ids.begin(), expected.ids.begin() + 2));
  EXPECT_THAT(read_all(stuck).outcome.error, HasSubstr("every token is banned"));
}

/// While four requests stream and a long prompt is run, every step has a token of each stream, and the prompt
/// goes on in every step.
TEST(Lifecycle, ALongPromptStallsNobody) {
  auto controls = std::make_shared<Controls>();
  std::mutex mutex;
  std::vector<std::vector<std::uint32_t>> steps;  // tokens of each row
  controls->before_submit = [&](const StepBatch& batch) {
    const std::lock_guard lock(mutex);
    auto& rows = steps.emplace_back();
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      rows.push_back(batch.row_offsets[row + 1] - batch.row_offsets[row]);
    }
  };
  Gate gate(controls);
  auto options = small();
  options.step_tokens = 20;
  options.step_stretch = 0;
  ServingEngine engine(tiny(), controlled(tiny(), controls), options);
  std::vector<RequestStream> streams;
  for (std::uint64_t i = 0; i < 4; ++i) streams.push_back(engine.submit(asking(5, 60, i)));
  gate.wait_for_step();
  gate.pass(5);
  gate.wait_for_step();
  const auto before = steps.size();
  auto long_one = engine.submit(asking(560, 3, 9));
  gate.open();
  EXPECT_EQ(read_all(long_one).end, RequestEnd::length);
  for (auto& stream : streams) EXPECT_EQ(read_all(stream).end, RequestEnd::length);
  const std::lock_guard lock(mutex);
  for (std::size_t step = before; step < before + 35; ++step) {
    EXPECT_EQ(steps[step], (std::vector<std::uint32_t>{1, 1, 1, 1, 16})) << step;
  }
}

}  // namespace
}  // namespace inferno::test
