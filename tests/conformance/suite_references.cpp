// Tokens that refer to what an earlier submission chose.

#include "conformance/conformance.hpp"

namespace inferno::conformance {
namespace {

StepBatch one_row(const std::vector<TokenInput>& tokens, std::size_t position, const Blocks& blocks) {
  StepBatch batch;
  batch.add_row(tokens, static_cast<std::uint32_t>(position), blocks);
  batch.add_output(OutputKind::token);
  return batch;
}

}  // namespace

TEST_P(Conformance, ReferencesEqualLiterals) {
  INFERNO_NEEDS(token_references, "token references");
  const Ids ids = prompt(100, 14);
  const Transcript expected = generate(executor(), ids, 6);
  const Blocks blocks = block_run(30, 2);
  Ticket ticket = executor().submit(one_row(inputs(ids), 0, blocks));
  Ids chosen = executor().wait(ticket).ids[0];
  for (std::size_t step = 1; step < 6; ++step) {  // each to a submission whose result was handed over
    ticket = executor().submit(one_row({TokenInput::from(ticket, 0)}, 13 + step, blocks));
    chosen.push_back(executor().wait(ticket).ids[0].at(0));
  }
  EXPECT_EQ(chosen, expected.ids);
}

TEST_P(Conformance, ReferencesToUnfinishedSubmissions) {
  INFERNO_NEEDS(token_references, "token references");
  const Ids ids = prompt(101, 14);
  const Transcript expected = generate(executor(), ids, 8);
  const Blocks blocks = block_run(30, 2);
  std::vector<Ticket> tickets = {executor().submit(one_row(inputs(ids), 0, blocks))};
  for (std::size_t step = 1; step < 8; ++step) {
    tickets.push_back(executor().submit(one_row({TokenInput::from(tickets.back(), 0)}, 13 + step, blocks)));
  }
  Ids chosen;
  for (const Ticket ticket : tickets) chosen.push_back(executor().wait(ticket).ids[0].at(0));
  EXPECT_EQ(chosen, expected.ids);
}

TEST_P(Conformance, ReferencesInRaggedBatches) {
  INFERNO_NEEDS(token_references, "token references");
  const Ids a = prompt(102, 9);
  const Ids b = prompt(103, 21);
  const Transcript from_a = generate(executor(), a, 3);
  const Transcript from_b = generate(executor(), b, 3);
  StepBatch first;
  first.add_row(inputs(a), 0, block_run(0, 2));
  first.add_output(OutputKind::token);
  first.add_row(inputs(b), 0, block_run(2, 2));
  first.add_output(OutputKind::token);
  const Ticket ticket = executor().submit(first);
  // The other way round, a literal beside a reference, and a reference as the second token of a row.
  StepBatch second;
  second.add_row({TokenInput::from(ticket, 1)}, 21, block_run(2, 2));
  second.add_output(OutputKind::token);
  second.add_row({TokenInput::from(ticket, 0), TokenInput::of(from_a.ids[1])}, 9, block_run(0, 2));
  second.add_output(OutputKind::token);
  second.add_row({TokenInput::of(from_b.ids[0]), TokenInput::from(ticket, 1)}, 0, block_run(4, 1));
  second.add_output(OutputKind::token);
  const StepResult result = executor().wait(executor().submit(second));
  EXPECT_EQ(result.ids[0], slice(from_b.ids, 1, 2));
  EXPECT_EQ(result.ids[1], slice(from_a.ids, 2, 3));
  EXPECT_EQ(result.ids[2], generate(executor(), {from_b.ids[0], from_b.ids[0]}, 1).ids);
}

TEST_P(Conformance, ReferencesTakeTheLastIdOfAChain) {
  INFERNO_NEEDS(token_references, "token references");
  INFERNO_NEEDS(multi_step, "chained steps");
  const Ids ids = prompt(104, 6);
  const Transcript expected = generate(executor(), ids, 9);
  const Blocks blocks = block_run(30, 1);
  const Ticket first = executor().submit(one_row(inputs(ids), 0, blocks), {.max_steps = 4, .stop_ids = {}});
  const Ticket second =
      executor().submit(one_row({TokenInput::from(first, 0)}, 9, blocks), {.max_steps = 5, .stop_ids = {}});
  EXPECT_EQ(executor().wait(first).ids[0], slice(expected.ids, 0, 4));
  EXPECT_EQ(executor().wait(second).ids[0], slice(expected.ids, 4, 9));
}

TEST_P(Conformance, ReferencesToStoppedRowsSkip) {
  INFERNO_NEEDS(token_references, "token references");
  const Turn turn = turn_at(0, 2);
  const Ids other = prompt(105, 7);
  const Transcript expected = generate(executor(), other, 2);
  StepBatch first;
  first.add_row(inputs(turn.prompt), 0, block_run(0, 2));
  first.add_output(OutputKind::token);
  first.add_row(inputs(other), 0, block_run(2, 2));
  first.add_output(OutputKind::token);
  SubmitOptions options;
  options.stop_ids = {.ids = {turn.id()}, .row_offsets = {0, 1, 1}};
  const Ticket ticket = executor().submit(first, options);
  const auto position = static_cast<std::uint32_t>(turn.prompt.size());
  StepBatch second;
  second.add_row({TokenInput::from(ticket, 0)}, position, block_run(0, 2));
  second.add_output(OutputKind::token);
  second.add_row({TokenInput::from(ticket, 1)}, 7, block_run(2, 2));
  second.add_output(OutputKind::token);
  const Ticket next = executor().submit(second);
  // What refers to a skipped row is skipped, too.
  StepBatch third;
  third.add_row({TokenInput::from(next, 0)}, position + 1, block_run(0, 2));
  third.add_output(OutputKind::token);
  const Ticket last = executor().submit(third);

  EXPECT_EQ(executor().wait(ticket).status[0], RowStatus::stopped);
  const StepResult result = executor().wait(next);
  EXPECT_EQ(result.status[0], RowStatus::skipped);
  EXPECT_TRUE(result.ids[0].empty());
  EXPECT_EQ(result.status[1], RowStatus::ok);
  EXPECT_EQ(result.ids[1], slice(expected.ids, 1, 2));
  const StepResult end = executor().wait(last);
  EXPECT_EQ(end.status[0], RowStatus::skipped);
  EXPECT_EQ(end.steps, 0U);
}

TEST_P(Conformance, ReferencesToFailedRowsSkip) {
  INFERNO_NEEDS(token_references, "token references");
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  INFERNO_NEEDS(token_masks, "token masks");
  SlotState nothing;
  nothing.allowed.assign((vocab_size() + 31) / 32, 0);
  executor().set_slot(0, nothing);
  StepBatch batch;
  batch.add_row(inputs(prompt(106, 4)), 0, block_run(0, 1), 0);
  batch.add_output(OutputKind::token);
  const Ticket ticket = executor().submit(batch);
  const Ticket next = executor().submit(one_row({TokenInput::from(ticket, 0)}, 4, block_run(0, 1)));
  EXPECT_EQ(executor().wait(next).status[0], RowStatus::skipped);
  EXPECT_EQ(executor().wait(ticket).status[0], RowStatus::failed);
}

TEST_P(Conformance, ReferencesToCancelledRowsSkip) {
  INFERNO_NEEDS(token_references, "token references");
  const Ticket ticket = executor().submit(one_row(inputs(prompt(107, 4)), 0, block_run(0, 1)));
  const Ticket next = executor().submit(one_row({TokenInput::from(ticket, 0)}, 4, block_run(0, 1)));
  executor().cancel(ticket);
  const StepResult result = executor().wait(next);
  const StepResult cancelled = executor().wait(ticket);
  if (cancelled.status[0] == RowStatus::ok) {
    GTEST_SKIP() << "the submission was done before it could be cancelled";
  }
  EXPECT_EQ(result.status[0], RowStatus::skipped);
}

TEST_P(Conformance, ReferencesReachAsFarAsDeclared) {
  INFERNO_NEEDS(token_references, "token references");
  const std::uint32_t reach = capabilities().referable_tickets;
  ASSERT_GE(reach, 1U);
  const Ids ids = prompt(108, 5);
  const Transcript expected = generate(executor(), ids, 2);
  const Ticket ticket = executor().submit(one_row(inputs(ids), 0, block_run(0, 1)));
  std::vector<Ticket> between;
  for (std::uint32_t i = 0; i + 1 < reach; ++i) {
    between.push_back(executor().submit(one_row(inputs(prompt(109, 2)), 0, block_run(5, 1))));
  }
  // The oldest one that may be named, from a queue as long as the reach; and one beyond.
  const Ticket last = executor().submit(one_row({TokenInput::from(ticket, 0)}, 5, block_run(0, 1)));
  EXPECT_THROW(executor().submit(one_row({TokenInput::from(ticket, 0)}, 5, block_run(0, 1))), UsageError);
  EXPECT_EQ(executor().wait(last).ids[0], slice(expected.ids, 1, 2));
  for (const Ticket other : between) EXPECT_EQ(executor().wait(other).status[0], RowStatus::ok);
  EXPECT_EQ(executor().wait(ticket).ids[0], slice(expected.ids, 0, 1));
}

TEST_P(Conformance, ReferencesThatCannotBeAreRefused) {
  INFERNO_NEEDS(token_references, "token references");
  const Ids ids = prompt(110, 5);
  const Ticket old = executor().submit(one_row(inputs(ids), 0, block_run(0, 1)));
  executor().wait(old);
  for (std::uint32_t i = 0; i < capabilities().referable_tickets; ++i) {
    executor().wait(executor().submit(one_row(inputs(ids), 0, block_run(0, 1))));
  }
  const auto submit = [&](Ticket ticket, std::uint32_t output) {
    return [this, ticket, output] {
      executor().submit(one_row({TokenInput::from(ticket, output)}, 5, block_run(0, 1)));
    };
  };
  expect_refused(submit(old, 0), "tokens[0].ticket");
  expect_refused(submit(1'000'000, 0), "tokens[0].ticket");
  expect_refused(submit(~Ticket{0}, 0), "tokens[0].ticket");

  StepBatch batch;
  batch.add_row(inputs(ids), 0, block_run(0, 1));
  batch.add_output(OutputKind::token);
  if (capabilities().logits) batch.add_output(OutputKind::logits);
  const auto fresh_ticket = [&] {
    const Ticket ticket = executor().submit(batch);
    executor().wait(ticket);
    return ticket;
  };
  expect_refused([&] { submit(fresh_ticket(), 2)(); }, "tokens[0].output");
  expect_refused([&] { submit(fresh_ticket(), 0xFFFF'FFFF)(); }, "tokens[0].output");
  if (capabilities().logits) expect_refused([&] { submit(fresh_ticket(), 1)(); }, "tokens[0].output");
}

TEST_P(Conformance, ReferencesDoNotSurviveReserve) {
  INFERNO_NEEDS(token_references, "token references");
  const Ids ids = prompt(111, 5);
  const Ticket old = executor().submit(one_row(inputs(ids), 0, block_run(0, 1)));
  executor().reserve(roomy());
  EXPECT_THROW(executor().wait(old), UsageError);
  EXPECT_THROW(executor().submit(one_row({TokenInput::from(old, 0)}, 5, block_run(0, 1))), UsageError);
  EXPECT_GT(executor().submit(one_row(inputs(ids), 0, block_run(0, 1))), old) << "tickets count on";
}

}  // namespace inferno::conformance
