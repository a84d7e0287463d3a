#include "backend/vulkan/float_controls.hpp"

#include <array>
#include <cstddef>

namespace inferno::vulkan {
namespace {

// Numbers of SPIR-V.
constexpr std::size_t kHeaderWords = 5;
constexpr std::uint32_t kOpEntryPoint = 15;
constexpr std::uint32_t kOpExecutionMode = 16;
constexpr std::uint32_t kOpCapability = 17;
constexpr std::uint32_t kFloatBits = 32;

struct Control {
  bool FloatControls::*wanted;
  std::uint32_t capability;
  std::uint32_t mode;
};
constexpr std::array kControls = {
    Control{&FloatControls::keeps_subnormals, 4464, 4459},
    Control{&FloatControls::keeps_special, 4466, 4461},
    Control{&FloatControls::rounds_to_nearest, 4467, 4462},
};

constexpr std::uint32_t first_word(std::uint32_t words, std::uint32_t opcode) {
  return words << 16U | opcode;
}

}  // namespace

std::vector<std::uint32_t> with_float_controls(std::span<const std::uint32_t> words,
                                               const FloatControls& controls) {
  std::vector<std::uint32_t> result(words.begin(), words.begin() + kHeaderWords);
  bool capabilities_done = false;
  for (std::size_t at = kHeaderWords; at < words.size();) {
    const std::uint32_t opcode = words[at] & 0xFFFFU;
    const auto instruction = words.subspan(at, words[at] >> 16U);
    at += instruction.size();
    // Capabilities come first, the entry point's modes right behind it.
    if (opcode != kOpCapability && !capabilities_done) {
      capabilities_done = true;
      for (const Control& control : kControls) {
        if (!(controls.*control.wanted)) continue;
        result.insert(result.end(), {first_word(2, kOpCapability), control.capability});
      }
    }
    result.insert(result.end(), instruction.begin(), instruction.end());
    if (opcode != kOpEntryPoint) continue;
    for (const Control& control : kControls) {
      if (!(controls.*control.wanted)) continue;
      result.insert(result.end(),
                    {first_word(4, kOpExecutionMode), instruction[2], control.mode, kFloatBits});
    }
  }
  return result;
}

}  // namespace inferno::vulkan
