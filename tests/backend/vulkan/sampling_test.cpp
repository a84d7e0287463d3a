// Choosing on the device: the same ids as the host's sampler for the same logits, settings and seed.

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "backend/gpu/device_slots.hpp"
#include "backend/gpu/kernels.hpp"
#include "backend/vulkan/test_device.hpp"
#include "sampling/sampler.hpp"

namespace inferno::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint32_t kPosition = 17;

class VulkanSampling : public testing::Test {
 protected:
  /// What the device chooses of the logits by this state, -1 for nothing.
  std::int32_t choose_there(const std::vector<float>& logits, const SlotState& state) {
    const auto vocab_size = static_cast<std::uint32_t>(logits.size());
    ModelConfig config;
    config.vocab_size = vocab_size;
    Capabilities can;
    can.sampling_slots = can.token_masks = true;
    SlotTable table(2, vocab_size);
    table.set(1, state, can);
    gpu::DeviceSlots slots(device_, config, {.max_tokens = 1, .slots = 2});
    slots.start_step(1);
    slots.choose_by(0, 1, table[1]);

    std::vector<float> padded = logits;
    padded.resize(slots.constants().stride);
    const auto values = buffer_of(device_, std::span<const float>(padded));
    const std::vector<std::uint32_t> position = {kPosition - 1};
    const std::vector<std::uint32_t> map = {0};
    const auto positions = buffer_of(device_, std::span<const std::uint32_t>(position));
    const auto head_map = buffer_of(device_, std::span<const std::uint32_t>(map));
    const auto chosen = device_.create_buffer(4, gpu::Memory::readback, "a test");
    device_.run_once([&](gpu::Recorder& recorder) {
      recorder.dispatch(gpu::Kernel::adjust,
                        {*values, *slots.states, *slots.biases, *slots.counts, *slots.masks},
                        slots.constants(), {gpu::divide_up(vocab_size, gpu::kPadColumns), 1});
      recorder.barrier();
      recorder.dispatch(gpu::Kernel::sample,
                        {*values, *slots.states, *slots.counts, *positions, *head_map, *chosen},
                        slots.constants(), {1});
    });
    return values_of<std::int32_t>(device_, *chosen, 1)[0];
  }

  static std::int32_t choose_here(const std::vector<float>& logits, const SlotState& state) {
    TokenHistory history(logits.size());
    history.add_prompt(state.prompt);
    for (const auto id : state.generated) history.add_generated(id);
    return choose(logits, state.settings, history, kPosition, state.allowed).id;
  }

  void expect_equal(const std::vector<float>& logits, const SlotState& state, const std::string& what) {
    EXPECT_EQ(choose_there(logits, state), choose_here(logits, state)) << what;
  }

  gpu::Device& device_ = shared_test_device();
};

std::vector<float> random_logits(std::size_t count, std::uint32_t seed, float spread) {
  std::mt19937 random(seed);
  std::vector<float> logits(count);
  for (float& logit : logits) {
    // Of few distinct values, so that there are ties at every edge.
    logit = spread * std::round(static_cast<float>(random() % 1000) / 20.0F) / 50.0F;
  }
  return logits;
}

std::vector<SamplingSettings> all_settings() {
  std::vector<SamplingSettings> list;
  for (const float temperature : {0.0F, 1e-3F, 0.7F, 1.0F, 5.0F}) {
    for (const std::int32_t top_k : {0, 1, 7, 200}) {
      for (const float top_p : {1.0F, 0.9F, 0.3F, 0.0F}) {
        SamplingSettings settings;
        settings.temperature = temperature;
        settings.top_k = top_k;
        settings.top_p = top_p;
        settings.min_p = list.size() % 3 == 0 ? 0.05F : 0.0F;
        settings.seed = 0x123456789ABCDEFULL * (list.size() + 1);
        list.push_back(settings);
      }
    }
  }
  return list;
}

TEST_F(VulkanSampling, EqualsTheHostForAllSettings) {
  std::uint32_t seed = 0;
  for (const SamplingSettings& settings : all_settings()) {
    ++seed;
    SlotState state;
    state.settings = settings;
    expect_equal(random_logits(1237, seed, 20.0F), state, std::to_string(seed));
    expect_equal(random_logits(300, seed, 2.0F), state, std::to_string(seed));
  }
}

