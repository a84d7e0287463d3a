#include <cstdlib>
#include <gmock/gmock.h>

#include <inferno/error.hpp>

#include "backend/kernels/fixtures.hpp"

namespace inferno::cpu {
namespace {

/// Sets INFERNO_KERNELS while it lives.
class Chosen {
 public:
  explicit Chosen(const char* name) {
    if (const char* before = std::getenv("INFERNO_KERNELS")) before_ = before;
    ::setenv("INFERNO_KERNELS", name, 1);
  }
  ~Chosen() {
    if (before_.empty()) {
      ::unsetenv("INFERNO_KERNELS");
    } else {
      ::setenv("INFERNO_KERNELS", before_.c_str(), 1);
    }
  }
  Chosen(const Chosen&) = delete;
  Chosen& operator=(const Chosen&) = delete;

 private:
  std::string before_;
};

TEST(KernelSets, PlainIsLastAndRunsEverywhere) {
  ASSERT_FALSE(kernel_sets().empty());
  EXPECT_EQ(kernel_sets().back()->name, "plain");
  EXPECT_TRUE(kernel_sets().back()->supported());
}

TEST(KernelSets, TheBestIsTheFirstThatRuns) {
  const Chosen none("");
  for (const auto* set : kernel_sets()) {
    if (!set->supported()) continue;
    EXPECT_EQ(best_kernel_set().name, set->name);
    break;
  }
}

TEST(KernelSets, TheEnvironmentChooses) {
  const Chosen plain("plain");
  EXPECT_EQ(best_kernel_set().name, "plain");
}

TEST(KernelSets, UnknownNamesAreRefusedWithTheKnownOnes) {
  const Chosen wrong("avx3");
  try {
    best_kernel_set();
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("avx3"), testing::HasSubstr("plain")));
  }
}

TEST(KernelSets, SetsThatThisProcessorCannotRunAreRefused) {
  for (const auto* set : kernel_sets()) {
    if (set->supported()) continue;
    const Chosen chosen(std::string(set->name).c_str());
    try {
      best_kernel_set();
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(std::string(set->needs)));
    }
  }
}

}  // namespace
}  // namespace inferno::cpu
