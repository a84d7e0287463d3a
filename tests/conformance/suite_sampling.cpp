// Sampling slots: settings, masks and histories that live with the executor.

#include "conformance/conformance.hpp"
#include "sampling/sampler.hpp"

namespace inferno::conformance {
namespace {

SamplingSettings lively(std::uint64_t seed) {
  SamplingSettings settings;
  settings.temperature = 1.2F;
  settings.top_k = 40;
  settings.top_p = 0.97F;
  settings.seed = seed;
  return settings;
}

SamplingSettings penalized(std::uint64_t seed) {
  SamplingSettings settings = lively(seed);
  settings.repetition_penalty = 1.4F;
  settings.presence_penalty = 0.8F;
  settings.frequency_penalty = 0.6F;
  settings.logit_bias = {{2, 1.5F}, {3, -100.0F}};
  return settings;
}

// Greedy, with one id far ahead and every id only once: wrong counting shows at once.
SamplingSettings never_twice() {
  SamplingSettings settings;
  settings.presence_penalty = 100.0F;
  settings.logit_bias = {{6, 60.0F}};
  return settings;
}

}  // namespace

class SlotDriver {
 public:
  static void set(Executor& executor, std::uint32_t slot, const SamplingSettings& settings, const Ids& prompt,
                  const Ids& generated = {}) {
    SlotState state;
    state.settings = settings;
    state.prompt = prompt;
    state.generated = generated;
    executor.set_slot(slot, state);
  }
};

TEST_P(Conformance, SlotsChooseAsTheSamplerDoes) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  INFERNO_NEEDS(logits, "logits");
  const Ids ids = prompt(180, 12);
  for (const SamplingSettings& settings : {lively(1), penalized(2), never_twice()}) {
    SlotDriver::set(executor(), 4, settings, ids);
    const Transcript transcript = generate(executor(), ids, 14, {.slot = 4});
    TokenHistory history(vocab_size());
    history.add_prompt(ids);
    for (std::size_t i = 0; i < 14; ++i) {
      const auto logits = std::span(transcript.logits).subspan(i * vocab_size(), vocab_size());
      const Choice choice = choose(logits, settings, history, static_cast<std::uint32_t>(12 + i));
      ASSERT_EQ(transcript.ids[i], choice.id) << "step " << i << ' ' << choice.error;
      history.add_generated(choice.id);
    }
  }
}

TEST_P(Conformance, DrawsDoNotDependOnChunksAndChains) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  const Ids ids = prompt(181, 20);
  for (const SamplingSettings& settings : {lively(7), penalized(8), never_twice()}) {
    const auto run = [&](How how) {
      how.slot = 2;
      SlotDriver::set(executor(), 2, settings, ids);
      return generate(executor(), ids, 15, how);
    };
    const Transcript expected = run({});
    EXPECT_EQ(run({}), expected) << "the same seed";
    EXPECT_EQ(run({.chunk = 3}), expected);
    EXPECT_EQ(run({.blocks = {40, 8, 41}}), expected);
    if (!capabilities().multi_step) continue;
    for (const std::uint32_t chain : {2U, 5U, 15U})
      EXPECT_EQ(run({.chain = chain}), expected) << "chains of " << chain;
  }
}

TEST_P(Conformance, SeedsMatter) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  const Ids ids = prompt(182, 10);
  SamplingSettings settings = lively(1);
  settings.temperature = 5.0F;
  SlotDriver::set(executor(), 0, settings, ids);
  const Transcript first = generate(executor(), ids, 16, {.slot = 0});
  settings.seed = 2;
  SlotDriver::set(executor(), 0, settings, ids);
  EXPECT_NE(generate(executor(), ids, 16, {.slot = 0}).ids, first.ids);
}

