#include "bench/peak_kernels.hpp"

#if defined(__x86_64__)
#include <array>
#include <immintrin.h>

#include "bench/peak_chains.hpp"

namespace inferno::bench {
namespace {

// Makes the compiler believe that a register changes each time, so that no loop is folded away.
#define INFERNO_KEEP(value) asm volatile("" : "+v"(value))

bool has_avx512_vnni() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vnni") != 0;
}
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0;
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0;
}
bool has_avx2_fma() {
  return has_avx2() && __builtin_cpu_supports("fma") != 0;
}

__attribute__((target("avx512f,avx512vnni"))) void int8_avx512_vnni(std::uint64_t iterations) {
  INFERNO_CHAINS_OF(__m512i, _mm512_setzero_si512())
  __m512i a = _mm512_set1_epi8(1);
  __m512i b = _mm512_set1_epi8(1);
  INFERNO_KEEP(a);
  INFERNO_KEEP(b);
  for (std::uint64_t i = 0; i < iterations; ++i) {
#define INFERNO_STEP(sum)                 \
  {                                       \
    sum = _mm512_dpbusd_epi32(sum, a, b); \
    INFERNO_KEEP(sum);                    \
  }
    INFERNO_EACH_CHAIN(INFERNO_STEP)
#undef INFERNO_STEP
  }
}

/// Pairs of products in 16 bits, pairs of those in 32, then the sum: three instructions for 32 products.
__attribute__((target("avx2"))) void int8_avx2(std::uint64_t iterations) {
  INFERNO_CHAINS_OF(__m256i, _mm256_setzero_si256())
  __m256i a = _mm256_set1_epi8(1);
  __m256i b = _mm256_set1_epi8(1);
  const __m256i ones = _mm256_set1_epi16(1);
  INFERNO_KEEP(b);
  for (std::uint64_t i = 0; i < iterations; ++i) {
#define INFERNO_STEP(sum)                                                             \
  {                                                                                   \
    INFERNO_KEEP(a);                                                                  \
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones)); \
    INFERNO_KEEP(sum);                                                                \
  }
    INFERNO_EACH_CHAIN(INFERNO_STEP)
#undef INFERNO_STEP
  }
}

/// SSE2, which every x86-64 has, multiplies 16-bit pairs; bytes are widened by shifts of unpacked halves.
void int8_sse2(std::uint64_t iterations) {
  INFERNO_CHAINS_OF(__m128i, _mm_setzero_si128())
  __m128i a = _mm_set1_epi8(1);
  const __m128i b = _mm_set1_epi16(1);
  for (std::uint64_t i = 0; i < iterations; ++i) {
#define INFERNO_STEP(sum)                                                                     \
  {                                                                                           \
    INFERNO_KEEP(a);                                                                          \
    const __m128i low = _mm_srai_epi16(_mm_unpacklo_epi8(a, a), 8);                           \
    const __m128i high = _mm_srai_epi16(_mm_unpackhi_epi8(a, a), 8);                          \
    sum = _mm_add_epi32(sum, _mm_add_epi32(_mm_madd_epi16(low, b), _mm_madd_epi16(high, b))); \
    INFERNO_KEEP(sum);                                                                        \
  }
    INFERNO_EACH_CHAIN(INFERNO_STEP)
#undef INFERNO_STEP
  }
}

__attribute__((target("avx512f"))) void fp32_avx512(std::uint64_t iterations) {
  INFERNO_CHAINS_OF(__m512, _mm512_setzero_ps())
  __m512 a = _mm512_set1_ps(1.0F);
  __m512 b = _mm512_set1_ps(1.0F);
  INFERNO_KEEP(a);
  INFERNO_KEEP(b);
  for (std::uint64_t i = 0; i < iterations; ++i) {
#define INFERNO_STEP(sum)             \
  {                                   \
    sum = _mm512_fmadd_ps(a, b, sum); \
    INFERNO_KEEP(sum);                \
  }
    INFERNO_EACH_CHAIN(INFERNO_STEP)
#undef INFERNO_STEP
  }
}

__attribute__((target("avx2,fma"))) void fp32_avx2(std::uint64_t iterations) {
  INFERNO_CHAINS_OF(__m256, _mm256_setzero_ps())
  __m256 a = _mm256_set1_ps(1.0F);
  __m256 b = _mm256_set1_ps(1.0F);
  INFERNO_KEEP(a);
  INFERNO_KEEP(b);
  for (std::uint64_t i = 0; i < iterations; ++i) {
#define INFERNO_STEP(sum)             \
  {                                   \
    sum = _mm256_fmadd_ps(a, b, sum); \
    INFERNO_KEEP(sum);                \
  }
    INFERNO_EACH_CHAIN(INFERNO_STEP)
#undef INFERNO_STEP
  }
}

