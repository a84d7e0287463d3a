#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace inferno::vulkan {

/// One compiled kernel.
struct SpirvModule {
  std::string_view name;  ///< the kernel's; with ".dot" where it needs integer dot products
  std::span<const std::uint32_t> words;
};

/// Every kernel of this build.
std::span<const SpirvModule> spirv_modules();

}  // namespace inferno::vulkan