TEST_P(Conformance, SlotsOfABatchAreIndependent) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  const std::uint32_t steps = capabilities().multi_step ? 8 : 1;
  std::vector<Ids> expected;
  StepBatch batch;
  for (std::uint32_t row = 0; row < 6; ++row) {
    const Ids ids = prompt(190 + row % 2, 9);  // equal prompts with other seeds, too
    const SamplingSettings settings = row % 3 == 0 ? never_twice() : penalized(row);
    const std::uint32_t slot = row == 5 ? kGreedySlot : 10 - row;
    if (slot != kGreedySlot) SlotDriver::set(executor(), slot, settings, ids);
    expected.push_back(generate(executor(), ids, steps, {.slot = slot}).ids);
    if (slot != kGreedySlot) SlotDriver::set(executor(), slot, settings, ids);
    batch.add_row(inputs(ids), 0, block_run(10 + row * 2, 2), slot);
    batch.add_output(OutputKind::token);
  }
  const StepResult result = executor().wait(executor().submit(batch, {.max_steps = steps, .stop_ids = {}}));
  for (std::size_t row = 0; row < 6; ++row) EXPECT_EQ(result.ids[row], expected[row]) << "row " << row;
}

TEST_P(Conformance, HistoriesCountWhatWasGeneratedBefore) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  const Ids ids = prompt(183, 10);
  SlotDriver::set(executor(), 1, never_twice(), ids);
  const Transcript whole = generate(executor(), ids, 12, {.slot = 1});
  for (std::size_t i = 0; i < 12; ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(whole.ids[i], whole.ids[j]) << i << " and " << j;
  }
  // Taken up elsewhere, by a slot that is told what was generated.
  SlotDriver::set(executor(), 5, never_twice(), ids, slice(whole.ids, 0, 7));
  const Transcript rest =
      generate(executor(), joined(ids, slice(whole.ids, 0, 7)), 5, {.blocks = block_run(50, 2), .slot = 5});
  EXPECT_EQ(rest.ids, slice(whole.ids, 7, 12));
}

TEST_P(Conformance, StopIdsAreCounted) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  const Ids ids = prompt(184, 10);
  SlotDriver::set(executor(), 1, never_twice(), ids);
  const Transcript expected = generate(executor(), ids, 4, {.slot = 1});
  SlotDriver::set(executor(), 1, never_twice(), ids);
  Ids chosen;
  for (std::uint32_t i = 0; i < 4; ++i) {  // every step stops, and the host goes on
    StepBatch batch;
    if (i == 0) {
      batch.add_row(inputs(ids), 0, block_run(20, 1), 1);
    } else {
      batch.add_row({TokenInput::of(chosen.back())}, 9 + i, block_run(20, 1), 1);
    }
    batch.add_output(OutputKind::token);
    SubmitOptions options;
    options.stop_ids.ids = {expected.ids[i]};
    const StepResult result = executor().wait(executor().submit(batch, options));
    EXPECT_EQ(result.status[0], RowStatus::stopped);
    chosen.push_back(result.ids[0].at(0));
  }
  EXPECT_EQ(chosen, expected.ids);
}

TEST_P(Conformance, ReferencedTokensAreCountedOnce) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  INFERNO_NEEDS(token_references, "token references");
  const Ids ids = prompt(185, 10);
  SamplingSettings settings = penalized(11);
  settings.frequency_penalty = 1.7F;
  SlotDriver::set(executor(), 1, settings, ids);
  const Transcript expected = generate(executor(), ids, 8, {.slot = 1});
  SlotDriver::set(executor(), 1, settings, ids);
  std::vector<Ticket> tickets;
  for (std::uint32_t i = 0; i < 8; ++i) {
    StepBatch batch;
    if (i == 0) {
      batch.add_row(inputs(ids), 0, block_run(20, 2), 1);
    } else {
      batch.add_row({TokenInput::from(tickets.back(), 0)}, 9 + i, block_run(20, 2), 1);
    }
    batch.add_output(OutputKind::token);
    tickets.push_back(executor().submit(batch));
  }
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(executor().wait(tickets[i]).ids[0], slice(expected.ids, i, i + 1));
}

TEST_P(Conformance, BansAndBiasHold) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  const Ids ids = prompt(186, 10);
  const Transcript plain = generate(executor(), ids, 1);
  SamplingSettings settings;
  settings.logit_bias = {{plain.ids[0], -100.0F}};
  SlotDriver::set(executor(), 1, settings, ids);
  EXPECT_NE(generate(executor(), ids, 1, {.slot = 1}).ids, plain.ids);
  settings.logit_bias = {{7, 100.0F}};
  SlotDriver::set(executor(), 1, settings, ids);
  EXPECT_EQ(generate(executor(), ids, 3, {.slot = 1}).ids, (Ids{7, 7, 7}));
}

