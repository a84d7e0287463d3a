// Field case C1: quota and affinity decide how many threads make sense.

#include "platform/cpu_budget.hpp"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

namespace inferno {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// A root directory made of files that say what the test wants.
class FakeRoot {
 public:
  FakeRoot() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(::testing::TempDir()) / (std::string("cpu_budget_") + test->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~FakeRoot() { fs::remove_all(root_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  FakeRoot& file(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
    return *this;
  }
  FakeRoot& folder(const std::string& path) {
    fs::create_directories(root_ / path);
    return *this;
  }
  CpuBudget budget(std::vector<std::uint32_t> affinity) const {
    return cpu_budget({root_, std::move(affinity)});
  }

 private:
  fs::path root_;
};

const std::vector<std::uint32_t> kFour = {0, 1, 2, 3};
constexpr const char* kV2Mounts =
    "25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kV1Mounts =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";

TEST(CpuBudget, AffinityAloneCounts) {
  FakeRoot root;
  EXPECT_EQ(root.budget({0}).threads, 1U);
  const auto budget = root.budget(kFour);
  EXPECT_EQ(budget.threads, 4U);
  EXPECT_FALSE(budget.quota);
  EXPECT_THAT(budget.reason, HasSubstr("4 threads"));
  EXPECT_THAT(budget.reason, HasSubstr("affinity allows 4 processors"));
  EXPECT_THAT(budget.reason, HasSubstr("no control group"));
}

TEST(CpuBudget, ProcessorIdsMayHaveGapsAndNeedNotStartAtZero) {
  FakeRoot root;
  const auto budget = root.budget({7, 1, 12});
  EXPECT_EQ(budget.threads, 3U);
  EXPECT_EQ(budget.cpus, (std::vector<std::uint32_t>{1, 7, 12}));
  EXPECT_EQ(root.budget({1}).threads, 1U);
}

TEST(CpuBudget, Version2QuotaIsRoundedDown) {
  FakeRoot root;
  root.file("proc/self/mountinfo", kV2Mounts).file("proc/self/cgroup", "0::/app\n");
  root.file("sys/fs/cgroup/app/cpu.max", "150000 100000\n");
  const auto budget = root.budget(kFour);
  EXPECT_EQ(budget.threads, 1U);
  ASSERT_TRUE(budget.quota);
  EXPECT_DOUBLE_EQ(*budget.quota, 1.5);
  EXPECT_THAT(budget.reason, HasSubstr("grants 1.5"));
  EXPECT_THAT(budget.reason, HasSubstr("/sys/fs/cgroup/app"));
}

TEST(CpuBudget, HalfAProcessorIsOneThread) {
  FakeRoot root;
  root.file("proc/self/mountinfo", kV2Mounts).file("proc/self/cgroup", "0::/app\n");
  root.file("sys/fs/cgroup/app/cpu.max", "50000 100000\n");
  EXPECT_EQ(root.budget(kFour).threads, 1U);
}

TEST(CpuBudget, MaxIsNoLimit) {
  FakeRoot root;
  root.file("proc/self/mountinfo", kV2Mounts).file("proc/self/cgroup", "0::/app\n");
  root.file("sys/fs/cgroup/app/cpu.max", "max 100000\n");
  const auto budget = root.budget(kFour);
  EXPECT_EQ(budget.threads, 4U);
  EXPECT_FALSE(budget.quota);
}

TEST(CpuBudget, QuotaAboveTheAffinityDoesNotRaiseIt) {
  FakeRoot root;
  root.file("proc/self/mountinfo", kV2Mounts).file("proc/self/cgroup", "0::/app\n");
  root.file("sys/fs/cgroup/app/cpu.max", "800000 100000\n");
  EXPECT_EQ(root.budget({2, 3}).threads, 2U);
}

TEST(CpuBudget, LimitOnAParentGroupCounts) {
  FakeRoot root;
  root.file("proc/self/mountinfo", kV2Mounts).file("proc/self/cgroup", "0::/slice/pod/app\n");
  root.file("sys/fs/cgroup/slice/cpu.max", "200000 100000\n");
  root.file("sys/fs/cgroup/slice/pod/cpu.max", "300000 100000\n");
  root.file("sys/fs/cgroup/slice/pod/app/cpu.max", "max 100000\n");
  const auto budget = root.budget(kFour);
  EXPECT_EQ(budget.threads, 2U);
  EXPECT_THAT(budget.reason, HasSubstr("/sys/fs/cgroup/slice grants 2"));
}

TEST(CpuBudget, Version1Files) {
  FakeRoot root;
  root.file("proc/self/mountinfo", kV1Mounts);
  root.file("proc/self/cgroup", "9:name=systemd:/\n4:memory:/jobs/7\n3:cpu,cpuacct:/jobs/7\n");
  root.file("sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_quota_us", "250000\n");
  root.file("sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_period_us", "100000\n");
  root.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  const auto budget = root.budget(kFour);
  EXPECT_EQ(budget.threads, 2U);
  EXPECT_DOUBLE_EQ(budget.quota.value_or(0), 2.5);
}

TEST(CpuBudget, Version1ParentGroupAndNoLimit) {
  FakeRoot root;
  root.file("proc/self/mountinfo", kV1Mounts).file("proc/self/cgroup", "3:cpu,cpuacct:/jobs/7\n");
  root.file("sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_quota_us", "-1\n");
  root.file("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "300000\n");
  root.file("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(root.budget(kFour).threads, 3U);
}

TEST(CpuBudget, ContainerWhosePathLiesAboveItsMount) {
  // Without a cgroup namespace the path is the host's, and the mount shows that very group.
  FakeRoot root;
  root.file("proc/self/mountinfo",
            "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu ro,relatime - cgroup cgroup rw,cpu\n");
  root.file("proc/self/cgroup", "3:cpu:/docker/abc\n");
  root.file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n")
      .file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(root.budget(kFour).threads, 1U);
}

TEST(CpuBudget, PathOutsideTheNamespaceFallsBackToTheMountPoint) {
  FakeRoot root;
  root.file("proc/self/mountinfo", kV2Mounts).file("proc/self/cgroup", "0::/../other\n");
  root.file("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(root.budget(kFour).threads, 2U);
}

TEST(CpuBudget, MountPointWithABlank) {
  FakeRoot root;
  root.file("proc/self/mountinfo", "31 23 0:28 / /control\\040groups rw - cgroup2 cgroup2 rw\n");
  root.file("proc/self/cgroup", "0::/\n").file("control groups/cpu.max", "100000 100000\n");
  EXPECT_EQ(root.budget(kFour).threads, 1U);
}

TEST(CpuBudget, BothVersionsMounted) {
  FakeRoot root;
  root.file("proc/self/mountinfo",
            std::string(kV1Mounts) + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  root.file("proc/self/cgroup", "3:cpu,cpuacct:/a\n0::/b\n");
  root.file("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
  root.file("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  root.file("sys/fs/cgroup/unified/b/cpu.max", "200000 100000\n");
  EXPECT_EQ(root.budget(kFour).threads, 2U);
}

TEST(CpuBudget, CustomaryPlacesWithoutProc) {
  FakeRoot root;
  root.file("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(root.budget(kFour).threads, 3U);
  root.file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000")
      .file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(root.budget(kFour).threads, 1U);
}

TEST(CpuBudget, UnreadableOrSenselessFilesLimitNothingAndAreNamed) {
  FakeRoot root;
  root.file("proc/self/mountinfo", kV2Mounts).file("proc/self/cgroup", "0::/app\n");
  for (const auto* text : {"", "\n", "many 100000\n", "100000\n", "1 2 3\n", "100000 0\n", "-5 100000\n",
                           "0 100000\n", "99999999999999999999999999 100000\n"}) {
    root.file("sys/fs/cgroup/app/cpu.max", text);
    const auto budget = root.budget(kFour);
    EXPECT_EQ(budget.threads, 4U) << text;
    EXPECT_THAT(budget.reason, HasSubstr("/sys/fs/cgroup/app could not be read")) << text;
  }
  // A folder in its place cannot be read by root either, which a file without permissions can.
  FakeRoot other;
  other.file("proc/self/mountinfo", kV2Mounts).file("proc/self/cgroup", "0::/app\n");
  other.folder("sys/fs/cgroup/app/cpu.max");
  EXPECT_EQ(other.budget(kFour).threads, 4U);
  EXPECT_THAT(other.budget(kFour).reason, HasSubstr("could not be read"));
}

TEST(CpuBudget, SenselessProcFilesDoNoHarm) {
  FakeRoot root;
  root.file("proc/self/mountinfo",
            "\n-\n1 2 3\n31 23 0:28 / /x rw - cgroup\n" + std::string(5000, 'x') + "\n");
  root.file("proc/self/cgroup", "no colon\n0\n0:\n::::\n");
  EXPECT_EQ(root.budget(kFour).threads, 4U);
}

TEST(CpuBudget, NoProcessorAllowedIsStillOneThread) {
  FakeRoot root;
  EXPECT_EQ(root.budget({}).threads, 1U);
}

TEST(CpuBudget, ThisMachineHasOne) {
  const auto budget = cpu_budget();
  EXPECT_GE(budget.threads, 1U);
  EXPECT_LE(budget.threads, budget.cpus.size());
  EXPECT_FALSE(budget.reason.empty());
}

TEST(ChooseThreads, ExplicitNumberWinsWithAWarning) {
  FakeRoot root;
  const auto budget = root.budget({0, 1});
  EXPECT_EQ(choose_threads(0, budget).threads, 2U);
  EXPECT_EQ(choose_threads(0, budget).reason, budget.reason);
  EXPECT_EQ(choose_threads(1, budget).threads, 1U);
  EXPECT_TRUE(choose_threads(2, budget).warning.empty());
  const auto many = choose_threads(64, budget);
  EXPECT_EQ(many.threads, 64U);
  EXPECT_THAT(many.warning, HasSubstr("64 threads"));
  EXPECT_THAT(many.warning, HasSubstr("affinity allows 2 processors"));
}

}  // namespace
}  // namespace inferno
