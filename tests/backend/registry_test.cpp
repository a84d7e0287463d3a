#include "backend/registry.hpp"

#include <algorithm>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <inferno/error.hpp>

#include "support/random_model.hpp"

namespace inferno {
namespace {

using test::RandomModel;
using test::TemporaryFile;
using testing::HasSubstr;

std::string creation_error(std::string_view name, const LoadedModel& model,
                           const BackendOptions& options = {}) {
  try {
    create_executor(name, model, options);
    return "created";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Registry, ListsEveryDocumentedNameOnceInOrder) {
  const std::vector<std::string> documented = {"scalar", "simd",   "parallel", "pool", "hybrid",
                                               "metal",  "vulkan", "cuda",     "gpu",  "auto"};
  std::vector<std::string> names;
  for (const auto& status : list_backends()) {
    if (std::count(documented.begin(), documented.end(), status.name) != 0) names.push_back(status.name);
    EXPECT_EQ(status.available, !status.device.empty()) << status.name;
    EXPECT_EQ(status.available, status.reason.empty()) << status.name;
  }
  EXPECT_EQ(names, documented);
}

/// The list says the truth: what is available can be made, what is not gives the same reason.
TEST(Registry, ListAndCreationAgree) {
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  for (const auto& status : list_backends()) {
    if (status.available) {
      const auto executor = create_executor(status.name, loaded);
      EXPECT_THAT(status.device, HasSubstr(executor->capabilities().device)) << status.name;
    } else {
      EXPECT_THAT(creation_error(status.name, loaded), HasSubstr(status.reason)) << status.name;
    }
  }
}

TEST(Registry, ScalarAndAutoWorkEverywhere) {
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  EXPECT_EQ(create_executor("scalar", loaded)->capabilities().backend, "scalar");
  EXPECT_NE(create_executor("auto", loaded), nullptr);
}

TEST(Registry, UnknownNamesAndDevicesAreRefused) {
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  EXPECT_THROW(create_executor("warp", loaded), UsageError);
  const auto message = creation_error("warp", loaded);
  EXPECT_THAT(message, HasSubstr("\"warp\""));
  for (const auto& status : list_backends()) EXPECT_THAT(message, HasSubstr(status.name));
  EXPECT_THAT(creation_error("scalar", loaded, {.device = 3}), HasSubstr("3"));
  EXPECT_THAT(creation_error("Scalar", loaded), HasSubstr("unknown backend"));
}

/// A number is one of the backend's devices, or an error; never something that is overlooked.
TEST(Registry, NoBackendOverlooksANumber) {
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  for (const auto& status : list_backends()) {
    EXPECT_NE(creation_error(status.name, loaded, {.device = 77}), "created") << status.name;
  }
  for (const char* name : {"auto", "gpu"}) {
    const auto message = creation_error(name, loaded, {.device = 77});
    EXPECT_THAT(message, HasSubstr("finds no GPU number 77"));
    EXPECT_THAT(message, HasSubstr("cuda: "));
    EXPECT_THAT(message, HasSubstr("vulkan: "));
  }
}

/// A backend that cannot be asked is a line of the list.
TEST(Registry, TheListOutlivesABackendThatCannotBeAsked) {
  for (const char* kernels : {"bogus", "amx,sse2"}) {
    setenv("INFERNO_KERNELS", kernels, 1);
    const auto list = list_backends();
    unsetenv("INFERNO_KERNELS");
    ASSERT_EQ(list.size(), list_backends().size());
    for (const auto& status : list) {
      if (status.name != "pool" && status.name != "simd") continue;
      EXPECT_FALSE(status.available);
      EXPECT_THAT(status.reason, HasSubstr("INFERNO_KERNELS"));
    }
  }
}

/// A CPU without room is the end of it: another would have no more.
TEST(Registry, AChoiceGoesOnFromDevicesOnly) {
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  BackendChoice choice("pool", loaded);
  auto executor = choice.next();
  const auto full = [](Executor&) { throw Error("there is no room"); };
  EXPECT_FALSE(choice.may_go_on());
  try {
    use_or_replace(choice, executor, full);
    FAIL() << "there was room";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "there is no room");
  }
  EXPECT_NE(executor, nullptr);
}

TEST(Registry, ScalarDeclaresWhatItCan) {
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  const auto executor = create_executor("scalar", loaded);
  const Capabilities& can = executor->capabilities();
  EXPECT_FALSE(can.contract);
  EXPECT_FALSE(can.asynchronous);
  EXPECT_TRUE(can.multi_step && can.token_references && can.sampling_slots && can.token_masks);
  EXPECT_TRUE(can.logits && can.scores && can.hidden && can.block_transfer && can.observation);
  EXPECT_GE(can.referable_tickets, 1U);
  EXPECT_EQ(can.cache_format, "float32");
}

}  // namespace
}  // namespace inferno