TEST_P(Conformance, MasksHoldUntilTheSlotIsSetAgain) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  INFERNO_NEEDS(token_masks, "token masks");
  const Ids ids = prompt(187, 10);
  const auto last = static_cast<std::int32_t>(vocab_size() - 1);
  const Transcript plain = generate(executor(), ids, 6);
  for (const std::int32_t only : {0, 31, 32, last}) {
    SlotState state;
    state.allowed.assign((vocab_size() + 31) / 32, 0);
    state.allowed[static_cast<std::size_t>(only) / 32] = 1U << static_cast<unsigned>(only) % 32;
    executor().set_slot(6, state);
    EXPECT_EQ(generate(executor(), ids, 6, {.slot = 6}).ids, Ids(6, only));
  }
  SlotState all;
  all.allowed.assign((vocab_size() + 31) / 32, 0xFFFF'FFFF);
  executor().set_slot(6, all);
  EXPECT_EQ(generate(executor(), ids, 6, {.slot = 6}), plain);
  executor().set_slot(6, {});
  EXPECT_EQ(generate(executor(), ids, 6, {.slot = 6}), plain);
}

TEST_P(Conformance, SlotsStartGreedyAndAreSetAnew) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  const Ids ids = prompt(188, 10);
  const Transcript greedy = generate(executor(), ids, 6);
  EXPECT_EQ(generate(executor(), ids, 6, {.slot = 9}), greedy) << "a slot that was never set";
  SlotDriver::set(executor(), 9, never_twice(), ids);
  const Transcript once = generate(executor(), ids, 6, {.slot = 9});
  SlotDriver::set(executor(), 9, never_twice(), ids);
  EXPECT_EQ(generate(executor(), ids, 6, {.slot = 9}), once) << "setting a slot forgets what it had counted";
  executor().reserve(roomy());
  EXPECT_EQ(generate(executor(), ids, 6, {.slot = 9}), greedy) << "reserve forgets slots";
}

TEST_P(Conformance, SlotChangesComeAfterWhatWasSubmitted) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  const Ids ids = prompt(189, 10);
  SamplingSettings always;
  always.logit_bias = {{4, 100.0F}};
  SamplingSettings other;
  other.logit_bias = {{5, 100.0F}};
  SlotDriver::set(executor(), 0, always, ids);
  StepBatch batch;
  batch.add_row(inputs(ids), 0, block_run(0, 1), 0);
  batch.add_output(OutputKind::token);
  const Ticket before = executor().submit(batch);
  SlotDriver::set(executor(), 0, other, ids);
  const Ticket after = executor().submit(batch);
  EXPECT_EQ(executor().wait(after).ids[0], Ids{5});
  EXPECT_EQ(executor().wait(before).ids[0], Ids{4});
}

TEST_P(Conformance, SlotStatesThatMakeNoSenseAreRefused) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  const auto size = static_cast<std::int32_t>(vocab_size());
  const std::uint32_t slot = roomy().slots - 1;  // the one that expect_refused watches
  const auto set = [&](auto&& change) {
    return [this, slot, change] {
      SlotState state;
      state.settings.temperature = 9.0F;
      change(state);
      executor().set_slot(slot, state);
    };
  };
  expect_refused(set([](SlotState& state) { state.settings.temperature = -1.0F; }), "temperature");
  expect_refused(
      set([](SlotState& state) { state.settings.top_p = std::numeric_limits<float>::quiet_NaN(); }), "top_p");
  expect_refused(set([&](SlotState& state) { state.settings.logit_bias = {{size, 1.0F}}; }), "logit_bias");
  expect_refused(set([&](SlotState& state) { state.prompt = {0, size}; }), "prompt[1]");
  expect_refused(set([](SlotState& state) { state.prompt = {-1}; }), "prompt[0]");
  expect_refused(set([&](SlotState& state) { state.generated = {0, 1, size}; }), "generated[2]");
  expect_refused([this] { executor().set_slot(executor().limits().slots, {}); }, "slot");
  expect_refused([this] { executor().set_slot(kGreedySlot, {}); }, "slot");
  if (!capabilities().token_masks) return;
  expect_refused(set([&](SlotState& state) { state.allowed.assign((vocab_size() + 31) / 32 + 1, ~0U); }),
                 "allowed");
  expect_refused(set([](SlotState& state) { state.allowed = {~0U}; }), "allowed");
}

