#pragma once

#include "backend/cuda/module/kernels/common.cuh"

/// What the persistent kernel's blocks hand to each other and how they wait: words that carry their own flag,
/// and a ring of shared memory that bulk copies fill. Compute capability 9.0.
namespace inferno::cuda::persistent {

/// What a block can wait for, for messages.
enum class Awaited : uint { nothing, tile, vector, heads, word, factor };

/// A wait has not ended: says so to the host and ends the kernel.
__device__ void give_up(Awaited what);

/// Counts polls. A wait of so many (many seconds, even where a tool makes everything slow) means that a block
/// is gone: better a lost device than a machine that hangs.
class Patience {
 public:
  __device__ explicit Patience(Awaited what) : what_(what) {}
  __device__ void lose() {
    if (++polls_ >= most()) give_up(what_);
  }

 private:
  /// An answer from shared memory comes in a tenth of the time.
  __device__ uint most() const {
    return what_ == Awaited::tile || what_ == Awaited::factor ? 1U << 30U : 1U << 26U;
  }
  Awaited what_;
  uint polls_ = 0;
};

/// A float and its epoch as one word, written and read in one access: whoever reads the epoch has the value.
__device__ inline void publish(std::uint64_t* word, float value, uint epoch) {
  const std::uint64_t packed = static_cast<std::uint64_t>(epoch) << 32U | __float_as_uint(value);
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(word), "l"(packed) : "memory");
}

struct WordPair {
  std::uint64_t first, second;
};
__device__ inline WordPair read_pair(const std::uint64_t* words) {
  WordPair pair;
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(pair.first), "=l"(pair.second)
               : "l"(words)
               : "memory");
  return pair;
}
__device__ inline std::uint64_t read_word(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline bool is_of(std::uint64_t word, uint epoch) {
  return static_cast<uint>(word >> 32U) == epoch;
}
__device__ inline float value_of(std::uint64_t word) {
  return __uint_as_float(static_cast<uint>(word));
}

/// Three floats and their epoch as one word of 16 bytes.
__device__ inline void publish_three(std::uint64_t* word, float a, float b, float c, uint epoch) {
  asm volatile(
      "{\n.reg .b64 low, high;\n.reg .b128 word;\n"
      "mov.b64 low, {%1, %2};\nmov.b64 high, {%3, %4};\nmov.b128 word, {low, high};\n"
      "st.relaxed.gpu.global.b128 [%0], word;\n}" ::"l"(word),
      "r"(__float_as_uint(a)), "r"(__float_as_uint(b)), "r"(__float_as_uint(c)), "r"(epoch)
      : "memory");
}
__device__ inline uint4 read_three(const std::uint64_t* word) {
  uint4 value;
  asm volatile(
      "{\n.reg .b64 low, high;\n.reg .b128 word;\n"
      "ld.relaxed.gpu.global.b128 word, [%4];\n"
      "mov.b128 {low, high}, word;\nmov.b64 {%0, %1}, low;\nmov.b64 {%2, %3}, high;\n}"
      : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
      : "l"(word)
      : "memory");
  return value;
}

/// Waits for one word.
__device__ inline float await(const std::uint64_t* word, uint epoch) {
  Patience patience(Awaited::word);
  for (;;) {
    const std::uint64_t value = read_word(word);
    if (is_of(value, epoch)) return value_of(value);
    patience.lose();
  }
}

/// Barrier number `id` of `threads` threads; `arrive` does not wait.
__device__ inline void sync(uint id, uint threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void arrive(uint id, uint threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ inline void init_barrier(std::uint64_t* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}
__device__ inline bool try_wait(std::uint64_t* barrier, uint parity) {
  uint done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}
/// As try_wait, which may wait a while; this looks once.
__device__ inline bool has_completed(std::uint64_t* barrier, uint parity) {
  uint done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}
/// `barrier` completes its phase when so many bytes have been copied.
__device__ inline void expect_bytes(std::uint64_t* barrier, uint bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}
/// Fills `bytes` of shared memory, which count for `barrier`.
__device__ inline void bulk_copy(void* target, const void* source, uint bytes, std::uint64_t* barrier) {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(shared_address(target)),
      "l"(source), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}
/// What was written by stores can be read by the copies that this thread begins from now on.
__device__ inline void fence_copies() {
  asm volatile("fence.proxy.async;" ::: "memory");
}
#else
// Never called: the host launches the persistent kernel on devices that have bulk copies.
__device__ inline void init_barrier(std::uint64_t*) {}
__device__ inline bool try_wait(std::uint64_t*, uint) {
  return true;
}
__device__ inline bool has_completed(std::uint64_t*, uint) {
  return true;
}
__device__ inline void expect_bytes(std::uint64_t*, uint) {}
__device__ inline void bulk_copy(void*, const void*, uint, std::uint64_t*) {}
__device__ inline void fence_copies() {}
#endif

__device__ inline void wait_barrier(std::uint64_t* barrier, uint parity) {
  if (try_wait(barrier, parity)) return;
  Patience patience(Awaited::tile);
  while (!try_wait(barrier, parity)) patience.lose();
}

}  // namespace inferno::cuda::persistent
