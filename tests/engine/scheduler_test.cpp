#include "engine/scheduler.hpp"

#include <gtest/gtest.h>

#include "engine/model_parts.hpp"
#include "engine/serving_fixture.hpp"

namespace inferno::test {
namespace {

/// A scheduler and what the loop around it does, without an executor: every request goes on with token 1.
class Scheduling : public testing::Test {
 protected:
  void start(std::uint32_t blocks, std::uint32_t step_tokens, std::uint32_t max_rows = 8) {
    scheduler_ = std::make_unique<Scheduler>(SchedulerSettings{.max_rows = max_rows,
                                                               .step_tokens = step_tokens,
                                                               .step_stretch = 0,
                                                               .block_size = 4,
                                                               .blocks = blocks,
                                                               .lookahead = 0});
  }
  std::uint64_t add(std::size_t prompt, std::uint32_t max_tokens, std::uint64_t seed,
                    std::int32_t priority = 0) {
    auto request = std::make_unique<ServedRequest>(
        RequestKind::generate, Sequence(tiny().parts().tokenizer, tiny_prompt(prompt, seed), {},
                                        {.max_tokens = max_tokens, .ignore_end_tokens = true}));
    request->id = ++last_id_;
    request->priority = priority;
    scheduler_->add(std::move(request));
    return last_id_;
  }
  /// Runs a step; {id, tokens} of its rows.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> step() {
    const auto rows = scheduler_->form_step();
    std::vector<std::pair<std::uint64_t, std::uint32_t>> shares;
    for (const auto& row : rows) shares.emplace_back(row.request->id, row.count);
    for (const auto& row : rows) {
      const bool completes = row.completes();
      scheduler_->written(*row.request, row.first + row.count);
      if (!completes) continue;
      row.request->sequence.accept(1);
      if (row.request->sequence.finish_reason()) scheduler_->remove(row.request->id);
    }
    return shares;
  }

  using Shares = std::vector<std::pair<std::uint64_t, std::uint32_t>>;
  std::unique_ptr<Scheduler> scheduler_;
  std::uint64_t last_id_ = 0;
};

TEST_F(Scheduling, HalfOfTheRoomIsTheFirstPromptsTheRestTheShortests) {
  start(1000, 100);
  add(400, 4, 1);
  add(90, 4, 2);
  add(30, 4, 3);
  EXPECT_EQ(step(), (Shares{{1, 50}, {3, 30}, {2, 20}}));
  EXPECT_EQ(step(), (Shares{{3, 1}, {1, 50}, {2, 49}}));
}

TEST_F(Scheduling, EqualPromptsAreServedInOrder) {
  start(1000, 100);
  for (std::uint64_t i = 1; i <= 4; ++i) add(80, 4, i);
  EXPECT_EQ(step(), (Shares{{1, 80}, {2, 20}}));
  EXPECT_EQ(step(), (Shares{{1, 1}, {2, 60}, {3, 39}}));
}

TEST_F(Scheduling, ALowerPriorityWaitsForTheHigherOnesPrompts) {
  start(1000, 100);
  add(10, 4, 1, -1);
  add(300, 4, 2, 0);
  EXPECT_EQ(step(), (Shares{{2, 100}}));
}

TEST_F(Scheduling, NobodyOvertakesWhoWaitsForRoom) {
  start(20, 100);
  add(40, 20, 1);  // 10 blocks
  step();
  add(60, 4, 2);  // 15 blocks: has to wait
  add(4, 4, 3);   // 1 block: would fit
  EXPECT_EQ(step(), (Shares{{1, 1}}));
  EXPECT_EQ(scheduler_->queued(), 2U);
  for (int i = 0; i < 18; ++i) EXPECT_EQ(step(), (Shares{{1, 1}}));
  EXPECT_EQ(step(), (Shares{{2, 60}, {3, 4}}));
}

TEST_F(Scheduling, WhoNeedsAPrefixThatIsBeingRunWaitsAndOthersGoFirst) {
  start(1000, 20);
  add(41, 4, 1);
  step();
  add(43, 4, 1);  // the same first 41
  add(8, 4, 2);
  EXPECT_EQ(step(), (Shares{{1, 12}, {3, 8}}));
  EXPECT_EQ(scheduler_->queued(), 1U);
  EXPECT_EQ(step(), (Shares{{3, 1}, {1, 9}}));
  EXPECT_EQ(step(), (Shares{{1, 1}, {3, 1}, {2, 3}}));
  EXPECT_EQ(scheduler_->counts().cached_prompt_tokens, 40U);
}

TEST_F(Scheduling, ACancelledPromiseKeepsNobodyWaiting) {
  start(1000, 20);
  const auto first = add(41, 4, 1);
  step();
  add(41, 4, 1);
  step();
  scheduler_->remove(first);
  EXPECT_EQ(step(), (Shares{{2, 1}}));
}

TEST_F(Scheduling, TheNewestIsPausedAndTheOldestGoesOn) {
  start(10, 100);
  add(16, 20, 1);  // 4 blocks, 9 in the end
  add(16, 20, 2);
  std::uint32_t first = 0;
  bool second_waited = false;
  while (scheduler_->has_work()) {
    const auto shares = step();
    ASSERT_FALSE(shares.empty());
    if (first < 20) {
      EXPECT_EQ(shares.front().first, 1U);
      ++first;
      second_waited = second_waited || shares.size() == 1;
    }
  }
  EXPECT_TRUE(second_waited);
  EXPECT_GE(scheduler_->counts().pauses, 1U);
  EXPECT_LE(scheduler_->counts().pauses, 4U);
  EXPECT_EQ(scheduler_->blocks_free() + scheduler_->blocks_cached(), 10U);
}

TEST_F(Scheduling, AHigherPriorityTakesRoomFromALower) {
  start(10, 100);
  const auto low = add(32, 4, 1);
  step();
  add(36, 1, 2, 1);
  EXPECT_EQ(step(), (Shares{{2, 36}}));
  EXPECT_EQ(scheduler_->paused(), 1U);
  EXPECT_EQ(step().front().first, low);
}

}  // namespace
}  // namespace inferno::test
