#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "platform/page_memory.hpp"

namespace inferno::cpu {

/// Zeroed values in memory of their own, 64-byte aligned; what is never touched takes no memory.
template <typename T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// Throws std::bad_alloc.
  explicit AlignedBuffer(std::size_t count) : memory_(bytes_of(count)), count_(count) {}

  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::size_t size() const { return count_; }
  std::span<T> span() const { return {data(), count_}; }

 private:
  static std::size_t bytes_of(std::size_t count) {
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
    return count * sizeof(T);
  }
  PageMemory memory_;
  std::size_t count_ = 0;
};

}  // namespace inferno::cpu
