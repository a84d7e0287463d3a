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

/// Whoever asks for nothing runs on the CPU, and is told so; whoever asks for vulkan is told why not.
void expect_refused(const std::string& reason) {
  const auto vulkan = status_of("vulkan");
  EXPECT_FALSE(vulkan["available"].get<bool>());
  EXPECT_THAT(vulkan["reason"].get<std::string>(), HasSubstr(reason));
  // CUDA would come first on a machine that has it.
  const Environment no_cuda("INFERNO_CUDA_MODULE", "/no/such/module.so");
  for (const char* backend : {"auto", "gpu"}) {
    std::vector<std::string> arguments = {"generate", "-p",     "Once",      "-n",
                                          "1",        "--json", "--backend", backend};
    const auto ran = run_inferno(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.json()["backend"], "pool");
    EXPECT_THAT(ran.err, testing::StartsWith("info: running on the CPU: cuda: "));
    EXPECT_THAT(ran.err, HasSubstr("; vulkan: "));
    EXPECT_THAT(ran.err, HasSubstr(reason));
    EXPECT_THAT(ran.err, testing::MatchesRegex("info: running [^\n]*\ninfo: [0-9]+ threads?: [^\n]*\n"));
    // Whoever names a device wants that one.
    arguments.insert(arguments.end(), {"--device", "0"});
    const auto named = run_inferno(arguments);
    EXPECT_EQ(named.code, 1);
    EXPECT_THAT(named.err,
                testing::StartsWith(std::string("error: ") + backend + " finds no GPU number 0: "));
    EXPECT_THAT(named.err, HasSubstr(reason));
    EXPECT_EQ(std::count(named.err.begin(), named.err.end(), '\n'), 1) << named.err;
  }
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

TEST(VulkanMissing, AnEmptyNameIsNoLoader) {
  const auto usual = status_of("vulkan");
  const Environment empty("INFERNO_VULKAN_LOADER", "");
  EXPECT_EQ(status_of("vulkan"), usual);
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

/// Whatever would be taken, the list has the devices.
TEST(VulkanSoftware, IsListedWithItsNumber) {
  const Environment software("VK_ICD_FILENAMES", INFERNO_LAVAPIPE);
  const auto vulkan = status_of("vulkan");
  ASSERT_EQ(vulkan["devices"].size(), 1U);
  EXPECT_THAT(vulkan["devices"][0].get<std::string>(), HasSubstr("llvmpipe"));
  EXPECT_THAT(vulkan["devices"][0].get<std::string>(), HasSubstr(", a CPU"));
  const auto table = run_inferno({"backends"}).out;
  EXPECT_THAT(table, testing::ContainsRegex("vulkan devices, for --device:\n   0  llvmpipe"));
}

TEST(VulkanSoftware, HybridSaysWhatHelps) {
  const Environment software("VK_ICD_FILENAMES", INFERNO_LAVAPIPE);
  const auto ran = run_inferno({"generate", "-p", "Once", "-n", "1", "--backend", "hybrid", "--device", "0"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, testing::ContainsRegex("backend: hybrid \\(llvmpipe.* beside [0-9]+ thread"));
  const auto bench = run_inferno({"bench", "--backend", "hybrid", "--device", "0", "--prompt", "0", "--depth",
                                  "0", "--gen", "2", "--repeats", "1", "--json"});
  EXPECT_EQ(bench.code, 0) << bench.err;
  EXPECT_THAT(bench.json()["device"].get<std::string>(), HasSubstr("llvmpipe"));
  // Each larger product is asked for by itself.
  EXPECT_GT(bench.json()["submissions_per_token"].get<double>(), 10);
}

/// Options that a backend has no use for are not overlooked.
TEST(VulkanSoftware, SaysThatItHasNoUseForThreads) {
  const Environment software("VK_ICD_FILENAMES", INFERNO_LAVAPIPE);
  const auto ran = run_inferno(
      {"generate", "-p", "Once", "-n", "1", "--backend", "vulkan", "--device", "0", "--threads", "7"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("the 7 threads asked for are used only if that is lost"));
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
