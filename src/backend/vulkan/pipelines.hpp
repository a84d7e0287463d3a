#pragma once

#include <array>

#include "backend/gpu/kernels.hpp"
#include "backend/vulkan/float_controls.hpp"
#include "backend/vulkan/functions.hpp"
#include "backend/vulkan/handle.hpp"

namespace inferno::vulkan {

/// Bytes of push constants that every device takes.
inline constexpr std::uint32_t kConstantBytes = 128;

/// A kernel, ready to be bound.
struct Pipeline {
  VkPipeline pipeline = {};
  VkPipelineLayout layout = {};
  VkDescriptorSetLayout set_layout = {};
};

/// The kernels of a device, each compiled by the driver when it is first asked for.
class Pipelines {
 public:
  Pipelines() = default;
  /// `integer_dot`: take the kernels' variants with integer dot products where there are any.
  /// `controls`: what modules ask of the device's float arithmetic, which offers it.
  Pipelines(const DeviceFunctions& functions, VkDevice device, bool integer_dot,
            const FloatControls& controls);

  /// Whether the kernel is part of this build.
  static bool has(gpu::Kernel kernel);
  /// Throws Error if the kernel is not part of this build or the driver refuses it.
  Pipeline get(gpu::Kernel kernel);

 private:
  struct Layout {
    Handle<VkDescriptorSetLayout> set;
    Handle<VkPipelineLayout> pipeline;
  };
  const Layout& layout(std::uint32_t bindings);
  Handle<VkPipeline> compile(gpu::Kernel kernel, VkPipelineLayout layout) const;

  const DeviceFunctions* functions_ = nullptr;
  VkDevice device_ = nullptr;
  bool integer_dot_ = false;
  FloatControls controls_;
  std::array<Layout, gpu::kMaxBindings + 1> layouts_;  // by the number of bindings
  std::array<Handle<VkPipeline>, gpu::kKernelCount> pipelines_;
};

}  // namespace inferno::vulkan
