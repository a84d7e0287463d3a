// Constraints that take their time cost nobody else any: steps go on without their requests.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/constraint_workers.hpp"
#include "engine/serving_fixture.hpp"

namespace inferno {
namespace {

using test::Answer;
using test::asking;
using test::eventually;
using test::read_all;
using test::small;
using test::tiny;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

struct Door {
  std::atomic<bool> is_open = false;
  std::atomic<int> knocks = 0;  ///< calls that have come to it
  void pass(ConstraintTurn& turn) {
    ++knocks;
    while (!is_open) turn.go_on();
  }
};

/// Allows every other id, which ones depends on how many came before; never answers at once, and not at all
/// for the token `from` while its door is shut.
class Slow : public TokenConstraint {
 public:
  explicit Slow(std::shared_ptr<Door> door, int from = 0, int ends_after = 1000)
      : door_(std::move(door)), from_(from), ends_after_(ends_after) {}

  bool allow(std::span<std::uint32_t> allowed, ConstraintTurn& turn) override {
    turn.give_way();  // what the serving loop itself does not wait for
    if (taken_ >= from_) door_->pass(turn);
    for (std::size_t i = 0; i < allowed.size(); ++i)
      allowed[i] = taken_ % 2 == 0 ? 0x5555'5555U : 0xAAAA'AAAAU;
    return true;
  }

  bool accept(TokenId id, ConstraintTurn& turn) override {
    turn.give_way();
    EXPECT_EQ(id % 2, taken_ % 2);
    return ++taken_ < ends_after_;
  }

 private:
  std::shared_ptr<Door> door_;
  int from_;
  int ends_after_;
  int taken_ = 0;
};

std::shared_ptr<Door> open_door() {
  auto door = std::make_shared<Door>();
  door->is_open = true;
  return door;
}

TEST(ServingConstraints, OneThatTakesLongHoldsNobodyUp) {
  auto slow = asking(20, 12, 1);
  slow.constraint = std::make_shared<Slow>(open_door());
  auto other_slow = asking(30, 12, 2);
  other_slow.constraint = std::make_shared<Slow>(open_door());
  other_slow.sampling.temperature = 1;
  const auto free = asking(40, 40, 3);
  ServingEngine alone(tiny(), small(256));
  auto stream = alone.submit(slow);
  const auto expected_slow = read_all(stream);
  stream = alone.submit(other_slow);
  const auto expected_other = read_all(stream);
  stream = alone.submit(free);
  const auto expected_free = read_all(stream);
  ASSERT_EQ(expected_slow.ids.size(), 12U);

  for (const int from : {0, 5}) {
    ServingEngine engine(tiny(), small(256));
    const auto door = std::make_shared<Door>();
    slow.constraint = std::make_shared<Slow>(door, from);
    auto stuck = engine.submit(slow);
    ASSERT_TRUE(eventually([&] { return door->knocks > 0; }));
    // Everybody who comes now gets all of their answer, also who has a constraint.
    other_slow.constraint = std::make_shared<Slow>(open_door());
    auto streams = engine.submit({other_slow, free});
    const auto answers = read_all(streams);
    EXPECT_EQ(answers[0], expected_other);
    EXPECT_EQ(answers[1], expected_free);
    StreamUpdate update;
    std::vector<TokenId> first_ids;
    while (stuck.take(update)) {
      EXPECT_FALSE(update.outcome);
      for (const auto& event : update.tokens) first_ids.push_back(event.id);
    }
    EXPECT_EQ(first_ids.size(), static_cast<std::size_t>(from));
    EXPECT_TRUE(eventually([&] { return engine.metrics().running == 1; }));  // published after the answers
    door->is_open = true;
    auto rest = read_all(stuck);
    rest.ids.insert(rest.ids.begin(), first_ids.begin(), first_ids.end());
    EXPECT_EQ(rest.end, RequestEnd::length);
    EXPECT_EQ(rest.ids, expected_slow.ids);
  }
}

/// Who waits for a constraint leaves its blocks to others, and goes on as if nothing had been.
TEST(ServingConstraints, TheSameAnswersAmongOthersAndAfterPauses) {
  auto options = small(256);
  options.kv_blocks = 12;
  options.context = 160;
  options.lookahead = 0;
  std::vector<ServingRequest> requests;
  for (std::uint64_t i = 0; i < 8; ++i) {
    requests.push_back(asking(20 + i, 60, i));
    requests.back().logprobs = 2;
    requests.back().sampling.temperature = i % 3 == 0 ? 1.0F : 0.0F;
  }
  const auto with_constraints = [&] {
    for (std::size_t i = 0; i < requests.size(); i += 2)
      requests[i].constraint = std::make_shared<Slow>(open_door(), 0, 40 + static_cast<int>(i));
    return requests;
  };
  std::vector<Answer> expected;
  ServingEngine alone(tiny(), small(256));
  for (const auto& request : with_constraints()) {
    auto stream = alone.submit(request);
    expected.push_back(read_all(stream));
  }
  ServingEngine engine(tiny(), options);
  auto streams = engine.submit(with_constraints());
  const auto answers = read_all(streams);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i], expected[i]) << i;
    EXPECT_EQ(answers[i].end, i % 2 == 0 ? RequestEnd::stop : RequestEnd::length);
  }
  EXPECT_GT(test::settled(engine).pauses, 0U);
}

