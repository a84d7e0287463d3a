#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>

namespace inferno::scalar {

/// Floats, zero at first. Pages that are never touched take no memory (calloc), so a large cache costs what
/// is used of it.
class Buffer {
 public:
  Buffer() = default;
  /// `what` names the buffer in the message. Throws Error with the bytes that are needed if the system does
  /// not give them.
  Buffer(std::string_view what, std::uint64_t floats);

  float* data() { return floats_.get(); }
  std::span<float> span() { return {floats_.get(), size_}; }
  std::span<const float> span() const { return {floats_.get(), size_}; }
  /// The first `count` floats.
  std::span<float> first(std::size_t count) { return span().first(count); }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }  // NOLINT(cppcoreguidelines-no-malloc)
  };
  std::unique_ptr<float, Free> floats_;
  std::size_t size_ = 0;
};

}  // namespace inferno::scalar
