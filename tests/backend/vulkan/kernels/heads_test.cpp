#include "backend/vulkan/kernels/attention_fixtures.hpp"

namespace inferno::gpu {
namespace {

class VulkanHeadsTest : public VulkanKernelTest {
 protected:
  static constexpr std::uint32_t kTokens = 4;

  static void check_parts(const Heads& heads, const std::vector<std::uint32_t>& dispatches) {
    Random random(heads.head_dim + heads.group);
    const std::size_t query_width = std::size_t{heads.heads()} * heads.head_dim;
    const std::size_t kv_width = std::size_t{heads.kv_heads} * heads.head_dim;
    const auto key_offset = query_width + 1;
    const auto value_offset = key_offset + kv_width + 2;
    const auto stride = value_offset + kv_width + 3;
    auto qkv = random.vector(kTokens * stride, 5.0F);
    qkv[0] = kInfinity;
    const auto query_norm = random.vector(heads.head_dim, 2.0F);
    const auto key_norm = random.vector(heads.head_dim, 2.0F);
    const std::vector<std::uint32_t> positions = {0, 6, 3, 5};
    const auto rope = random.vector(std::size_t{heads.head_dim} * 8);
    const std::vector<std::uint32_t> slots = {2, 1, 0, heads.block_size - 1, kNoBlock, 0, 1, 0};
    HostCache cache(heads, 3);

    const auto qkv_buffer = buffer(qkv);
    const auto query_norm_buffer = buffer(query_norm);
    const auto key_norm_buffer = buffer(key_norm);
    const auto rope_buffer = buffer(rope);
    const auto position_buffer = buffer(positions);
    const auto slot_buffer = buffer(slots);
    const auto quants = results<std::int8_t>(kTokens * heads.heads() * heads.padded_dim());
    const auto scales = results<float>(kTokens * heads.heads() * heads.scale_blocks());
    const auto cache_buffer = buffer(cache.bytes());
    const float inverse_length = 1.0F / static_cast<float>(heads.head_dim);
    for (const auto parts : dispatches) {
      run(Kernel::prepare_heads,
          {*qkv_buffer, *query_norm_buffer, *key_norm_buffer, *rope_buffer, *position_buffer, *slot_buffer,
           *quants, *scales, *cache_buffer},
          HeadConstants{heads.heads(), heads.kv_heads, heads.head_dim, heads.padded_dim(), u32(stride),
                        u32(key_offset), u32(value_offset), heads.block_size, inverse_length, 1e-6F,
                        heads.softmax_scale(), parts},
          {heads.heads() + 2 * heads.kv_heads, kTokens});
    }

    auto expected_qkv = qkv;
    std::vector<std::int8_t> expected_quants;
    std::vector<float> expected_scales;
    for (std::size_t t = 0; t < kTokens; ++t) {
      const auto prepare = [&](std::size_t at, std::span<const float> weight) {
        const auto head = std::span(expected_qkv).subspan(t * stride + at, heads.head_dim);
        return norm_rotate_quantize(head, weight, row_of(rope, positions[t], heads.head_dim, heads.head_dim),
                                    1e-6F);
      };
      for (std::size_t h = 0; h < heads.heads(); ++h) {
        auto query = prepare(h * heads.head_dim, query_norm);
        expected_quants.insert(expected_quants.end(), query.values.begin(), query.values.end());
        for (const float scale : query.scales)
          expected_scales.push_back(arith::multiply(scale, heads.softmax_scale()));
      }
      for (std::uint32_t kv_head = 0; kv_head < heads.kv_heads; ++kv_head) {
        const auto key = prepare(key_offset + kv_head * heads.head_dim, key_norm);
        if (slots[2 * t] == kNoBlock) continue;
        cache.put(cache.key(slots[2 * t], kv_head, slots[2 * t + 1]), key);
        const auto value = row_of(qkv, t, stride, stride).subspan(value_offset + kv_head * heads.head_dim);
        cache.put(cache.value(slots[2 * t], kv_head, slots[2 * t + 1]),
                  arith::quantize_vector(value.first(heads.head_dim)));
      }
    }
    EXPECT_EQ(read<std::int8_t>(*quants), expected_quants) << heads;
    EXPECT_TRUE(same(read<float>(*scales), expected_scales)) << heads;
    EXPECT_EQ(read<std::byte>(*cache_buffer), cache.bytes()) << heads;
    const bool floats = (dispatches.back() & kHeadFloats) != 0 || dispatches.size() > 1;
    EXPECT_TRUE(same(read<float>(*qkv_buffer), floats ? expected_qkv : qkv)) << heads;
  }
};

TEST_F(VulkanHeadsTest, AtOnce) {
  for (const std::uint32_t head_dim : {2U, 48U, 64U, 96U, 128U, 256U}) {
    check_parts({2, 3, head_dim, 4}, {kHeadNorm | kHeadRotate | kHeadStore});
    check_parts({1, 1, head_dim, 2}, {kHeadNorm | kHeadRotate | kHeadStore | kHeadFloats});
  }
}

TEST_F(VulkanHeadsTest, PartByPart) {
  check_parts({2, 2, 96, 16}, {kHeadNorm | kHeadFloats, kHeadRotate | kHeadFloats, kHeadStore});
}

}  // namespace
}  // namespace inferno::gpu
