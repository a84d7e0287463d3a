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

namespace inferno::vulkan {
namespace {

// Numbers of SPIR-V.
constexpr std::uint32_t kHeaderWords = 5;
constexpr std::uint32_t kOpExecutionMode = 16;
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
    EXPECT_TRUE(names.contains(gpu::kernel_name(static_cast<gpu::Kernel>(i))))
        << gpu::kernel_name(static_cast<gpu::Kernel>(i));
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