/// A longer prompt takes over what is sure of a shorter one, and does not wait for its constraint.
TEST(ServingConstraints, NobodyWaitsForTheirPrefix) {
  ServingEngine engine(tiny(), small(256));
  const auto door = std::make_shared<Door>();
  auto first = asking(48, 4);
  first.constraint = std::make_shared<Slow>(door);
  auto longer = asking(70, 4);
  std::copy(first.prompt_ids.begin(), first.prompt_ids.end(), longer.prompt_ids.begin());
  auto streams = engine.submit({first, longer});
  EXPECT_EQ(read_all(streams[1]).end, RequestEnd::length);
  door->is_open = true;
  EXPECT_EQ(read_all(streams[0]).end, RequestEnd::length);
}

TEST(ServingConstraints, LeavingNeedNotWaitForThem) {
  for (const int from : {0, 3}) {
    auto options = small(256);
    options.max_rows = 2;
    ServingEngine engine(tiny(), options);
    const auto door = std::make_shared<Door>();
    std::vector<std::weak_ptr<TokenConstraint>> constraints;
    std::vector<ServingRequest> requests(3, asking(20, 30));
    for (auto& request : requests) {
      request.constraint = std::make_shared<Slow>(door, from);
      constraints.push_back(request.constraint);
    }
    auto streams = engine.submit(std::move(requests));
    requests.clear();
    ASSERT_TRUE(eventually([&] { return door->knocks > 1; }));
    streams[0].cancel();
    EXPECT_EQ(read_all(streams[0]).end, RequestEnd::cancelled);
    streams[1] = RequestStream();
    streams[2] = RequestStream();
    test::settled(engine);
    // Their work is over, too.
    EXPECT_TRUE(eventually([&] {
      return std::all_of(constraints.begin(), constraints.end(),
                         [](const auto& one) { return one.expired(); });
    }));
    EXPECT_EQ(engine.metrics().blocks_in_use, 0U);
  }
}

TEST(ServingConstraints, DrainingWaitsForThemAndStoppingDoesNot) {
  ServingEngine engine(tiny(), small(256));
  const auto door = std::make_shared<Door>();
  auto request = asking(20, 5);
  request.constraint = std::make_shared<Slow>(door);
  auto ending = engine.submit(request);
  ASSERT_TRUE(eventually([&] { return door->knocks > 0; }));
  EXPECT_FALSE(engine.drain(1ms));
  door->is_open = true;
  EXPECT_TRUE(engine.drain(60s));
  EXPECT_EQ(read_all(ending).end, RequestEnd::length);

  ServingEngine stopped(tiny(), small(256));
  door->is_open = false;
  door->knocks = 0;
  request.constraint = std::make_shared<Slow>(door, 2);
  auto stuck = stopped.submit(request);
  ASSERT_TRUE(eventually([&] { return door->knocks > 0; }));
  stopped.stop();
  EXPECT_EQ(read_all(stuck).end, RequestEnd::shutdown);
}

