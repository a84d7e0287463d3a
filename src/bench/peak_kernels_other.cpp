#include "bench/peak_kernels.hpp"

#if !defined(__x86_64__)
#include <array>

#if defined(__aarch64__)
#include <arm_neon.h>

#include "backend/cpu/kernels/processor.hpp"
#endif

#include "bench/peak_chains.hpp"

namespace inferno::bench {
namespace {

#if defined(__aarch64__)

// Makes the compiler believe that a register changes each time, so that no loop is folded away.
#define INFERNO_KEEP(value) asm volatile("" : "+w"(value))

__attribute__((target("arch=armv8.2-a+dotprod"))) void int8_dot_product(std::uint64_t iterations) {
  INFERNO_CHAINS_OF(int32x4_t, vdupq_n_s32(0))
  int8x16_t a = vdupq_n_s8(1);
  int8x16_t b = vdupq_n_s8(1);
  INFERNO_KEEP(a);
  INFERNO_KEEP(b);
  for (std::uint64_t i = 0; i < iterations; ++i) {
#define INFERNO_STEP(sum)       \
  {                             \
    sum = vdotq_s32(sum, a, b); \
    INFERNO_KEEP(sum);          \
  }
    INFERNO_EACH_CHAIN(INFERNO_STEP)
#undef INFERNO_STEP
  }
}

/// Products in 16 bits, then pairs of them added to 32-bit sums.
void int8_neon(std::uint64_t iterations) {
  INFERNO_CHAINS_OF(int32x4_t, vdupq_n_s32(0))
  int8x16_t a = vdupq_n_s8(1);
  int8x16_t b = vdupq_n_s8(1);
  INFERNO_KEEP(b);
  for (std::uint64_t i = 0; i < iterations; ++i) {
#define INFERNO_STEP(sum)                                             \
  {                                                                   \
    INFERNO_KEEP(a);                                                  \
    sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(a), vget_low_s8(b))); \
    sum = vpadalq_s16(sum, vmull_high_s8(a, b));                      \
    INFERNO_KEEP(sum);                                                \
  }
    INFERNO_EACH_CHAIN(INFERNO_STEP)
#undef INFERNO_STEP
  }
}

void fp32_neon(std::uint64_t iterations) {
  INFERNO_CHAINS_OF(float32x4_t, vdupq_n_f32(0))
  float32x4_t a = vdupq_n_f32(1);
  float32x4_t b = vdupq_n_f32(1);
  INFERNO_KEEP(a);
  INFERNO_KEEP(b);
  for (std::uint64_t i = 0; i < iterations; ++i) {
#define INFERNO_STEP(sum)       \
  {                             \
    sum = vfmaq_f32(sum, a, b); \
    INFERNO_KEEP(sum);          \
  }
    INFERNO_EACH_CHAIN(INFERNO_STEP)
#undef INFERNO_STEP
  }
}

#undef INFERNO_KEEP
#undef INFERNO_EACH_CHAIN
#undef INFERNO_CHAINS_OF

constexpr std::array<PeakKernel, 2> kInt8{{
    {"NEON dot product", kChains * 16 * 2.0, cpu::has_neon_dot, int8_dot_product},
    {"NEON", kChains * 16 * 2.0, always, int8_neon},
}};
constexpr std::array<PeakKernel, 1> kFp32{{{"NEON", kChains * 4 * 2.0, always, fp32_neon}}};

#else

/// Plain loops; `volatile` ends keep the compiler from knowing the answer.
void int8_plain(std::uint64_t iterations) {
  volatile std::int8_t one = 1;
  std::array<std::int8_t, kChains> a;
  a.fill(one);
  std::array<std::int32_t, kChains> sums{};
  for (std::uint64_t i = 0; i < iterations; ++i) {
    for (std::size_t k = 0; k < kChains; ++k) {
      sums[k] += a[k] * a[k];
      asm volatile("" : "+r"(sums[k]));
    }
  }
}

void fp32_plain(std::uint64_t iterations) {
  volatile float one = 1.0F;
  std::array<float, kChains> a;
  a.fill(one);
  std::array<float, kChains> sums{};
  for (std::uint64_t i = 0; i < iterations; ++i) {
    for (std::size_t k = 0; k < kChains; ++k) sums[k] += a[k] * a[k];
    asm volatile("" : : "r"(sums.data()) : "memory");
  }
}

constexpr std::array<PeakKernel, 1> kInt8{{{"plain", kChains * 2.0, always, int8_plain}}};
constexpr std::array<PeakKernel, 1> kFp32{{{"plain", kChains * 2.0, always, fp32_plain}}};

#endif

/// Compilers turn this into the widest loads of the baseline.
std::uint64_t read_plain(const std::byte* data, std::size_t bytes, std::size_t ahead) {
  std::array<std::uint64_t, 8> sums{};
  const auto* words = reinterpret_cast<const std::uint64_t*>(data);
  for (std::size_t i = 0; i < bytes; i += kReadStep) {
    for (std::size_t k = 0; k < kReadStep; k += 64) __builtin_prefetch(data + i + ahead + k);
    for (std::size_t k = 0; k < kReadStep / 8; ++k) sums[k % 8] ^= words[i / 8 + k];
  }
  std::uint64_t result = 0;
  for (const auto sum : sums) result ^= sum;
  return result;
}

constexpr std::array<ReadKernel, 1> kRead{{{"plain", always, read_plain}}};

}  // namespace

std::span<const PeakKernel> int8_kernels() {
  return kInt8;
}
std::span<const PeakKernel> fp32_kernels() {
  return kFp32;
}
std::span<const ReadKernel> read_kernels() {
  return kRead;
}

}  // namespace inferno::bench

#endif
