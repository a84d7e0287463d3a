// Which device is taken: by number, each once, a CPU never unless asked for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/vulkan/instance.hpp"

namespace inferno::vulkan {
namespace {

using testing::HasSubstr;

DeviceInfo device(const char* name, VkPhysicalDeviceType type, std::uint8_t uuid,
                  std::uint32_t version = VK_API_VERSION_1_3) {
  DeviceInfo info;
  info.name = name;
  info.type = type;
  info.uuid.fill(uuid);
  info.api_version = version;
  return info;
}

const DeviceInfo kSoftware = device("llvmpipe", VK_PHYSICAL_DEVICE_TYPE_CPU, 1);
const DeviceInfo kIntegrated = device("Iris", VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, 2);
const DeviceInfo kCard = device("H200", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 3);
const DeviceInfo kSecondCard = device("H200", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 4);

std::vector<std::uint8_t> order(const std::vector<DeviceInfo>& found) {
  std::vector<std::uint8_t> uuids;
  for (const auto& info : order_devices(found)) uuids.push_back(info.uuid[0]);
  return uuids;
}

TEST(VulkanDevices, CardsComeFirstAndCpusLast) {
  EXPECT_THAT(order({kSoftware, kIntegrated, kCard, kSecondCard}), testing::ElementsAre(3, 4, 2, 1));
}

TEST(VulkanDevices, OneThatTwoDriversOfferIsListedOnce) {
  const auto again = device("H200 (other driver)", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 3);
  const auto devices = order_devices({kCard, again, kSecondCard});
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].name, "H200");
  EXPECT_EQ(devices[1].uuid[0], 4);
}

TEST(VulkanDevices, TheFirstIsTakenUnlessAnotherIsAskedFor) {
  const std::vector devices = {kCard, kSecondCard, kSoftware};
  EXPECT_EQ(choose_device(devices, std::nullopt).index, 0U);
  EXPECT_EQ(choose_device(devices, 1).index, 1U);
  EXPECT_EQ(choose_device(devices, 2).index, 2U);
  const auto missing = choose_device(devices, 3);
  EXPECT_FALSE(missing.index);
  EXPECT_THAT(missing.reason, HasSubstr("no device 3"));
}

TEST(VulkanDevices, ACpuIsNeverTakenByDefault) {
  const std::vector devices = {kSoftware};
  const auto choice = choose_device(devices, std::nullopt);
  EXPECT_FALSE(choice.index);
  EXPECT_THAT(choice.reason, HasSubstr("llvmpipe, which is a CPU"));
  EXPECT_EQ(choose_device(devices, 0).index, 0U);
}

TEST(VulkanDevices, WhatIsTooOldOrMissingIsSaid) {
  EXPECT_THAT(choose_device({}, std::nullopt).reason, HasSubstr("no Vulkan driver"));
  const std::vector old = {device("old", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 1, VK_API_VERSION_1_1)};
  EXPECT_THAT(choose_device(old, std::nullopt).reason, HasSubstr("old speaks Vulkan 1.1"));
}

}  // namespace
}  // namespace inferno::vulkan