TEST(ServingConstraints, TheirFaultsAreTheirRequestsAlone) {
  // Lets three tokens come.
  class Failing : public TokenConstraint {
   public:
    enum class Place : std::uint8_t { allow, accept };
    Failing(Place place, bool is_refused, bool is_slow)
        : place_(place), is_refused_(is_refused), is_slow_(is_slow) {}
    bool allow(std::span<std::uint32_t>, ConstraintTurn& turn) override {
      if (is_slow_) turn.give_way();
      if (place_ == Place::allow && taken_ == 3) fail();
      return false;
    }
    bool accept(TokenId, ConstraintTurn& turn) override {
      if (is_slow_) turn.give_way();
      if (place_ == Place::accept && taken_ == 2) fail();
      ++taken_;
      return true;
    }

   private:
    void fail() const {
      if (is_refused_) throw ConstraintRefused("too much is open");
      throw Error("no way on");
    }
    Place place_;
    bool is_refused_;
    bool is_slow_;
    int taken_ = 0;
  };
  ServingEngine engine(tiny(), small(256));
  auto expected_stream = engine.submit(asking(10, 30));
  const auto expected = read_all(expected_stream);
  for (const auto place : {Failing::Place::allow, Failing::Place::accept}) {
    for (const bool is_refused : {false, true}) {
      for (const bool is_slow : {false, true}) {
        auto with = asking(10, 30);
        with.constraint = std::make_shared<Failing>(place, is_refused, is_slow);
        auto streams = engine.submit({with, asking(10, 30)});
        const auto answer = read_all(streams[0]);
        EXPECT_EQ(answer.end, RequestEnd::failed);
        EXPECT_EQ(answer.outcome.refused, is_refused);
        EXPECT_THAT(answer.outcome.error, HasSubstr(is_refused ? "too much is open" : "no way on"));
        EXPECT_EQ(answer.ids, std::vector<TokenId>(expected.ids.begin(), expected.ids.begin() + 3));
        EXPECT_EQ(read_all(streams[1]), expected);
      }
    }
  }
}

/// A request that has all its tokens and whose consumer reads nothing is over, not stalled.
TEST(ServingConstraints, ACompleteOneIsNotStalled) {
  auto options = small(256);
  options.buffered_tokens = 3;
  options.stall_timeout = 1h;
  ServingEngine engine(tiny(), options);
  auto request = asking(10, 30);
  request.constraint = std::make_shared<Slow>(open_door(), 0, 3);
  auto stream = engine.submit(request);
  EXPECT_EQ(test::settled(engine).ended[static_cast<std::size_t>(RequestEnd::stop)], 1U);
  EXPECT_EQ(read_all(stream).ids.size(), 3U);
}

/// However many there are that take long, a short one gets its turn.
TEST(ConstraintWorkers, TakeTurns) {
  std::mutex mutex;
  std::set<std::uint64_t> answered;
  const auto is_answered = [&](std::uint64_t id) {
    const std::lock_guard lock(mutex);
    return answered.contains(id);
  };
  ConstraintWorkers workers(2, [&](std::uint64_t id) {
    const std::lock_guard lock(mutex);
    answered.insert(id);
  });
  const auto door = std::make_shared<Door>();
  const auto add = [&](std::uint64_t id, const std::shared_ptr<Door>& its_door) {
    auto task = std::make_shared<ConstraintTask>();
    task->request = id;
    task->constraint = std::make_shared<Slow>(its_door);
    task->mask_words = 4;
    EXPECT_TRUE(workers.add(task));
    return task;
  };
  std::vector<std::shared_ptr<ConstraintTask>> tasks;
  for (std::uint64_t id = 1; id <= 20; ++id) tasks.push_back(add(id, door));
  ASSERT_TRUE(eventually([&] { return door->knocks == 20; }));
  tasks.push_back(add(21, open_door()));
  EXPECT_TRUE(eventually([&] { return is_answered(21); }));
  EXPECT_EQ(tasks.back()->allowed, std::vector<std::uint32_t>(4, 0x5555'5555U));
  tasks.front()->abandoned = true;
  // Before the door opens: what is past its last look at `abandoned` would be answered.
  ASSERT_TRUE(eventually([&] { return tasks.front().use_count() == 1; }));
  door->is_open = true;
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return answered.size() == 20;
  }));
  EXPECT_FALSE(is_answered(1));
}

TEST(ConstraintWorkers, EndWithWorkUndone) {
  const auto door = std::make_shared<Door>();
  std::weak_ptr<TokenConstraint> left;
  {
    ConstraintWorkers workers(1, [](std::uint64_t) { ADD_FAILURE(); });
    for (std::uint64_t id = 1; id <= 100; ++id) {
      auto task = std::make_shared<ConstraintTask>();
      task->request = id;
      task->constraint = std::make_shared<Slow>(door);
      task->mask_words = 4;
      left = task->constraint;
      EXPECT_TRUE(workers.add(task));
    }
    ASSERT_TRUE(eventually([&] { return door->knocks > 10; }));
  }
  EXPECT_TRUE(left.expired());
}

}  // namespace
}  // namespace inferno
