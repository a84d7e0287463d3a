#include "engine/step_budget.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace inferno::test {
namespace {

StepLoad rows_at(std::uint32_t rows, std::uint32_t position) {
  StepLoad load;
  for (std::uint32_t i = 0; i < rows; ++i) load.add_row(position);
  return load;
}

StepLoad with_prompt(StepLoad load, std::uint32_t first, std::uint32_t count) {
  load.add_prompt(first, count);
  return load;
}

/// What a step costs, microseconds.
struct Machine {
  double step = 0, token = 0, position = 0, prompt_position = 0;
  double noise = 0;     // most, as a share of the step
  double outliers = 0;  // share of the steps that are interrupted for 4 to 8 ms
  std::mt19937 random = std::mt19937(7);

  double alone(const StepLoad& load) const {
    return step + token * (load.rows + load.prompt_tokens) + position * static_cast<double>(load.attended) +
           prompt_position * static_cast<double>(load.prompt_attended);
  }
  double uniform() { return static_cast<double>(random()) / 4294967296.0; }
  double measure(const StepLoad& load) {
    const double time = alone(load) * (1 + noise * (2 * uniform() - 1));
    return std::floor(uniform() < outliers ? time + 4000 * (1 + uniform()) : time);
  }
};

/// One prompt after the other beside rows that start again when they are too deep.
struct Traffic {
  std::uint32_t rows = 4, deepest_row = 1000, prompt = 2000, first_position = 0;
  std::uint32_t pause = 0;  // steps between prompts
  int steps = 8000, settling = 1000;
};

/// How long a step may last on a machine without noise: twice what rows alone needed in the last two seconds,
/// and a tenth more than what they need now.
class Limit {
 public:
  double next(double alone) {
    ++steps_;
    usual_ += std::clamp(std::sqrt(usual_ * alone) / 2e6, 1 / steps_, 1.0) * (alone - usual_);
    return std::max(2 * usual_, 1.1 * alone);
  }

 private:
  double usual_ = 0;
  double steps_ = 0;
};

/// How long the steps with prompts lasted on the machine without its noise, in times of the limit; those
/// where only the least is possible or that take all that is left do not count.
struct Stretches {
  std::vector<double> sorted;
  double tokens = 0, best_tokens = 0;  // all that went with steps, and that could have gone within the limit
  double at(double share) const {
    return sorted.at(static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1)));
  }
};

std::uint32_t best_count(const Machine& machine, const StepLoad& rows, std::uint32_t first,
                         std::uint32_t most, double limit) {
  std::uint32_t count = 0;
  while (count < most && machine.alone(with_prompt(rows, first, count + 1)) <= limit) ++count;
  return std::max(count, std::min(most, StepBudget::kLeast));
}

Stretches drive(StepBudget& budget, Machine machine, const Traffic& traffic) {
  Stretches found;
  Limit limits;
  int without = 0;  // steps in which no prompt got anything
  std::uint32_t depth = 0;
  std::uint32_t done = 0;
  std::uint32_t waiting = 0;
  for (int i = 0; i < traffic.steps; ++i) {
    const auto rows = rows_at(traffic.rows, traffic.first_position + depth);
    depth = (depth + 1) % traffic.deepest_row;
    auto load = rows;
    const double limit = limits.next(machine.alone(rows));
    if (waiting > 0) {
      --waiting;
    } else {
      const auto left = traffic.prompt - done;
      const auto count = budget.prompts(rows).take(done, left);
      EXPECT_LE(count, 512 - traffic.rows);
      if (count == 0) ++without;
      if (count > 0) {
        EXPECT_GE(count, std::min(left, StepBudget::kLeast));
      }
      load.add_prompt(done, count);
      const auto best = best_count(machine, rows, done, std::min(left, 512 - traffic.rows), limit);
      if (i > traffic.settling) {
        found.tokens += count;
        found.best_tokens += best;
        if (best > StepBudget::kLeast && count > 0 && count < left) {
          found.sorted.push_back(machine.alone(load) / limit);
        }
      }
      done += count;
      if (done == traffic.prompt) {
        done = 0;
        waiting = traffic.pause;
      }
    }
    budget.observe(load, machine.measure(load));
  }
  EXPECT_LE(without, 1 + traffic.steps / 16) << "to learn what rows cost alone";
  std::sort(found.sorted.begin(), found.sorted.end());
  return found;
}

