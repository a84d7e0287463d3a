#include "backend/cpu/scalar/buffer.hpp"

#include <fmt/format.h>
#include <limits>

#include <inferno/error.hpp>

#include "platform/fault.hpp"

namespace inferno::scalar {

Buffer::Buffer(std::string_view what, std::uint64_t floats) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::size_t>::max() / sizeof(float);
  if (!fault::hit(fault::kAllocation) && floats <= kMost) {
    // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): new float[n]() would touch every page
    floats_.reset(static_cast<float*>(std::calloc(static_cast<std::size_t>(floats), sizeof(float))));
  }
  if (floats_ == nullptr) {
    throw Error(
        fmt::format("the system gave no memory for {} of the scalar backend: {} bytes needed; ask for "
                    "a shorter context or fewer cache blocks",
                    what, floats * sizeof(float)));
  }
  size_ = static_cast<std::size_t>(floats);
}

}  // namespace inferno::scalar
