#include "backend/vulkan/kernels/fixtures.hpp"
#include "sampling/sampler.hpp"

namespace inferno::gpu {
namespace {

class VulkanArgmaxTest : public VulkanKernelTest {
 protected:
  /// Chooses from rows of logits and compares with the host's argmax.
  static void check(const std::vector<std::vector<float>>& rows) {
    const std::size_t columns = rows[0].size();
    std::vector<float> logits;
    std::vector<std::uint32_t> expected;
    for (const auto& row : rows) {
      logits.insert(logits.end(), row.begin(), row.end());
      logits.resize(logits.size() + padded(columns) - columns, 1e30F);  // what must not be looked at
      const Choice choice = argmax(row);
      expected.push_back(choice.error.empty() ? static_cast<std::uint32_t>(choice.id) : kNothingChosen);
    }
    const auto chunks = argmax_chunks_of(static_cast<std::uint32_t>(columns));
    const auto logit_buffer = buffer(logits);
    const auto best = results<std::uint64_t>(rows.size() * chunks);
    const auto chosen = results<std::uint32_t>(rows.size());
    const ArgmaxConstants constants{static_cast<std::uint32_t>(columns),
                                    static_cast<std::uint32_t>(padded(columns)), chunks};
    const auto count = static_cast<std::uint32_t>(rows.size());
    run(Kernel::argmax_chunks, {*logit_buffer, *best}, constants, {chunks, count});
    run(Kernel::argmax, {*best, *chosen}, constants, {1, count});
    EXPECT_EQ(read<std::uint32_t>(*chosen), expected) << columns << " columns";
  }
};

TEST_F(VulkanArgmaxTest, RandomLogits) {
  Random random(1);
  for (const std::size_t columns : {1U, 2U, 255U, 256U, 257U, 2047U, 2048U, 2049U, 5000U}) {
    check({random.vector(columns), random.vector(columns, 1e30F), random.vector(columns, 1e-40F)});
  }
}

TEST_F(VulkanArgmaxTest, TiesGoToTheLowestIndexOfTheWholeVocabulary) {
  Random random(2);
  constexpr std::size_t kVocabulary = 151936;
  auto far = random.vector(kVocabulary);
  far[3] = far[2048] = far[151935] = 2.0F;
  auto near = random.vector(kVocabulary);
  near[151934] = near[151935] = 2.0F;
  auto zeros = std::vector<float>(kVocabulary, -1.0F);
  zeros[70001] = 0.0F;
  zeros[70000] = -0.0F;
  check({far, near, zeros, std::vector<float>(kVocabulary, -5.0F), random.vector(kVocabulary)});
}

TEST_F(VulkanArgmaxTest, InfinitiesAndNaN) {
  std::vector<float> logits(3000, -1.0F);
  auto high = logits;
  high[2999] = kInfinity;
  auto low = std::vector<float>(3000, -kInfinity);
  auto one = low;
  one[2500] = -1e38F;
  auto broken = high;
  broken[17] = kNaN;
  auto negative = high;
  negative[2998] = -kNaN;
  check({high, low, one, broken, negative});
}

}  // namespace
}  // namespace inferno::gpu
