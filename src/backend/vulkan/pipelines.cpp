#include "backend/vulkan/pipelines.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include <inferno/error.hpp>

#include "backend/vulkan/result.hpp"
#include "backend/vulkan/spirv.hpp"

namespace inferno::vulkan {
namespace {

const SpirvModule* find_module(std::string_view name) {
  const auto modules = spirv_modules();
  const auto found = std::find_if(modules.begin(), modules.end(),
                                  [name](const SpirvModule& module) { return module.name == name; });
  return found == modules.end() ? nullptr : &*found;
}

}  // namespace

Pipelines::Pipelines(const DeviceFunctions& functions, VkDevice device, bool integer_dot,
                     const FloatControls& controls)
    : functions_(&functions), device_(device), integer_dot_(integer_dot), controls_(controls) {}

bool Pipelines::has(gpu::Kernel kernel) {
  return find_module(gpu::kernel_name(kernel)) != nullptr;
}

Pipeline Pipelines::get(gpu::Kernel kernel) {
  const Layout& shared = layout(gpu::kernel_bindings(kernel));
  auto& pipeline = pipelines_[static_cast<std::size_t>(kernel)];
  if (!pipeline) pipeline = compile(kernel, shared.pipeline.get());
  return {pipeline.get(), shared.pipeline.get(), shared.set.get()};
}

const Pipelines::Layout& Pipelines::layout(std::uint32_t bindings) {
  Layout& layout = layouts_[bindings];
  if (layout.pipeline) return layout;
  std::vector<VkDescriptorSetLayoutBinding> list(bindings);
  for (std::uint32_t i = 0; i < bindings; ++i) {
    list[i].binding = i;
    list[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    list[i].descriptorCount = 1;
    list[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  }
  VkDescriptorSetLayoutCreateInfo set_info{};
  set_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  set_info.bindingCount = bindings;
  set_info.pBindings = list.data();
  VkDescriptorSetLayout set = {};
  check(functions_->create_set_layout(device_, &set_info, nullptr, &set), "vkCreateDescriptorSetLayout");
  layout.set = {device_, set, functions_->destroy_set_layout};

  VkPushConstantRange constants{};
  constants.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  constants.size = kConstantBytes;
  VkPipelineLayoutCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  info.setLayoutCount = 1;
  info.pSetLayouts = &set;
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &constants;
  VkPipelineLayout pipeline = {};
  check(functions_->create_pipeline_layout(device_, &info, nullptr, &pipeline), "vkCreatePipelineLayout");
  layout.pipeline = {device_, pipeline, functions_->destroy_pipeline_layout};
  return layout;
}

Handle<VkPipeline> Pipelines::compile(gpu::Kernel kernel, VkPipelineLayout layout) const {
  const auto name = gpu::kernel_name(kernel);
  const SpirvModule* module = integer_dot_ ? find_module(fmt::format("{}.dot", name)) : nullptr;
  if (module == nullptr) module = find_module(name);
  if (module == nullptr) throw Error(fmt::format("the Vulkan kernel {} is not part of this build", name));

  const std::vector<std::uint32_t> words = with_float_controls(module->words, controls_);
  VkShaderModuleCreateInfo shader_info{};
  shader_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  shader_info.codeSize = words.size() * sizeof words[0];
  shader_info.pCode = words.data();
  VkShaderModule shader = {};
  check(functions_->create_shader(device_, &shader_info, nullptr, &shader),
        fmt::format("vkCreateShaderModule of kernel {}", module->name));
  const Handle<VkShaderModule> owner(device_, shader, functions_->destroy_shader);

  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = shader;
  info.stage.pName = "main";
  info.layout = layout;
  VkPipeline pipeline = {};
  check(functions_->create_compute_pipelines(device_, VkPipelineCache{}, 1, &info, nullptr, &pipeline),
        fmt::format("compiling kernel {}", module->name));
  return {device_, pipeline, functions_->destroy_pipeline};
}

}  // namespace inferno::vulkan