void fp32_sse2(std::uint64_t iterations) {
  INFERNO_CHAINS_OF(__m128, _mm_setzero_ps())
  __m128 a = _mm_set1_ps(1.0F);
  const __m128 b = _mm_set1_ps(1.0F);
  for (std::uint64_t i = 0; i < iterations; ++i) {
#define INFERNO_STEP(sum)                    \
  {                                          \
    INFERNO_KEEP(a);                         \
    sum = _mm_add_ps(sum, _mm_mul_ps(a, b)); \
    INFERNO_KEEP(sum);                       \
  }
    INFERNO_EACH_CHAIN(INFERNO_STEP)
#undef INFERNO_STEP
  }
}

__attribute__((target("avx512f"))) std::uint64_t read_avx512(const std::byte* data, std::size_t bytes,
                                                             std::size_t ahead) {
  __m512i sums[4];
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  for (std::size_t i = 0; i < bytes; i += kReadStep) {
    for (std::size_t k = 0; k < 4; ++k) {
      _mm_prefetch(reinterpret_cast<const char*>(data + i + ahead + 64 * k), _MM_HINT_T0);
      sums[k] = _mm512_xor_si512(sums[k], _mm512_load_si512(data + i + 64 * k));
    }
  }
  const auto sum = _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]));
  alignas(64) std::array<std::uint64_t, 8> lanes;
  _mm512_store_si512(lanes.data(), sum);
  std::uint64_t result = 0;
  for (const auto lane : lanes) result ^= lane;
  return result;
}

__attribute__((target("avx2"))) std::uint64_t read_avx2(const std::byte* data, std::size_t bytes,
                                                        std::size_t ahead) {
  __m256i sums[8];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  for (std::size_t i = 0; i < bytes; i += kReadStep) {
    for (std::size_t k = 0; k < 4; ++k) {
      _mm_prefetch(reinterpret_cast<const char*>(data + i + ahead + 64 * k), _MM_HINT_T0);
    }
    for (std::size_t k = 0; k < 8; ++k) {
      sums[k] = _mm256_xor_si256(sums[k], _mm256_load_si256(reinterpret_cast<const __m256i*>(data + i) + k));
    }
  }
  for (std::size_t k = 1; k < 8; ++k) sums[0] = _mm256_xor_si256(sums[0], sums[k]);
  alignas(32) std::array<std::uint64_t, 4> lanes;
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes.data()), sums[0]);
  return lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3];
}

std::uint64_t read_sse2(const std::byte* data, std::size_t bytes, std::size_t ahead) {
  __m128i sums[8];
  for (auto& sum : sums) sum = _mm_setzero_si128();
  for (std::size_t i = 0; i < bytes; i += kReadStep) {
    for (std::size_t k = 0; k < 4; ++k) {
      _mm_prefetch(reinterpret_cast<const char*>(data + i + ahead + 64 * k), _MM_HINT_T0);
    }
    for (std::size_t k = 0; k < 16; ++k) {
      sums[k % 8] =
          _mm_xor_si128(sums[k % 8], _mm_load_si128(reinterpret_cast<const __m128i*>(data + i) + k));
    }
  }
  for (std::size_t k = 1; k < 8; ++k) sums[0] = _mm_xor_si128(sums[0], sums[k]);
  alignas(16) std::array<std::uint64_t, 2> lanes;
  _mm_store_si128(reinterpret_cast<__m128i*>(lanes.data()), sums[0]);
  return lanes[0] ^ lanes[1];
}

#undef INFERNO_KEEP
#undef INFERNO_EACH_CHAIN
#undef INFERNO_CHAINS_OF

constexpr std::array<PeakKernel, 3> kInt8{{
    {"AVX-512 VNNI", kChains * 64 * 2.0, has_avx512_vnni, int8_avx512_vnni},
    {"AVX2", kChains * 32 * 2.0, has_avx2, int8_avx2},
    {"SSE2", kChains * 16 * 2.0, always, int8_sse2},
}};
constexpr std::array<PeakKernel, 3> kFp32{{
    {"AVX-512", kChains * 16 * 2.0, has_avx512, fp32_avx512},
    {"AVX2 FMA", kChains * 8 * 2.0, has_avx2_fma, fp32_avx2},
    {"SSE2", kChains * 4 * 2.0, always, fp32_sse2},
}};
constexpr std::array<ReadKernel, 3> kRead{{
    {"AVX-512", has_avx512, read_avx512},
    {"AVX2", has_avx2, read_avx2},
    {"SSE2", always, read_sse2},
}};

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
