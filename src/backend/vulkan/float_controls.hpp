#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace inferno::vulkan {

/// What a device can be told to do with 32-bit floats (SPV_KHR_float_controls, part of Vulkan 1.2). The
/// arithmetic needs all of it; a driver that is not told may flush subnormals to zero, as NVIDIA's does.
struct FloatControls {
  bool keeps_subnormals = false;   ///< DenormPreserve
  bool keeps_special = false;      ///< SignedZeroInfNanPreserve
  bool rounds_to_nearest = false;  ///< RoundingModeRTE
};

/// A compute module that asks for them: `words` with capabilities and execution modes put where SPIR-V has
/// them. `words` is one of this build's modules: SPIR-V 1.4 or later with one entry point.
std::vector<std::uint32_t> with_float_controls(std::span<const std::uint32_t> words,
                                               const FloatControls& controls);

}  // namespace inferno::vulkan
