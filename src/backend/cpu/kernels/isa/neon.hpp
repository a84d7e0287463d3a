#pragma once

#include <arm_neon.h>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/inline.hpp"
#include "backend/cpu/kernels/unroll.hpp"

namespace inferno::cpu {
namespace {

/// Sixteen lanes in four registers, for what every AArch64 processor has. See isa/README.md for what a kernel
/// may ask of an instruction set.
struct Neon {
  static constexpr std::size_t kRegisters = 4;
  struct Floats {
    float32x4_t v[kRegisters];
  };
  struct Ints {
    int32x4_t v[kRegisters];
  };

  /// A result whose registers are what `part(0)` to `part(3)` give.
  template <class Result, class Part>
  INFERNO_INLINE static Result each(const Part& part) {
    return {{part(Index<0>{}), part(Index<1>{}), part(Index<2>{}), part(Index<3>{})}};
  }

  // Floats.
  INFERNO_INLINE static Floats zero() { return broadcast(0.0F); }
  INFERNO_INLINE static Floats broadcast(float x) {
    return each<Floats>([=](auto) INFERNO_INLINE_LAMBDA { return vdupq_n_f32(x); });
  }
  INFERNO_INLINE static Floats load(const float* p) {
    return each<Floats>([=](auto i) INFERNO_INLINE_LAMBDA { return vld1q_f32(p + 4 * i.value); });
  }
  INFERNO_INLINE static void store(float* p, Floats x) {
    unroll<kRegisters>([&](auto i) INFERNO_INLINE_LAMBDA { vst1q_f32(p + 4 * i.value, x.v[i.value]); });
  }
  INFERNO_INLINE static Floats add(Floats a, Floats b) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA { return vaddq_f32(a.v[i.value], b.v[i.value]); });
  }
  INFERNO_INLINE static Floats subtract(Floats a, Floats b) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA { return vsubq_f32(a.v[i.value], b.v[i.value]); });
  }
  INFERNO_INLINE static Floats multiply(Floats a, Floats b) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA { return vmulq_f32(a.v[i.value], b.v[i.value]); });
  }
  INFERNO_INLINE static Floats multiply_add(Floats a, Floats b, Floats c) {
    return each<Floats>(
        [&](auto i) INFERNO_INLINE_LAMBDA { return vfmaq_f32(c.v[i.value], a.v[i.value], b.v[i.value]); });
  }
  // Comparisons, because the instructions for the larger of two return NaN if either is.
  INFERNO_INLINE static Floats larger(Floats a, Floats b) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA {
      return vbslq_f32(vcgtq_f32(b.v[i.value], a.v[i.value]), b.v[i.value], a.v[i.value]);
    });
  }
  INFERNO_INLINE static Floats smaller(Floats a, Floats b) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA {
      return vbslq_f32(vcltq_f32(b.v[i.value], a.v[i.value]), b.v[i.value], a.v[i.value]);
    });
  }
  INFERNO_INLINE static float first(Floats x) { return vgetq_lane_f32(x.v[0], 0); }
  INFERNO_INLINE static float tree_sum(Floats x) {
    const float32x4_t four = vaddq_f32(vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3]));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }
  INFERNO_INLINE static float largest_lane(Floats x) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.v[0], x.v[2]), vmaxq_f32(x.v[1], x.v[3])));
  }
  INFERNO_INLINE static Floats load_half(const std::byte* p) {
    return each<Floats>([=](auto i) INFERNO_INLINE_LAMBDA {
      return vcvt_f32_f16(vreinterpret_f16_u16(load_four(p + 8 * i.value)));
    });
  }
  INFERNO_INLINE static Floats load_bfloat(const std::byte* p) {
    return each<Floats>([=](auto i) INFERNO_INLINE_LAMBDA {
      return vreinterpretq_f32_u32(vshll_n_u16(load_four(p + 8 * i.value), 16));
    });
  }

  // Integers.
  INFERNO_INLINE static Ints bits(Floats x) {
    return each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA { return vreinterpretq_s32_f32(x.v[i.value]); });
  }
  INFERNO_INLINE static Floats from_bits(Ints x) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA { return vreinterpretq_f32_s32(x.v[i.value]); });
  }
  INFERNO_INLINE static Ints broadcast_int(std::int32_t x) {
    return each<Ints>([=](auto) INFERNO_INLINE_LAMBDA { return vdupq_n_s32(x); });
  }
  INFERNO_INLINE static Ints load_ints(const std::int32_t* p) {
    return each<Ints>([=](auto i) INFERNO_INLINE_LAMBDA { return vld1q_s32(p + 4 * i.value); });
  }
  INFERNO_INLINE static void store_ints(std::int32_t* p, Ints x) {
    unroll<kRegisters>([&](auto i) INFERNO_INLINE_LAMBDA { vst1q_s32(p + 4 * i.value, x.v[i.value]); });
  }
  INFERNO_INLINE static Ints add(Ints a, Ints b) {
    return each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA { return vaddq_s32(a.v[i.value], b.v[i.value]); });
  }
  INFERNO_INLINE static Ints subtract(Ints a, Ints b) {
    return each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA { return vsubq_s32(a.v[i.value], b.v[i.value]); });
  }
  INFERNO_INLINE static Ints bit_and(Ints a, Ints b) {
    return each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA { return vandq_s32(a.v[i.value], b.v[i.value]); });
  }
  INFERNO_INLINE static Ints larger(Ints a, Ints b) {
    return each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA { return vmaxq_s32(a.v[i.value], b.v[i.value]); });
  }
  template <unsigned kBits>
  INFERNO_INLINE static Ints shift_left(Ints x) {
    return each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA { return vshlq_n_s32(x.v[i.value], kBits); });
  }
  template <unsigned kBits>
  INFERNO_INLINE static Ints shift_right(Ints x) {
    return each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA {
      return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x.v[i.value]), kBits));
    });
  }
  INFERNO_INLINE static Floats to_float(Ints x) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA { return vcvtq_f32_s32(x.v[i.value]); });
  }
  INFERNO_INLINE static Floats select_less(Ints a, Ints b, Floats then, Floats otherwise) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA {
      return vbslq_f32(vcltq_s32(a.v[i.value], b.v[i.value]), then.v[i.value], otherwise.v[i.value]);
    });
  }
  INFERNO_INLINE static std::int32_t largest_lane(Ints x) {
    return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.v[0], x.v[2]), vmaxq_s32(x.v[1], x.v[3])));
  }
  INFERNO_INLINE static std::int32_t sum_lanes(Ints x) {
    return vaddvq_s32(vaddq_s32(vaddq_s32(x.v[0], x.v[2]), vaddq_s32(x.v[1], x.v[3])));
  }
  INFERNO_INLINE static void store_bytes(std::int8_t* p, Ints x) {
    const int16x8_t low = vcombine_s16(vmovn_s32(x.v[0]), vmovn_s32(x.v[1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(x.v[2]), vmovn_s32(x.v[3]));
    vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
  }

  // Sums of products of weights (or keys) with activations (or queries), two groups of 4 columns at a time:
  // two products of a weight (magnitude up to 128) with an activation (up to 127) fit int16, then pairs are
  // added to 32 bits. A lane's sum is kept as two halves side by side: rows 4 i and 4 i + 1 in low[i], the
  // other two in high[i].
  struct Dots {
    Ints low, high;
  };
  struct Bytes {
    int8x16_t v[kRegisters];
  };
  struct Weights {
    Bytes groups[2];
  };
  struct Activations {
    int8x16_t groups[2];
  };
  static constexpr std::int32_t kWeightBias = 0;
  static constexpr bool kFusedScale = true;
  static constexpr std::size_t kGroups = 2;

  INFERNO_INLINE static Dots start(const std::int32_t* offset) {
    const int32x4_t halves =
        vcombine_s32(vset_lane_s32(*offset, vdup_n_s32(0), 0), vset_lane_s32(*offset, vdup_n_s32(0), 0));
    const Ints all = each<Ints>([=](auto) INFERNO_INLINE_LAMBDA { return halves; });
    return {all, all};
  }
  /// Weights as they are: stored + 128, that is with the sign bit flipped.
  INFERNO_INLINE static Bytes load_signed(const std::uint8_t* p) {
    return each<Bytes>([=](auto i) INFERNO_INLINE_LAMBDA {
      return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p + 16 * i.value), vdupq_n_u8(0x80)));
    });
  }
  INFERNO_INLINE static int8x16_t load_quad(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
  }
  INFERNO_INLINE static Weights load_weights(const std::uint8_t* p) {
    return {{load_signed(p), load_signed(p + 64)}};
  }
  INFERNO_INLINE static Activations load_activations(const std::int8_t* p) {
    return {{load_quad(p), load_quad(p + 4)}};
  }
  INFERNO_INLINE static Dots accumulate(Dots dots, const Weights& weights, const Activations& x) {
    const auto& first = weights.groups[0];
    const auto& second = weights.groups[1];
    return {
        each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA {
          const int16x8_t products = vmull_s8(vget_low_s8(first.v[i.value]), vget_low_s8(x.groups[0]));
          return vpadalq_s16(dots.low.v[i.value],
                             vmlal_s8(products, vget_low_s8(second.v[i.value]), vget_low_s8(x.groups[1])));
        }),
        each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA {
          const int16x8_t products = vmull_high_s8(first.v[i.value], x.groups[0]);
          return vpadalq_s16(dots.high.v[i.value], vmlal_high_s8(products, second.v[i.value], x.groups[1]));
        })};
  }
  INFERNO_INLINE static Ints finish(const Dots& dots) {
    return each<Ints>(
        [&](auto i) INFERNO_INLINE_LAMBDA { return vpaddq_s32(dots.low.v[i.value], dots.high.v[i.value]); });
  }

  // Sums of attention weights of 15 bits with values, both as int16. A lane's sum is kept as four, one for
  // each position of a quad: dimensions 4 i + j of the sixteen in dims[j].v[i].
  struct ValueSums {
    Ints dims[4];
  };
  struct ValueWeights {
    int16x8_t twice;
  };
  struct Values {
    Bytes bytes;
  };
  static constexpr std::size_t kValueVectors = 1;
  static constexpr std::size_t kWeightBytes = sizeof(std::int16_t);  // from position to position

  INFERNO_INLINE static void store_weights(std::byte* integers, std::size_t position, const Ints (&q)[4]) {
    std::int16_t halves[64];
    for (std::size_t i = 0; i < 4; ++i) {
      vst1q_s16(halves + 16 * i, vcombine_s16(vmovn_s32(q[i].v[0]), vmovn_s32(q[i].v[1])));
      vst1q_s16(halves + 16 * i + 8, vcombine_s16(vmovn_s32(q[i].v[2]), vmovn_s32(q[i].v[3])));
    }
    __builtin_memcpy(integers + position * kWeightBytes, halves, sizeof halves);
  }
  INFERNO_INLINE static ValueSums no_values() {
    const Ints none = broadcast_int(0);
    return {{none, none, none, none}};
  }
  INFERNO_INLINE static Values load_values(const std::int8_t* p) {
    return {each<Bytes>([=](auto i) INFERNO_INLINE_LAMBDA { return vld1q_s8(p + 16 * i.value); })};
  }
  INFERNO_INLINE static ValueWeights load_value_weights(const std::byte* p, std::size_t count) {
    std::int64_t four = 0;
    __builtin_memcpy(&four, p, count * kWeightBytes);
    return {vreinterpretq_s16_s64(vdupq_n_s64(four))};
  }
  INFERNO_INLINE static ValueSums weigh(ValueSums sums, ValueWeights weights, const Values& values) {
    unroll<kRegisters>([&](auto i) INFERNO_INLINE_LAMBDA {
      const int16x8_t low = vmovl_s8(vget_low_s8(values.bytes.v[i.value]));
      const int16x8_t high = vmovl_high_s8(values.bytes.v[i.value]);
      const int16x4_t weight = vget_low_s16(weights.twice);
      auto& dims = sums.dims;
      dims[0].v[i.value] = vmlal_s16(dims[0].v[i.value], vget_low_s16(low), weight);
      dims[1].v[i.value] = vmlal_high_s16(dims[1].v[i.value], low, weights.twice);
      dims[2].v[i.value] = vmlal_s16(dims[2].v[i.value], vget_low_s16(high), weight);
      dims[3].v[i.value] = vmlal_high_s16(dims[3].v[i.value], high, weights.twice);
    });
    return sums;
  }
  INFERNO_INLINE static Ints finish(const ValueSums& sums) {
    return each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA {
      return vpaddq_s32(vpaddq_s32(sums.dims[0].v[i.value], sums.dims[1].v[i.value]),
                        vpaddq_s32(sums.dims[2].v[i.value], sums.dims[3].v[i.value]));
    });
  }

  INFERNO_INLINE static void prefetch_far(const void* p) { __builtin_prefetch(p, 0, 2); }
  INFERNO_INLINE static void prefetch(const void* p) { __builtin_prefetch(p); }

  // Shapes: see matmul.hpp and attention.hpp.
  static constexpr std::size_t kTileTokens = 6;
  static constexpr std::size_t kMatmulTokens = 2;
  static constexpr std::size_t kMatmulPanels = 1;
  static constexpr std::size_t kMatmulFewTokens = 2;
  static constexpr std::size_t kFloatRows = 2;
  static constexpr std::size_t kFloatTokens = 2;
  static constexpr std::size_t kScoreGroups = 1;
  static constexpr std::size_t kScoreHeads = 2;
  static constexpr std::size_t kValueHeads = 1;

 private:
  INFERNO_INLINE static uint16x4_t load_four(const std::byte* p) {
    std::uint64_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return vcreate_u16(four);
  }
};

}  // namespace
}  // namespace inferno::cpu
