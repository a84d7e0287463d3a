#include "step/references.hpp"

#include <gtest/gtest.h>

#include <inferno/error.hpp>

namespace inferno {
namespace {

// Row 0: logits then a token; row 1: a token.
StepBatch batch() {
  StepBatch made;
  made.add_row({TokenInput::of(1), TokenInput::of(2)}, 0, {0});
  made.add_output_at(0, OutputKind::logits);
  made.add_output(OutputKind::token);
  made.add_row({TokenInput::of(3)}, 0, {1});
  made.add_output(OutputKind::token);
  return made;
}

StepResult result(RowStatus first, RowStatus second) {
  StepResult made;
  made.ids = {{}, {10, 11}, {20}};
  made.status = {first, second};
  return made;
}

StepBatch referring(Ticket ticket, std::uint32_t output) {
  StepBatch made;
  made.add_row({TokenInput::from(ticket, output)}, 2, {0});
  return made;
}

TEST(ReferenceMemory, RemembersTheLastIdOfRowsThatEndedWell) {
  ReferenceMemory memory;
  memory.add(5, batch());
  memory.finish(5, batch(), result(RowStatus::ok, RowStatus::ok));
  EXPECT_EQ(memory.resolve(TokenInput::from(5, 1)), 11);
  EXPECT_EQ(memory.resolve(TokenInput::from(5, 2)), 20);
  for (const RowStatus status :
       {RowStatus::stopped, RowStatus::skipped, RowStatus::cancelled, RowStatus::failed}) {
    ReferenceMemory other;
    other.add(1, batch());
    other.finish(1, batch(), result(status, RowStatus::ok));
    EXPECT_EQ(other.resolve(TokenInput::from(1, 1)), -1);
    EXPECT_EQ(other.resolve(TokenInput::from(1, 2)), 20);
  }
}

TEST(ReferenceMemory, ChecksOutputsFromTheSubmissionOn) {
  ReferenceMemory memory;
  memory.add(5, batch());
  EXPECT_NO_THROW(memory.check(referring(5, 1)));
  EXPECT_NO_THROW(memory.check(referring(5, 2)));
  EXPECT_THROW(memory.check(referring(5, 0)), UsageError) << "logits";
  EXPECT_THROW(memory.check(referring(5, 3)), UsageError);
  EXPECT_THROW(memory.check(referring(4, 1)), UsageError);
  EXPECT_THROW(memory.check(referring(6, 1)), UsageError);
}

TEST(ReferenceMemory, ForgetsInOrderAndGoesOn) {
  ReferenceMemory memory;
  for (Ticket ticket = 1; ticket <= 100; ++ticket) {
    memory.add(ticket, batch());
    memory.finish(ticket, batch(), result(RowStatus::ok, RowStatus::ok));
    if (ticket > 3) memory.forget_before(ticket - 3);
  }
  EXPECT_THROW(memory.check(referring(96, 1)), UsageError);
  for (Ticket ticket = 97; ticket <= 100; ++ticket) EXPECT_NO_THROW(memory.check(referring(ticket, 1)));
  memory.clear();
  EXPECT_THROW(memory.check(referring(100, 1)), UsageError);
  memory.add(101, batch());
  EXPECT_NO_THROW(memory.check(referring(101, 1)));
  EXPECT_EQ(memory.resolve(TokenInput::from(101, 1)), -1) << "memory used again must not remember";
}

}  // namespace
}  // namespace inferno
