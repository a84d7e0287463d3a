// The device interface on a Vulkan device: buffers, copies, recordings, counts.

#include <array>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

#include "backend/gpu/meter.hpp"
#include "backend/vulkan/test_device.hpp"

namespace inferno {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> counted(std::size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

class VulkanDeviceTest : public testing::Test {
 protected:
  std::unique_ptr<gpu::Buffer> buffer(const std::vector<float>& values) {
    return test::buffer_of(device_, std::span(values));
  }
  gpu::Device& device_ = test::shared_test_device();
};

TEST_F(VulkanDeviceTest, SaysWhatItCan) {
  const auto& can = device_.capabilities();
  EXPECT_FALSE(can.name.empty());
  EXPECT_GE(can.subgroup_size, 4U);
  EXPECT_GE(can.max_range, std::uint64_t{128} << 20U);
  EXPECT_GE(can.shared_bytes, 32768U);
  EXPECT_GT(can.memory_bytes, 0U);
  EXPECT_LE(device_.free_bytes(), can.memory_bytes);
}

TEST_F(VulkanDeviceTest, MemoryIsZeroAtFirst) {
  for (const auto memory : {gpu::Memory::device, gpu::Memory::upload, gpu::Memory::readback}) {
    const auto buffer = device_.create_buffer(1000, memory, "a test");
    EXPECT_THAT(test::values_of<std::uint8_t>(device_, *buffer, 1000), Each(0));
    EXPECT_TRUE(memory == gpu::Memory::device || buffer->mapped().size() == 1000);
  }
}

TEST_F(VulkanDeviceTest, CopiesAndFills) {
  const auto source = buffer({1, 2, 3, 4, 5});
  const auto target = buffer(std::vector<float>(5, 9));
  device_.run_once([&](gpu::Recorder& recorder) {
    recorder.copy({*source, 4, 12}, {*target, 8, 12});
    recorder.fill({*target, 0, 4}, 0);
  });
  EXPECT_THAT(test::values_of<float>(device_, *target, 5), ElementsAre(0, 9, 2, 3, 4));
}

TEST_F(VulkanDeviceTest, RunsAKernelInOrder) {
  constexpr std::size_t kCount = 300;
  const auto x = buffer(counted(2 * kCount, 0));
  const auto branch = buffer(counted(2 * kCount, 1));
  const gpu::AddConstants constants{.columns = kCount, .stride = kCount};
  device_.run_once([&](gpu::Recorder& recorder) {
    for (int i = 0; i < 3; ++i) {
      recorder.dispatch(gpu::Kernel::add, {*x, *branch}, constants, {2, 2});
      recorder.barrier();
    }
  });
  const auto sums = test::values_of<float>(device_, *x, 2 * kCount);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    ASSERT_EQ(sums[i], static_cast<float>(4 * i + 3)) << i;
  }
}

TEST_F(VulkanDeviceTest, ARecordingIsSubmittedAgainAndReadsWhatBuffersSayThen) {
  const auto x = buffer({1, 2});
  const auto branch = device_.create_buffer(8, gpu::Memory::upload, "a test");
  const auto grid = device_.create_buffer(12, gpu::Memory::upload, "a test");
  const auto set = [](const gpu::Buffer& target, auto... values) {
    const std::array list{values...};
    std::memcpy(target.mapped().data(), list.data(), sizeof list);
  };
  set(*branch, 10.0F, 20.0F);
  set(*grid, 1U, 1U, 1U);
  const auto recorder = device_.record();
  recorder->dispatch_indirect(gpu::Kernel::add, {*x, *branch}, gpu::AddConstants{2, 2}, *grid);
  const auto recording = recorder->finish();
  EXPECT_EQ(recording->dispatches(), 1U);

  device_.submit(*recording, 1);
  device_.wait();
  set(*branch, 100.0F, 200.0F);
  device_.submit(*recording, 3);
  device_.wait();
  EXPECT_THAT(test::values_of<float>(device_, *x, 2), ElementsAre(311, 622));
  set(*grid, 0U, 1U, 1U);
  device_.submit(*recording, 1);
  EXPECT_THAT(test::values_of<float>(device_, *x, 2), ElementsAre(311, 622));
}

TEST_F(VulkanDeviceTest, CountsWhatItDoes) {
  const auto x = buffer({1, 2});
  const auto read = device_.create_buffer(4, gpu::Memory::readback, "a test");
  const auto recorder = device_.record();
  recorder->dispatch(gpu::Kernel::add, {*x, *x}, gpu::AddConstants{2, 2}, {});
  recorder->barrier();
  recorder->copy({*x, 0, 4}, *read);
  const auto recording = recorder->finish();
  const auto before = device_.counters();
  device_.submit(*recording, 2);
  device_.wait();
  float value = 0;
  device_.read(*read, std::as_writable_bytes(std::span(&value, 1)));
  EXPECT_EQ(value, 4.0F);
  const auto after = device_.counters();
  EXPECT_EQ(after.submissions - before.submissions, 1U);
  EXPECT_EQ(after.waits - before.waits, 1U);
  EXPECT_EQ(after.bytes_read - before.bytes_read, 4U);
  EXPECT_EQ(after.dispatches - before.dispatches, 2U);
  EXPECT_EQ(after.allocations - before.allocations, 0U);
}

TEST_F(VulkanDeviceTest, RefusesWhatBreaksARule) {
  const auto x = buffer(counted(128, 0));
  const gpu::AddConstants constants{2, 2};
  const auto error = [&](const std::vector<gpu::Slice>& slices, gpu::Grid grid) {
    try {
      device_.record()->dispatch(gpu::Kernel::add, slices, std::as_bytes(std::span(&constants, 1)), grid);
    } catch (const Error& refused) {
      return std::string(refused.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(error({*x}, {}), HasSubstr("kernel add was given 1 buffers"));
  EXPECT_THAT(error({*x, {*x, 16, 64}}, {}), HasSubstr("buffer 1 is bound from 16 on"));
  EXPECT_THAT(error({*x, {*x, 256, 512}}, {}), HasSubstr("512 bytes of 512"));
  EXPECT_THAT(error({*x, {}}, {}), HasSubstr("buffer 1"));
  EXPECT_THAT(error({*x, *x}, {1, 1, 0xFFFFFFFF}), HasSubstr("4294967295 workgroups"));
  EXPECT_EQ(error({*x, {*x, 256, 256}}, {}), "accepted");
}

TEST_F(VulkanDeviceTest, IsMeasured) {
  ASSERT_TRUE(device_.has(gpu::Kernel::measure_read));
  gpu::Meter meter(device_, std::uint64_t{3} << 20U);
  const DeviceLimits limits = meter.limits();
  EXPECT_EQ(limits.buffer_bytes, std::uint64_t{3} << 20U);
  EXPECT_GT(limits.read_gb_per_second, 0);
  EXPECT_GT(limits.int8_gops, 0);
  EXPECT_GT(limits.fp32_gflops, 0);
  EXPECT_GT(meter.read_gb_per_second(), 0);
}

TEST_F(VulkanDeviceTest, SaysWhatIsNeededAndFreeWhenMemoryRunsOut) {
  try {
    device_.create_buffer(std::uint64_t{1} << 50U, gpu::Memory::device, "the weights");
    FAIL() << "a petabyte was allocated";
  } catch (const Error& refused) {
    EXPECT_THAT(refused.what(), HasSubstr("1125899906842624 bytes for the weights"));
    EXPECT_THAT(refused.what(), HasSubstr("are free"));
  }
  EXPECT_THAT(test::values_of<float>(device_, *buffer({7}), 1), ElementsAre(7));
}

}  // namespace
}  // namespace inferno
