// Which device is taken: by number, each once, a CPU never unless asked for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/vulkan/instance.hpp"

namespace inferno::vulkan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
const DeviceInfo kOldCard = device("old", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, 5, VK_API_VERSION_1_1);
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
  EXPECT_THAT(choose_devices(devices, std::nullopt).order, ElementsAre(0, 1));
  EXPECT_THAT(choose_devices(devices, 1).order, ElementsAre(1));
  EXPECT_THAT(choose_devices(devices, 2).order, ElementsAre(2));
  const auto missing = choose_devices(devices, 3);
  EXPECT_THAT(missing.order, IsEmpty());
  EXPECT_THAT(missing.reason, HasSubstr("no device 3"));
}

TEST(VulkanDevices, ACpuIsNeverTakenByDefault) {
  const std::vector devices = {kSoftware};
  const auto choice = choose_devices(devices, std::nullopt);
  EXPECT_THAT(choice.order, IsEmpty());
  EXPECT_THAT(choice.reason, HasSubstr("llvmpipe, which is a CPU"));
  EXPECT_THAT(choice.reason, HasSubstr("--device 0 takes it"));
  EXPECT_THAT(choose_devices(devices, 0).order, ElementsAre(0));
}

/// Whoever wants a GPU gets none of them, its number or not.
TEST(VulkanDevices, ACpuIsNoGpu) {
  const std::vector devices = {kCard, kSoftware};
  EXPECT_THAT(choose_devices(devices, std::nullopt, SoftwareDevices::never).order, ElementsAre(0));
  const auto named = choose_devices(devices, 1, SoftwareDevices::never);
  EXPECT_THAT(named.order, IsEmpty());
  EXPECT_THAT(named.reason, "llvmpipe, which is a CPU");
  EXPECT_THAT(choose_devices(devices, std::nullopt, SoftwareDevices::always).order, ElementsAre(0, 1));
}

TEST(VulkanDevices, WhatIsTooOldOrMissingIsSaid) {
  EXPECT_THAT(choose_devices({}, std::nullopt).reason, HasSubstr("no Vulkan driver"));
  EXPECT_THAT(choose_devices(std::vector{kOldCard}, std::nullopt).reason, HasSubstr("old speaks Vulkan 1.1"));
  EXPECT_THAT(choose_devices(std::vector{kOldCard}, 0).reason, HasSubstr("old speaks Vulkan 1.1"));
}

/// One that cannot be used hides none of those behind it.
TEST(VulkanDevices, AnOldCardHidesNoGoodOne) {
  EXPECT_THAT(choose_devices(std::vector{kOldCard, kIntegrated}, std::nullopt).order, ElementsAre(1));
  EXPECT_THAT(choose_devices(std::vector{kOldCard, kOldCard, kIntegrated, kSoftware}, std::nullopt).order,
              ElementsAre(2));
  const auto none = choose_devices(std::vector{kOldCard, kSoftware}, std::nullopt);
  EXPECT_THAT(none.order, IsEmpty());
  EXPECT_THAT(none.reason, HasSubstr("old speaks Vulkan 1.1"));
  EXPECT_THAT(none.reason, HasSubstr("llvmpipe, which is a CPU"));
}

TEST(VulkanDevices, OneThatDoesNotOpenHidesNoneEither) {
  std::vector<std::size_t> tried;
  const auto open = [&tried](std::size_t index) {
    tried.push_back(index);
    if (index < 2) throw Error("device " + std::to_string(index) + " is out of order");
    return index;
  };
  EXPECT_EQ(open_first({{0, 1, 2, 3}, {}}, open), 2U);
  EXPECT_THAT(tried, ElementsAre(0, 1, 2));
  try {
    open_first({{0, 1}, "old speaks Vulkan 1.1"}, open);
    FAIL() << "nothing opens";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "old speaks Vulkan 1.1, device 0 is out of order, device 1 is out of order");
  }
}

}  // namespace
}  // namespace inferno::vulkan
