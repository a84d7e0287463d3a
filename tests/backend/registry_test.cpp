#include "backend/registry.hpp"

#include <algorithm>
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
