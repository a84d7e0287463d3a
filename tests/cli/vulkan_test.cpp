// What a user sees where Vulkan is missing, or is only a CPU in disguise.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;

/// An environment variable for the programs that a test runs.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

nlohmann::json status_of(const std::string& name) {
  for (const auto& backend : run_inferno({"backends", "--json"}).json()) {
    if (backend["name"] == name) return backend;
  }
  return {};
}

/// Whoever asks for nothing runs on the CPU; whoever asks for vulkan is told why not.
void expect_refused(const std::string& reason) {
  const auto vulkan = status_of("vulkan");
  EXPECT_FALSE(vulkan["available"].get<bool>());
  EXPECT_THAT(vulkan["reason"].get<std::string>(), HasSubstr(reason));
  const auto plain = run_inferno({"generate", "-p", "Once", "-n", "1", "--json"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.json()["backend"], "pool");
  const auto gpu = run_inferno({"generate", "-p", "Once", "-n", "1", "--backend", "gpu", "--json"});
  EXPECT_EQ(gpu.code, 0) << gpu.err;
  EXPECT_THAT(gpu.err, HasSubstr(reason));
  EXPECT_THAT(gpu.err, testing::MatchesRegex("info: backend gpu [^\n]*\ninfo: [0-9]+ threads?: [^\n]*\n"));
  for (const char* backend : {"vulkan", "hybrid", "metal"}) {
    const auto named = run_inferno({"generate", "-p", "Once", "-n", "1", "--backend", backend});
    EXPECT_EQ(named.code, 1);
    EXPECT_THAT(named.err, HasSubstr(reason));
    EXPECT_EQ(std::count(named.err.begin(), named.err.end(), '\n'), 1) << named.err;
  }
}

TEST(VulkanMissing, NoLoader) {
  const Environment nowhere("INFERNO_VULKAN_LOADER", "/no/such/libvulkan.so");
  EXPECT_EQ(run_inferno({"--version"}).code, 0);
  EXPECT_EQ(run_inferno({"--help"}).code, 0);
  expect_refused("no Vulkan loader");
}

TEST(VulkanMissing, ALoaderThatIsNone) {
  const Environment other("INFERNO_VULKAN_LOADER", "libm.so.6");
  expect_refused("not a Vulkan loader");
}

TEST(VulkanMissing, ALoaderWithoutDrivers) {
  const Environment nothing("VK_ICD_FILENAMES", "/no/such/driver.json");
  const Environment neither("VK_DRIVER_FILES", "/no/such/driver.json");
  expect_refused("driver");
}

/// Only lavapipe: never by default, but with a warning and the same ids if it is asked for by number.
TEST(VulkanSoftware, OnlyIfAskedFor) {
  const Environment software("VK_ICD_FILENAMES", INFERNO_LAVAPIPE);
  expect_refused("which is a CPU");
  const std::vector<std::string> arguments = {"generate", "-p", "Once upon a time", "-n", "8", "--json"};
  auto forced = arguments;
  forced.insert(forced.end(), {"--backend", "vulkan", "--device", "0"});
  const auto ran = run_inferno(forced);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("is a CPU that poses as a GPU"));
  EXPECT_EQ(ran.json()["backend"], "vulkan");
  EXPECT_EQ(ran.json()["ids"], run_inferno(arguments).json()["ids"]);
  forced.back() = "7";
  EXPECT_THAT(run_inferno(forced).err, HasSubstr("there is no device 7"));
  // Chained steps and the traced ones choose the same.
  forced.back() = "0";
  forced.insert(forced.end(), {"--steps-per-submit", "4"});
  EXPECT_EQ(run_inferno(forced).json()["ids"], ran.json()["ids"]);
}

/// Loader and drivers are found at run time: the program starts where there are none.
TEST(VulkanMissing, IsNothingThatTheProgramIsLinkedWith) {
  const std::string command = "readelf -d " INFERNO_PROGRAM " | grep NEEDED";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string needed;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) needed.push_back(static_cast<char>(c));
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_THAT(needed, HasSubstr("libstdc++"));
  EXPECT_THAT(needed, testing::Not(HasSubstr("vulkan")));
  EXPECT_THAT(needed, testing::Not(HasSubstr("cuda")));
}

}  // namespace
}  // namespace inferno::test