// Drafts: every output of a row is chosen as if the tokens before it had been generated.
TEST_P(Conformance, DraftsAreVerifiedAsIfGenerated) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  const Ids ids = prompt(200, 18);
  for (const SamplingSettings& settings : {SamplingSettings{}, lively(21), penalized(22), never_twice()}) {
    SlotDriver::set(executor(), 3, settings, ids);
    const Transcript truth = generate(executor(), ids, 9, {.slot = 3});
    const Blocks blocks = block_run(40, 2);
    feed(executor(), slice(ids, 0, 17), 0, blocks);

    // Right drafts to index 4, a wrong one, then one more; verified in one row with the last prompt token.
    SlotDriver::set(executor(), 3, settings, ids);
    Ids row = {ids[17]};
    for (std::size_t i = 0; i < 4; ++i) row.push_back(truth.ids[i]);
    row.push_back((truth.ids[4] + 1) % static_cast<std::int32_t>(vocab_size()));
    row.push_back(1);
    StepBatch batch;
    batch.add_row(inputs(row), 17, blocks, 3);
    for (std::uint32_t i = 0; i < row.size(); ++i) batch.add_output_at(i, OutputKind::token);
    SubmitOptions options;
    options.stop_ids.ids = {truth.ids[0], truth.ids[2]};
    const StepResult result = executor().wait(executor().submit(batch, options));
    EXPECT_EQ(result.status[0], RowStatus::ok) << "stop ids among drafts are the host's affair";
    for (std::size_t i = 0; i <= 4; ++i)
      EXPECT_EQ(result.ids[i], slice(truth.ids, i, i + 1)) << "output " << i;

    // The same with the sampler that is told the drafts one by one.
    const Ids wrong = slice(row, 1, row.size());
    SlotDriver::set(executor(), 3, settings, ids, wrong);
    const Ids as_if = generate(executor(), joined(ids, wrong), 1, {.slot = 3}).ids;
    EXPECT_EQ(result.ids[6], as_if);

    // Five are accepted: the host truncates, tells the slot and goes on.
    SlotDriver::set(executor(), 3, settings, ids, slice(truth.ids, 0, 5));
    Ids rest;
    for (std::uint32_t i = 5; i < 9; ++i) {
      StepBatch next;
      next.add_row({TokenInput::of(rest.empty() ? truth.ids[4] : rest.back())}, 17 + i, blocks, 3);
      next.add_output(OutputKind::token);
      rest.push_back(executor().wait(executor().submit(next)).ids[0].at(0));
    }
    EXPECT_EQ(rest, slice(truth.ids, 5, 9));
  }
}

TEST_P(Conformance, DraftsDoNotChangeTheHistory) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  const Ids ids = prompt(201, 8);
  const SamplingSettings settings = never_twice();
  SlotDriver::set(executor(), 3, settings, ids);
  const Transcript truth = generate(executor(), ids, 5, {.slot = 3});
  SlotDriver::set(executor(), 3, settings, ids);
  const Blocks blocks = block_run(40, 2);
  Ids row = joined(ids, slice(truth.ids, 0, 4));
  StepBatch batch;
  batch.add_row(inputs(row), 0, blocks, 3);
  for (std::uint32_t i = 7; i < row.size(); ++i) batch.add_output_at(i, OutputKind::token);
  for (int time = 0; time < 3; ++time) {
    const StepResult result = executor().wait(executor().submit(batch));
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(result.ids[i], slice(truth.ids, i, i + 1));
  }
  EXPECT_EQ(generate(executor(), ids, 5, {.slot = 3}), truth) << "nothing was counted";
}

}  // namespace inferno::conformance
