// What can be seen in the kernels' SPIR-V without running it.

#include "backend/vulkan/spirv.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <unistd.h>

#include "backend/gpu/kernels.hpp"
#include "backend/vulkan/float_controls.hpp"

namespace inferno::vulkan {
namespace {

// Numbers of SPIR-V.
constexpr std::uint32_t kHeaderWords = 5;
constexpr std::uint32_t kOpExecutionMode = 16;
constexpr std::uint32_t kOpCapability = 17;
constexpr std::uint32_t kLocalSize = 17;
constexpr std::uint32_t kOpDecorate = 71;
constexpr std::uint32_t kNoContraction = 42;
/// OpFAdd, OpFSub, OpFMul, OpFDiv, OpFRem, OpFMod, OpVectorTimesScalar, OpMatrixTimesScalar, ..., OpDot.
const std::set<std::uint32_t> kFloatArithmetic = {129, 131, 133, 136, 140, 141, 142, 143, 144, 145, 146, 148};

/// Calls visit(opcode, words of the instruction) for every instruction.
template <typename Visit>
void for_each_instruction(const SpirvModule& module, const Visit& visit) {
  for (std::size_t at = kHeaderWords; at < module.words.size();) {
    const std::uint32_t count = module.words[at] >> 16U;
    ASSERT_GT(count, 0U);
    ASSERT_LE(at + count, module.words.size());
    visit(module.words[at] & 0xFFFFU, module.words.subspan(at, count));
    at += count;
  }
}

TEST(VulkanSpirvTest, EveryKernelIsThere) {
  std::set<std::string_view> names;
  for (const auto& module : spirv_modules()) names.insert(module.name);
  for (std::uint32_t i = 0; i < gpu::kKernelCount; ++i) {
    const auto kernel = static_cast<gpu::Kernel>(i);
    if (kernel == gpu::Kernel::matmul_swiglu_q8) continue;  // no Vulkan device has it
    EXPECT_TRUE(names.contains(gpu::kernel_name(kernel))) << gpu::kernel_name(kernel);
  }
}

// A compiler that may contract or reorder one sum changes results on some device, if not on this one. (glslc
// -O loses the mark in loops that it unrolls: no kernel may ask for that where floats are added.)
TEST(VulkanSpirvTest, NoFloatOperationMayBeContracted) {
  for (const auto& module : spirv_modules()) {
    std::set<std::uint32_t> exact;
    for_each_instruction(module, [&](std::uint32_t opcode, std::span<const std::uint32_t> words) {
      if (opcode == kOpDecorate && words[2] == kNoContraction) exact.insert(words[1]);
    });
    std::size_t bare = 0;
    for_each_instruction(module, [&](std::uint32_t opcode, std::span<const std::uint32_t> words) {
      if (kFloatArithmetic.contains(opcode) && !exact.contains(words[2])) ++bare;
    });
    EXPECT_EQ(bare, 0U) << "in " << module.name;
  }
}

/// Numbers of the capabilities (`modes` false) or of the float execution modes of a module.
std::vector<std::uint32_t> asked_for(std::span<const std::uint32_t> words, bool modes) {
  std::vector<std::uint32_t> result;
  for_each_instruction({{}, words}, [&](std::uint32_t opcode, std::span<const std::uint32_t> instruction) {
    if (!modes && opcode == kOpCapability) result.push_back(instruction[1]);
    if (modes && opcode == kOpExecutionMode && instruction[2] != kLocalSize) {
      EXPECT_EQ(instruction[3], 32U);
      result.push_back(instruction[2]);
    }
  });
  return result;
}

TEST(VulkanSpirvTest, AsksForExactFloatsWhereTheyAreOffered) {
  for (const auto& module : spirv_modules()) {
    const auto plain = with_float_controls(module.words, {});
    EXPECT_EQ(plain, std::vector(module.words.begin(), module.words.end())) << module.name;
    EXPECT_EQ(asked_for(plain, true), std::vector<std::uint32_t>{}) << module.name;

    const auto exact = with_float_controls(module.words, {true, true, true});
    EXPECT_EQ(asked_for(exact, true), (std::vector<std::uint32_t>{4459, 4461, 4462})) << module.name;
    auto capabilities = asked_for(module.words, false);
    capabilities.insert(capabilities.end(), {4464, 4466, 4467});
    EXPECT_EQ(asked_for(exact, false), capabilities) << module.name;
    EXPECT_EQ(exact.size(), module.words.size() + 3 * 2 + 3 * 4) << module.name;

    const auto some = with_float_controls(module.words, {.keeps_subnormals = true});
    EXPECT_EQ(asked_for(some, true), std::vector<std::uint32_t>{4459}) << module.name;
  }
}

TEST(VulkanSpirvTest, WorkgroupsFitEveryDevice) {
  for (const auto& module : spirv_modules()) {
    std::uint32_t invocations = 0;
    for_each_instruction(module, [&](std::uint32_t opcode, std::span<const std::uint32_t> words) {
      if (opcode == kOpExecutionMode && words[2] == kLocalSize) invocations = words[3] * words[4] * words[5];
    });
    EXPECT_GT(invocations, 0U) << module.name;
    EXPECT_LE(invocations, 256U) << module.name;
  }
}

// What MoltenVK does on Apple's devices. They have no integer dot products: those variants are not for them.
TEST(VulkanSpirvTest, TranslatesToMetal) {
  const auto directory =
      std::filesystem::temp_directory_path() / fmt::format("inferno-spirv-test-{}", ::getpid());
  std::filesystem::create_directories(directory);
  for (const auto& module : spirv_modules()) {
    if (module.name.ends_with(".dot")) continue;
    const auto spirv = directory / fmt::format("{}.spv", module.name);
    const auto metal = directory / fmt::format("{}.metal", module.name);
    const auto said = directory / "said";
    std::ofstream(spirv, std::ios::binary)
        .write(reinterpret_cast<const char*>(module.words.data()),
               static_cast<std::streamsize>(module.words.size_bytes()));
    const auto command = fmt::format("spirv-cross --msl --msl-version 20100 '{}' --output '{}' > '{}' 2>&1",
                                     spirv.string(), metal.string(), said.string());
    const int status = std::system(command.c_str());  // NOLINT(cert-env33-c): paths are this test's own
    std::ifstream complaints(said);
    const std::string text((std::istreambuf_iterator<char>(complaints)), {});
    EXPECT_EQ(status, 0) << module.name << ": " << text << "(needs Debian's spirv-cross)";
    EXPECT_EQ(text, "") << module.name;
    EXPECT_GT(std::filesystem::file_size(metal), 100U) << module.name;
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace inferno::vulkan
