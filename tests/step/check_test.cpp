// What the conformance suite cannot reach with a backend that declares everything: capabilities that are
// missing. And what an error says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "step/plan.hpp"

namespace inferno {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint32_t kVocabulary = 100;

class Check : public testing::Test {
 protected:
  Check() {
    can.backend = "narrow";
    limits.max_rows = 4;
    limits.max_tokens = 16;
    limits.max_outputs = 4;
    limits.max_steps = 4;
    limits.max_context = 64;
    limits.block_size = 16;
    limits.blocks = 8;
    limits.slots = 2;
    batch.add_row({TokenInput::of(1), TokenInput::of(2)}, 3, {5});
    batch.add_output(OutputKind::token);
  }

  std::string refusal() {
    try {
      check_submission(batch, options, limits, can, kVocabulary, next_ticket);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  }

  Capabilities can;
  Limits limits;
  StepBatch batch;
  SubmitOptions options;
  Ticket next_ticket = 10;
};

TEST_F(Check, PlainGreedyDecodingNeedsNoCapability) {
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(Check, MissingCapabilitiesAreNamed) {
  options.max_steps = 2;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("max_steps"), HasSubstr("narrow declares no chained steps")));
  options.max_steps = 1;
  batch.tokens[0] = TokenInput::from(9, 0);
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("tokens[0].ticket"), HasSubstr("narrow declares no token references")));
  batch.tokens[0] = TokenInput::of(1);
  batch.slots[0] = 1;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("slots[0]"), HasSubstr("narrow declares no sampling slots")));
  batch.slots[0] = kGreedySlot;
  batch.add_output(OutputKind::logits);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("outputs[1].kind"), HasSubstr("narrow declares no logits")));
  batch.outputs[1].kind = OutputKind::hidden;
  EXPECT_THAT(refusal(), HasSubstr("narrow declares no hidden states"));
  batch.outputs[1] = {1, OutputKind::score, 0};
  EXPECT_THAT(refusal(), HasSubstr("narrow declares no scores"));
  batch.outputs.pop_back();
  StageObserver observer;
  options.observer = &observer;
  EXPECT_THAT(refusal(), HasSubstr("narrow declares no observation"));
}

TEST_F(Check, ErrorsSayWhatWasExpectedAndFound) {
  batch.positions[1] = 9;
  EXPECT_EQ(refusal(), "submission refused: positions[1]: expected 4 (consecutive within row 0), found 9");
  batch.positions[1] = 4;
  batch.blocks[0] = 8;
  EXPECT_EQ(refusal(), "submission refused: blocks[0]: expected a block below 8, found 8");
  batch.blocks[0] = 5;
  batch.tokens[1].id = 100;
  EXPECT_EQ(refusal(), "submission refused: tokens[1].id: expected 0 to 99, found 100");
  batch.tokens[1].id = 0;
  batch.positions = {62, 63};
  EXPECT_THAT(refusal(), HasSubstr("the table of row 0 has 1 blocks of 16 positions; expected 4"));
  batch.positions = {63, 64};
  EXPECT_THAT(refusal(), AllOf(HasSubstr("position 64"), HasSubstr("max_context = 64")));
}

TEST_F(Check, ReferencesHaveAWindow) {
  can.token_references = true;
  can.referable_tickets = 3;
  for (const Ticket ticket : {Ticket{7}, Ticket{8}, Ticket{9}}) {
    batch.tokens[0] = TokenInput::from(ticket, 0);
    EXPECT_EQ(refusal(), "accepted");
  }
  for (const Ticket ticket : {Ticket{1}, Ticket{6}}) {
    batch.tokens[0] = TokenInput::from(ticket, 0);
    EXPECT_THAT(refusal(), HasSubstr("one of the 3 latest submissions, 7 to 9"));
  }
  for (const Ticket ticket : {Ticket{10}, Ticket{11}, ~Ticket{0}}) {
    batch.tokens[0] = TokenInput::from(ticket, 0);
    EXPECT_THAT(refusal(), HasSubstr("expected an earlier submission, below 10"));
  }
  can.referable_tickets = 20;
  batch.tokens[0] = TokenInput::from(1, 0);
  EXPECT_EQ(refusal(), "accepted");
}

// A refused batch must not spoil the check of the next one: the check keeps its scratch between calls.
TEST_F(Check, RefusalsLeaveNoMarks) {
  can.sampling_slots = true;
  const StepBatch good = batch;
  batch.slots[0] = 1;
  batch.add_row({TokenInput::of(1)}, 0, {5}, 1);
  EXPECT_THAT(refusal(), HasSubstr("block 5"));
  batch.blocks[1] = 6;
  EXPECT_THAT(refusal(), HasSubstr("slot 1"));
  batch = good;
  EXPECT_EQ(refusal(), "accepted");
  batch.slots[0] = 1;
  EXPECT_EQ(refusal(), "accepted");
}

TEST(CheckBlocks, NamesTheList) {
  Limits limits;
  limits.blocks = 3;
  const std::vector<std::uint32_t> blocks = {0, 2, 3};
  try {
    check_blocks(blocks, limits, "the list");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "the list[2]: expected a block below 3, found 3");
  }
  check_blocks({}, limits, "nothing");
}

TEST(CheckLimits, DivisorsOf256AreBlockSizes) {
  for (std::uint32_t size = 0; size <= 300; ++size) {
    Limits limits;
    limits.block_size = size;
    if (size != 0 && 256 % size == 0) {
      EXPECT_NO_THROW(check_limits(limits)) << size;
    } else {
      EXPECT_THROW(check_limits(limits), UsageError) << size;
    }
  }
  Limits limits;
  limits.slots = 0;
  EXPECT_NO_THROW(check_limits(limits));
  limits.slots = kGreedySlot;
  EXPECT_THROW(check_limits(limits), UsageError);
}

}  // namespace
}  // namespace inferno
