#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <inferno/error.hpp>

#include "backend/cpu/memory_check.hpp"
#include "backend/registry.hpp"
#include "platform/available_memory.hpp"
#include "platform/fault.hpp"
#include "support/random_model.hpp"

namespace inferno {
namespace {

using test::RandomModel;
using test::TemporaryFile;
using testing::HasSubstr;

std::string reserve_error(Executor& executor, const Limits& limits) {
  try {
    executor.reserve(limits);
    return "reserved";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ScalarMemory, NeedFollowsTheLimits) {
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  const auto executor = create_executor("scalar", loaded);
  Limits limits;
  const auto need = executor->memory_need(limits);
  // 4 blocks of 256 positions, 2 layers, keys and values of 2 heads of 32 floats.
  EXPECT_EQ(need.cache_bytes, 4U * 256 * 2 * 2 * 2 * 32 * 4);
  EXPECT_GT(need.scratch_bytes, 512U * 64 * 4);
  EXPECT_EQ(need.weight_bytes, 0U);
  limits.blocks = 8;
  EXPECT_EQ(executor->memory_need(limits).cache_bytes, 2 * need.cache_bytes);
  EXPECT_EQ(executor->memory_need(limits).scratch_bytes, need.scratch_bytes);
}

TEST(ScalarMemory, MoreThanThereIsIsRefusedWithBothNumbers) {
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  const auto executor = create_executor("scalar", loaded);
  Limits limits;
  limits.blocks = 1U << 30U;  // half a pebibyte
  const auto message = reserve_error(*executor, limits);
  EXPECT_THAT(message, HasSubstr(std::to_string(executor->memory_need(limits).cache_bytes)));
  EXPECT_THAT(message, HasSubstr("available"));
  // The executor can still be used.
  limits.blocks = 4;
  EXPECT_EQ(reserve_error(*executor, limits), "reserved");
}

TEST(ScalarMemory, EveryFailedAllocationIsACleanError) {
  if (!fault::kCompiledIn) GTEST_SKIP() << "needs INFERNO_FAULTS";
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  const auto executor = create_executor("scalar", loaded);
  int failures = 0;
  for (int k = 1; k < 100; ++k) {
    fault::arm("alloc:" + std::to_string(k));
    const auto message = reserve_error(*executor, {});
    fault::arm("");
    if (message == "reserved") break;
    EXPECT_THAT(message, testing::AllOf(HasSubstr("scalar"), HasSubstr(" bytes"), HasSubstr("ask for")));
    ++failures;
  }
  EXPECT_EQ(failures, 18);  // the shared part's, sixteen buffers of scratch, the cache
  EXPECT_EQ(reserve_error(*executor, {}), "reserved");
}

TEST(RoomForBlocks, IsWhatIsLeftBesideAStepAndOthers) {
  Limits limits;
  limits.blocks = 4;
  const MemoryNeed need{.cache_bytes = 4000, .scratch_bytes = 500, .weight_bytes = 0};
  const auto room = room_for_blocks(need, limits, 100'000, "there");
  EXPECT_EQ(room.blocks, 89U);  // of 1000 bytes each
  EXPECT_THAT(room.bound, HasSubstr("100000 bytes are free there"));
  EXPECT_EQ(room_for_blocks(need, limits, 500, "there").blocks, 0U);
  EXPECT_EQ(room_for_blocks(need, limits, {}, "there").blocks, BlockRoom().blocks);
}

TEST(RoomForBlocks, EveryCpuBackendKnowsIt) {
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  const auto available = available_memory();
  ASSERT_TRUE(available);
  for (const char* name : {"scalar", "reference", "simd", "pool"}) {
    const auto executor = create_executor(name, loaded);
    const auto room = executor->block_room({});
    EXPECT_GT(room.blocks, 0U) << name;
    EXPECT_LT(room.blocks, *available * 2 / (executor->memory_need({}).cache_bytes / Limits{}.blocks))
        << name;
  }
}

/// A made-up /proc and /sys/fs/cgroup.
class AvailableMemory : public testing::Test {
 protected:
  AvailableMemory() { std::filesystem::create_directories(folder_.path()); }
  ~AvailableMemory() override { std::filesystem::remove_all(folder_.path()); }

  void put(const std::string& name, const std::string& text) const {
    const auto path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::optional<std::uint64_t> available() const {
    return available_memory({folder_.path() / "proc", folder_.path() / "cgroup"});
  }

 private:
  TemporaryFile folder_{""};
};

constexpr const char* kMeminfo =
    "MemTotal:  1000 kB\nMemFree:  10 kB\nMemAvailable:  800 kB\nBuffers: 1 kB\n";

TEST_F(AvailableMemory, IsWhatTheSystemSays) {
  put("proc/meminfo", kMeminfo);
  EXPECT_EQ(available(), 800U * 1024);
}

TEST_F(AvailableMemory, IsUnknownWithoutAnySource) {
  EXPECT_EQ(available(), std::nullopt);
}

TEST_F(AvailableMemory, TheTightestGroupOfVersion2Limits) {
  put("proc/meminfo", kMeminfo);
  put("proc/self/cgroup", "0::/outer/inner\n");
  put("cgroup/outer/inner/memory.max", "max\n");
  put("cgroup/outer/inner/memory.current", "1000\n");
  EXPECT_EQ(available(), 800U * 1024);
  put("cgroup/outer/memory.max", "500000\n");
  put("cgroup/outer/memory.current", "300000\n");
  EXPECT_EQ(available(), 200000U);
  put("cgroup/outer/memory.stat", "anon 5\ninactive_file 100000\nactive_file 7\n");
  EXPECT_EQ(available(), 300000U);  // file cache can be dropped
  put("cgroup/outer/inner/memory.max", "1100\n");
  EXPECT_EQ(available(), 100U);
  put("cgroup/outer/inner/memory.current", "2000\n");
  EXPECT_EQ(available(), 0U);
}

TEST_F(AvailableMemory, TheRootGroupOfAContainerLimits) {
  put("proc/meminfo", kMeminfo);
  put("proc/self/cgroup", "0::/\n");
  put("cgroup/memory.max", "500000\n");
  put("cgroup/memory.current", "100000\n");
  EXPECT_EQ(available(), 400000U);
}

TEST_F(AvailableMemory, Version1Limits) {
  put("proc/meminfo", kMeminfo);
  put("proc/self/cgroup", "5:cpu,cpuacct:/\n4:hugetlb:/x\n3:memory:/docker/abc\n");
  put("cgroup/memory/docker/abc/memory.limit_in_bytes", "500000\n");
  put("cgroup/memory/docker/abc/memory.usage_in_bytes", "450000\n");
  put("cgroup/memory/docker/abc/memory.stat", "inactive_file 1\ntotal_inactive_file 50000\n");
  EXPECT_EQ(available(), 100000U);
}

TEST_F(AvailableMemory, NonsenseIsNoLimit) {
  put("proc/meminfo", kMeminfo);
  put("proc/self/cgroup", "garbage\n\n0:\n0::/../..\n");
  put("cgroup/memory.max", "-1\n");
  put("cgroup/memory.current", "zzz\n");
  EXPECT_EQ(available(), 800U * 1024);
}

}  // namespace
}  // namespace inferno