TEST(StepLoad, CountsWhatTokensAttendTo) {
  StepLoad load;
  load.add_row(0);
  load.add_row(9);
  load.add_prompt(0, 3);
  load.add_prompt(10, 2);
  EXPECT_EQ(load.rows, 2U);
  EXPECT_EQ(load.attended, 11U);
  EXPECT_EQ(load.prompt_tokens, 5U);
  EXPECT_EQ(load.prompt_attended, 1U + 2 + 3 + 11 + 12);
  load.add_prompt(4'000'000'000, 200'000'000);  // no overflow
  EXPECT_EQ(load.prompt_attended, 29U + 820'000'000'100'000'000U);
}

TEST(StepCost, FindsTheCostsOfAMachine) {
  Machine machine{.step = 200, .token = 50, .position = 0.5, .prompt_position = 0.25, .noise = 0.2};
  StepCost cost;
  EXPECT_EQ(cost.predict(rows_at(4, 100)), 0);
  for (std::uint32_t i = 0; i < 3000; ++i) {
    const auto load = with_prompt(rows_at(1 + i % 5, i * 7 % 1000), i * 13 % 2000, i * 11 % 40);
    cost.observe(load, machine.measure(load));
  }
  EXPECT_NEAR(cost.per_token(), 50, 5);
  EXPECT_NEAR(cost.per_prompt_position(), 0.25, 0.025);
  const auto load = with_prompt(rows_at(4, 500), 1000, 20);
  EXPECT_NEAR(cost.predict(load) / machine.alone(load), 1, 0.04);
  EXPECT_NEAR(cost.predict(rows_at(4, 500)) / machine.alone(rows_at(4, 500)), 1, 0.06);
}

TEST(StepCost, AnInterruptionChangesLittle) {
  const Machine machine{.step = 200, .token = 50, .position = 0.5, .prompt_position = 0.25};
  StepCost cost;
  const auto observe = [&](std::uint32_t i, double more) {
    const auto load = with_prompt(rows_at(4, i % 1000), i * 13 % 2000, i * 11 % 40);
    cost.observe(load, machine.alone(load) + more);
  };
  for (std::uint32_t i = 0; i < 1000; ++i) observe(i, 0);
  const auto load = with_prompt(rows_at(4, 500), 1000, 20);
  const double before = cost.predict(load);
  observe(1001, 1e6);
  EXPECT_NEAR(cost.predict(load) / before, 1, 0.002);
}

TEST(StepCost, FollowsALastingChange) {
  StepCost cost;
  const auto load = rows_at(4, 100);
  for (int i = 0; i < 1000; ++i) cost.observe(load, 1000);
  EXPECT_NEAR(cost.predict(load), 1000, 1);
  for (int i = 0; i < 400; ++i) cost.observe(load, 5000);
  EXPECT_NEAR(cost.predict(load), 5000, 500);
  for (int i = 0; i < 600; ++i) cost.observe(load, 100);
  EXPECT_NEAR(cost.predict(load), 100, 10);
}

TEST(StepCost, StaysFiniteWhateverItIsTold) {
  StepCost cost;
  const std::vector<double> times = {0, 1e13, 0, 1, 1e19, 5, -1};
  for (std::uint32_t i = 0; i < 2000; ++i) {
    const auto load =
        with_prompt(i % 3 == 0 ? StepLoad{} : rows_at(i % 64, 4'000'000'000), i % 5 * 1'000'000, i % 2 * 512);
    cost.observe(load, times[i % times.size()]);
    const double predicted = cost.predict(load);
    ASSERT_TRUE(std::isfinite(predicted));
    ASSERT_GE(predicted, 0);
    ASSERT_GE(cost.per_token(), 0);
    ASSERT_GE(cost.per_prompt_position(), 0);
  }
}

TEST(StepBudget, KnowsNothingAtFirst) {
  StepBudget budget(512, 3);
  EXPECT_EQ(budget.prompts({}).take(0, 1000), 512U);
  EXPECT_TRUE(budget.prompts(rows_at(4, 0)).empty());  // measures the rows first
  budget.observe(rows_at(4, 0), 100);
  EXPECT_EQ(budget.prompts(rows_at(4, 1)).take(0, 1000), StepBudget::kLeast);
  EXPECT_EQ(budget.prompts(rows_at(5, 1)).take(0, 1000), StepBudget::kLeast);
}

TEST(StepBudget, APromptBeforeTheRowsTellsNothingAboutTheirCost) {
  StepBudget budget(512, 2);
  budget.observe(with_prompt({}, 0, 512), 30'000);
  EXPECT_TRUE(budget.prompts(rows_at(1, 512)).empty());
  budget.observe(rows_at(1, 512), 500);
  EXPECT_LE(budget.prompts(rows_at(1, 513)).take(0, 1000), 16U);
}

TEST(StepBudget, TokensAtMostDoubleFromStepToStep) {
  const Machine machine{.step = 10'000, .token = 1, .position = 0.001, .prompt_position = 0.001};
  StepBudget budget(512, 2);
  std::uint32_t done = 0;
  std::vector<std::uint32_t> counts;
  for (std::uint32_t i = 0; i < 12; ++i) {
    const auto count = budget.prompts(rows_at(8, i)).take(done, 10'000);
    const auto load = with_prompt(rows_at(8, i), done, count);
    budget.observe(load, machine.alone(load));
    done += count;
    counts.push_back(count);
  }
  EXPECT_EQ(counts[1], StepBudget::kLeast);
  for (std::size_t i = 2; i < counts.size(); ++i) EXPECT_LE(counts[i], 2 * counts[i - 1]);
  EXPECT_EQ(counts.back(), 504U);
}

TEST(StepBudget, LeavesRoomForTheRows) {
  const StepBudget budget(20, 0);
  EXPECT_EQ(budget.prompts(rows_at(4, 0)).take(0, 100), 16U);
  EXPECT_EQ(budget.prompts(rows_at(19, 0)).take(0, 100), 1U);
  EXPECT_TRUE(budget.prompts(rows_at(20, 0)).empty());
  EXPECT_TRUE(budget.prompts(rows_at(21, 0)).empty());
}

TEST(StepBudget, PromptsShareAnAllowance) {
  auto unlimited = StepBudget(101, 0).prompts(rows_at(1, 0));
  EXPECT_EQ(unlimited.take(0, 400, true), 50U);
  EXPECT_EQ(unlimited.take(7, 30), 30U);
  EXPECT_EQ(unlimited.take(9, 90), 20U);
  EXPECT_TRUE(unlimited.empty());

  const Machine machine{.step = 200, .token = 50, .position = 0.25, .prompt_position = 0.25};
  StepBudget budget(512, 2);
  drive(budget, machine, {});
  const auto rows = rows_at(4, 100);  // 501 us alone, of 1800 us: twice the mean of rows from 0 to 1000
  std::uint32_t deep = 0;
  std::uint32_t shallow = 0;
  StepLoad load;
  for (int i = 0; i < 10; ++i) {  // feels its way from the few tokens of late
    auto allowance = budget.prompts(rows);
    deep = allowance.take(1000, 6000, true);  // 300 us each
    shallow = allowance.take(0, 1000);        // 50 us and a little more
    load = with_prompt(with_prompt(rows, 1000, deep), 0, shallow);
    budget.observe(load, machine.alone(load));
  }
  EXPECT_EQ(deep, 2U);
  EXPECT_GE(shallow, 10U);
  EXPECT_NEAR(machine.alone(load) / machine.alone(rows_at(4, 500)), 2, 0.15);
  // What is promised is promised once.
  auto few = budget.prompts(rows);
  EXPECT_EQ(few.take(7000, 100, true), 1U);
  EXPECT_EQ(few.take(7000, 100), 1U);
  EXPECT_EQ(few.take(7000, 100), 0U);
}

TEST(StepBudget, StepsStayWithinTheStretchAtAnyDepth) {
  for (const auto& exact : {Machine{.step = 200, .token = 50, .position = 0.26, .prompt_position = 0.26},
                            Machine{.step = 250, .token = 50, .position = 0.49, .prompt_position = 0.26},
                            Machine{.step = 10, .token = 100, .position = 0.01, .prompt_position = 0.01},
                            Machine{.step = 2000, .token = 30, .position = 0.05, .prompt_position = 0.01},
                            Machine{.step = 8000, .token = 5, .position = 0.001, .prompt_position = 0.001}}) {
    for (const auto& traffic :
         {Traffic{}, Traffic{.deepest_row = 8000, .prompt = 8000, .steps = 20'000}, Traffic{.pause = 500},
          Traffic{.rows = 16, .deepest_row = 300, .prompt = 8000}, Traffic{.prompt = 60, .pause = 20}}) {
      auto machine = exact;
      StepBudget budget(512, 2);
      auto found = drive(budget, machine, traffic);
      const auto what = [&] {
        return testing::Message() << "step " << machine.step << ", noise " << machine.noise << ", rows "
                                  << traffic.rows << ", prompt " << traffic.prompt;
      };
      if (!found.sorted.empty()) {
        EXPECT_LE(found.at(1), 1.1) << what();
      }
      EXPECT_GE(found.tokens, 0.87 * found.best_tokens) << what();

      machine.noise = 0.2;
      machine.outliers = 0.01;
      budget = StepBudget(512, 2);
      found = drive(budget, machine, traffic);
      if (!found.sorted.empty()) {
        EXPECT_LE(found.at(0.5), 1.08) << what();
        EXPECT_LE(found.at(0.99), 1.38) << what();
      }
      EXPECT_GE(found.tokens, 0.8 * found.best_tokens) << what();
    }
  }
}

TEST(StepBudget, HoursOfTheSameDoNotSpoilIt) {
  Machine machine{.step = 200, .token = 50, .position = 0.26, .prompt_position = 0.26, .noise = 0.1};
  StepBudget budget(512, 2);
  drive(budget, machine, {});
  const auto rows = rows_at(4, 500);
  for (int i = 0; i < 100'000; ++i) budget.observe(rows, machine.measure(rows));
  const auto found = drive(budget, machine, {.settling = 20});
  EXPECT_LE(found.at(0.99), 1.3);
  EXPECT_GE(found.tokens, 0.8 * found.best_tokens);

  const auto mixed = with_prompt(rows, 100, 5);
  for (int i = 0; i < 100'000; ++i) budget.observe(mixed, machine.measure(mixed));
  EXPECT_LE(drive(budget, machine, {.settling = 20}).at(0.99), 1.3);
}

TEST(StepBudget, AStepThatTookTooLongIsFollowedByLess) {
  const Machine machine{.step = 200, .token = 50, .position = 0.25, .prompt_position = 0.25};
  StepBudget budget(512, 2);
  for (int i = 0; i < 100; ++i) budget.observe(rows_at(4, 500), machine.alone(rows_at(4, 500)));
  for (int i = 0; i < 100; ++i) {
    const auto load = with_prompt(rows_at(4, 500), 0, budget.prompts(rows_at(4, 500)).take(0, 1000));
    budget.observe(load, machine.alone(load));
  }
  budget.observe(rows_at(4, 500), machine.alone(rows_at(4, 500)));
  const auto before = budget.prompts(rows_at(4, 500)).take(0, 1000);
  EXPECT_NEAR(before, 18, 3);
  // The rows need 900 us of 1800: four times what was left, and it is to be a quarter.
  budget.observe(with_prompt(rows_at(4, 500), 0, before), 900 + 4 * 900);
  EXPECT_LE(budget.prompts(rows_at(4, 500)).take(0, 1000), before / 3);
  EXPECT_GE(budget.prompts(rows_at(4, 500)).take(0, 1000), before / 6);
}

TEST(StepBudget, APromptThatRanAloneTellsNothingAboutStepsWithRows) {
  StepBudget budget(512, 2);
  budget.observe(rows_at(4, 0), 1000);
  budget.observe(with_prompt({}, 0, 512), 20'000);
  EXPECT_LE(budget.prompts(rows_at(4, 1)).take(512, 1000), StepBudget::kLeast);
}

TEST(StepBudget, RowsThatNeedLittleLeaveMoreToPrompts) {
  const Machine machine{.step = 200, .token = 50, .position = 0.25, .prompt_position = 0.25};
  StepBudget budget(512, 2);
  drive(budget, machine, {});
  const auto tokens_beside = [&](std::uint32_t position) {
    const auto rows = rows_at(4, position);
    for (int i = 0; i < 10; ++i) {  // feels its way from the few tokens of late
      const auto load = with_prompt(rows, 0, budget.prompts(rows).take(0, 1000));
      budget.observe(load, machine.alone(load));
    }
    budget.observe(rows, machine.alone(rows));
    return budget.prompts(rows).take(0, 1000);
  };
  // About 1800 us in all: rows at 0 need 400, at 500 900, at 1000 1400, and beyond that only a tenth is left.
  EXPECT_NEAR(tokens_beside(0), 28, 3);
  EXPECT_NEAR(tokens_beside(500), 18, 3);
  EXPECT_NEAR(tokens_beside(1000), 8, 3);
  EXPECT_NEAR(tokens_beside(3000), 7, 2);
}

TEST(StepBudget, FollowsRowsThatBecomeMany) {
  const Machine machine{.step = 200, .token = 50, .position = 0.25, .prompt_position = 0.25};
  StepBudget budget(512, 2);
  for (int i = 0; i < 1000; ++i) budget.observe(rows_at(1, 10), machine.alone(rows_at(1, 10)));
  const auto rows = rows_at(64, 10);  // 3.6 ms instead of 0.25
  std::uint32_t done = 0;
  std::uint32_t tokens = 0;
  const auto step = [&] {
    const auto count = budget.prompts(rows).take(done, 2000);
    auto load = rows;
    load.add_prompt(done, count);
    done = done + count < 1000 ? done + count : 0;
    budget.observe(load, machine.alone(load));
    return count;
  };
  for (int i = 0; i < 20; ++i) tokens += step();
  EXPECT_GE(tokens, 20 * StepBudget::kLeast) << "a tenth of the rows' time at once";
  for (int i = 0; i < 2000; ++i) step();
  tokens = 0;
  for (int i = 0; i < 160; ++i) tokens += step();
  EXPECT_GE(tokens / 160, 10U) << "all of the rows' time after some seconds";
}

}  // namespace
}  // namespace inferno::test
