#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/matrix.hpp"
#include "step/executor.hpp"

namespace inferno::cpu {

/// Somebody else who multiplies some of a CPU executor's matrices: the same function, the same bits.
class OutsideProducts {
 public:
  virtual ~OutsideProducts() = default;
  OutsideProducts() = default;
  OutsideProducts(const OutsideProducts&) = delete;
  OutsideProducts& operator=(const OutsideProducts&) = delete;

  /// What it runs on, for people.
  virtual std::string device() const = 0;
  /// How often it has asked that device and waited for the answer so far.
  virtual std::uint64_t waits() const = 0;
  /// Which matrices it has; the CPU does not keep a copy of these.
  virtual bool takes(const Matrix& matrix) const = 0;
  /// Bytes for steps of so many tokens.
  virtual std::uint64_t scratch_bytes(const Limits& limits) const = 0;
  virtual std::uint64_t weight_bytes() const = 0;
  virtual void reserve(const Limits& limits) = 0;
  /// y[t] = W x[t], times factors[t] if there are factors. x [tokens][columns]; y [tokens][rows] with
  /// `stride` floats from token to token.
  virtual void multiply(const Matrix& matrix, const float* x, std::size_t tokens, const float* factors,
                        float* y, std::size_t stride) = 0;
};

/// What a CPU with such a device runs on, for people.
std::string hybrid_device(std::string_view device, std::string_view cpu);

}  // namespace inferno::cpu
