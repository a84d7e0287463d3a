// Faults on demand: a refused submission, an allocation that fails, a device that disappears.

#include "conformance/conformance.hpp"
#include "platform/fault.hpp"

namespace inferno::conformance {

namespace {

// Nothing is armed after a test, whatever became of it.
class Armed {
 public:
  explicit Armed(const std::string& specification) { fault::arm(specification); }
  ~Armed() { fault::arm(""); }
  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;
};

StepBatch one_row(const Ids& ids, const Blocks& blocks) {
  StepBatch batch;
  batch.add_row(inputs(ids), 0, blocks);
  batch.add_output(OutputKind::token);
  return batch;
}

}  // namespace

#define INFERNO_NEEDS_FAULTS() \
  if (!fault::kCompiledIn) GTEST_SKIP() << "this build has no fault switches (INFERNO_FAULTS)"

TEST_P(Conformance, RefusedSubmissionsChangeNothing) {
  INFERNO_NEEDS_FAULTS();
  const Ids ids = prompt(280, 10);
  const Transcript expected = generate(executor(), ids, 1);
  const Ticket before = executor().submit(one_row(ids, {10}));
  {
    const Armed armed("submit");
    try {
      executor().submit(one_row(ids, {11}));
      ADD_FAILURE() << "the fault had no effect";
    } catch (const UsageError& error) {
      ADD_FAILURE() << "the device's refusal is not the caller's mistake: " << error.what();
    } catch (const DeviceLost& error) {
      ADD_FAILURE() << "a refusal is not a loss: " << error.what();
    } catch (const Error& error) {
      EXPECT_FALSE(std::string(error.what()).empty());
    }
    const Ticket after = executor().submit(one_row(ids, {12}));
    EXPECT_EQ(after, before + 1) << "a refused submission takes no ticket";
    EXPECT_EQ(executor().wait(after).ids[0], expected.ids);
  }
  EXPECT_EQ(executor().wait(before).ids[0], expected.ids);
}

TEST_P(Conformance, FailedAllocationsLeaveNothingReserved) {
  INFERNO_NEEDS_FAULTS();
  const Ids ids = prompt(281, 10);
  const Transcript expected = generate(executor(), ids, 4);
  for (int k = 1; k <= 3; ++k) {
    const Armed armed("alloc:" + std::to_string(k));
    try {
      executor().reserve(roomy());
      EXPECT_GT(k, 1) << "the first allocation was to fail";
      continue;  // fewer allocations than that
    } catch (const UsageError& error) {
      ADD_FAILURE() << "want of memory is not the caller's mistake: " << error.what();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("bytes"), std::string::npos) << error.what();
    }
    EXPECT_EQ(executor().limits().blocks, 0U);
    EXPECT_THROW(executor().submit(one_row(ids, {10})), UsageError);
    executor().reserve(roomy());
    EXPECT_EQ(generate(executor(), ids, 4), expected);
  }
}

TEST_P(Conformance, ALostDeviceIsRemembered) {
  INFERNO_NEEDS_FAULTS();
  const Ids ids = prompt(282, 10);
  const Ticket first = executor().submit(one_row(ids, {10}));
  const Ticket second = executor().submit(one_row(ids, {11}));
  {
    const Armed armed("lost");
    EXPECT_THROW(executor().wait(first), DeviceLost);
  }
  EXPECT_THROW(executor().wait(first), DeviceLost);
  EXPECT_THROW(executor().wait(second), DeviceLost);
  EXPECT_THROW(executor().poll(second), DeviceLost);
  EXPECT_THROW(executor().submit(one_row(ids, {10})), DeviceLost);
  EXPECT_THROW(executor().set_slot(0, {}), DeviceLost);
  EXPECT_THROW(executor().copy_blocks(std::vector<BlockCopy>{{0, 1}}), DeviceLost);
  EXPECT_THROW(executor().export_blocks(Blocks{0}), DeviceLost);
  EXPECT_THROW(executor().import_blocks(Blocks{0}, {}), DeviceLost);
  EXPECT_THROW(executor().reserve(roomy()), DeviceLost);
  executor().cancel(second);
  EXPECT_FALSE(capabilities().backend.empty());
}

// Lost in mid-generation: another executor goes on, by recomputing and from exported blocks, with the same
// bits.
TEST_P(Conformance, SequencesOutliveTheirDevice) {
  INFERNO_NEEDS_FAULTS();
  const Ids ids = prompt(283, 20);
  const Transcript expected = generate(executor(), ids, 10);
  const auto doomed = make();
  Ids chosen = generate(*doomed, ids, 4).ids;
  std::vector<std::byte> saved;
  if (capabilities().block_transfer) saved = doomed->export_blocks(Blocks{0, 1});
  {
    const Armed armed("lost:2");
    StepBatch batch;
    batch.add_row({TokenInput::of(chosen.back())}, 23, block_run(0, 2));
    batch.add_output(OutputKind::token);
    chosen.push_back(doomed->wait(doomed->submit(batch)).ids[0].at(0));
    StepBatch next;
    next.add_row({TokenInput::of(chosen.back())}, 24, block_run(0, 2));
    next.add_output(OutputKind::token);
    EXPECT_THROW(doomed->wait(doomed->submit(next)), DeviceLost);
  }
  ASSERT_EQ(chosen, slice(expected.ids, 0, 5));
  const auto heir = make();
  EXPECT_EQ(generate(*heir, joined(ids, chosen), 5).ids, slice(expected.ids, 5, 10));
  if (saved.empty()) return;
  heir->import_blocks(Blocks{8, 9}, saved);
  StepBatch batch;  // positions up to 22 are in the saved blocks
  batch.add_row(inputs(slice(chosen, 3, 5)), 23, {8, 9});
  batch.add_output(OutputKind::token);
  EXPECT_EQ(heir->wait(heir->submit(batch)).ids[0], slice(expected.ids, 5, 6));
}

}  // namespace inferno::conformance