TEST_F(VulkanSampling, EqualsTheHostOverTheWholeVocabulary) {
  const auto logits = random_logits(151936, 1, 15.0F);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SlotState state;
    state.settings.temperature = 1.3F;
    state.settings.top_p = seed % 2 == 0 ? 0.95F : 1.0F;
    state.settings.top_k = seed > 2 ? 40 : 0;
    state.settings.seed = seed;
    expect_equal(logits, state, std::to_string(seed));
  }
}

/// Few can be chosen, so that the kernel lists them: with the whole vocabulary only if logits differ.
TEST_F(VulkanSampling, EqualsTheHostWhereLogitsDiffer) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0F, 2.5F);
  std::vector<float> logits(151936);
  for (float& logit : logits) logit = normal(random);
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SlotState state;
    state.settings.temperature = seed % 2 == 0 ? 0.8F : 0.2F;
    state.settings.top_p = seed % 3 == 0 ? 1.0F : 0.95F;
    state.settings.top_k = seed % 4 == 0 ? 0 : static_cast<std::int32_t>(seed * seed * 10);
    state.settings.min_p = seed > 9 ? 0.02F : 0.0F;
    state.settings.seed = seed;
    expect_equal(logits, state, std::to_string(seed));
  }
}

TEST_F(VulkanSampling, EqualsTheHostForAllSizes) {
  for (const std::size_t size :
       {1U, 2U, 4U, 5U, 31U, 127U, 128U, 129U, 511U, 512U, 513U, 1023U, 1024U, 1025U, 4095U, 4097U, 33000U}) {
    for (const std::int32_t top_k : {0, 3, 512, 513}) {
      SlotState state;
      state.settings.temperature = 1.0F;
      state.settings.top_k = top_k;
      state.settings.top_p = size % 2 == 0 ? 0.9F : 1.0F;
      state.settings.seed = size + static_cast<std::uint64_t>(top_k);
      expect_equal(random_logits(size, static_cast<std::uint32_t>(size), 10.0F), state,
                   std::to_string(size) + ", top-k " + std::to_string(top_k));
    }
  }
}

TEST_F(VulkanSampling, BiasesPenaltiesAndMasks) {
  const auto logits = random_logits(500, 3, 10.0F);
  for (const float temperature : {0.0F, 0.8F}) {
    SlotState state;
    state.settings.temperature = temperature;
    state.settings.seed = 99;
    state.settings.logit_bias = {{3, 50.0F}, {4, -100.0F}, {3, -45.5F}, {499, 2.25F}};
    expect_equal(logits, state, "bias");
    state.settings.repetition_penalty = 1.3F;
    state.settings.presence_penalty = 0.5F;
    state.settings.frequency_penalty = 0.25F;
    for (std::int32_t id = 0; id < 200; ++id) state.prompt.push_back(id * 7 % 500);
    for (std::int32_t id = 0; id < 400; ++id) state.generated.push_back(id * id % 300);
    expect_equal(logits, state, "penalties");
    state.allowed.assign(16, 0x11111111U);
    expect_equal(logits, state, "mask");
    state.allowed.assign(16, 0);
    EXPECT_EQ(choose_there(logits, state), -1) << "nothing is allowed";
  }
}

TEST_F(VulkanSampling, WhatCannotBeChosenFrom) {
  for (const float temperature : {0.0F, 1.0F}) {
    SlotState state;
    state.settings.temperature = temperature;
    state.settings.logit_bias = {{1, -100.0F}};
    EXPECT_EQ(choose_there({1, std::nanf(""), 2}, state), -1) << "a NaN, though its id is banned";
    EXPECT_EQ(choose_there({-kInfinity, 5, -kInfinity}, state), -1);
    EXPECT_EQ(choose_there({-kInfinity, 5, -1000}, state), 2);
    expect_equal({-kInfinity, 5, kInfinity, kInfinity}, state, "infinity");
    expect_equal({-0.0F, 9, 0.0F}, state, "zeros");
  }
}

}  // namespace
}  // namespace inferno::test
