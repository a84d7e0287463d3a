#pragma once

#include <string>
#include <string_view>

#include "backend/vulkan/functions.hpp"

namespace inferno::vulkan {

/// "VK_ERROR_DEVICE_LOST", or the number of one that is not known.
std::string result_name(VkResult result);

/// Throws DeviceLost or Error, saying what was tried, unless `result` is VK_SUCCESS.
void check(VkResult result, std::string_view what);

}  // namespace inferno::vulkan
