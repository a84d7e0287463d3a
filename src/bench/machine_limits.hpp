#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace inferno::bench {

/// What the machine's processors, or the device that a backend runs on, can do at best, measured: the
/// denominators of every share. A figure that is 0 is not known.
struct MachineLimits {
  std::uint32_t threads = 1;       ///< that were used; 0: a device
  std::uint64_t buffer_bytes = 0;  ///< that were read, over and over
  double read_gb_per_second = 0;   ///< 1e9 bytes
  double int8_gops = 0;            ///< dot products of int8 pairs: a multiply and an add are two operations
  double fp32_gflops = 0;          ///< fused multiply-adds in float32: two operations each
  std::string int8_kernel;         ///< the instructions behind the figure: "AVX-512 VNNI"
  std::string fp32_kernel;
};

/// A machine whose limits can be asked for.
class Machine {
 public:
  virtual ~Machine() = default;
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// What reading reaches now. Memory is shared with whatever else the hardware runs, and what is left of it
  /// changes from second to second.
  virtual double read_gb_per_second() = 0;
  /// All figures; of reading, the present one.
  virtual MachineLimits limits() = 0;
};

/// The processors, measured with a number of threads and a buffer of at least 1 MiB, at most 1 GiB (beyond
/// that no cache helps), which it keeps, so that it can be asked again between the runs of a benchmark.
class MachineProbe final : public Machine {
 public:
  /// Throws UsageError for 0 or more than 4,096 threads, Error if they or the buffer cannot be had.
  MachineProbe(std::uint32_t threads, std::uint64_t buffer_bytes);
  ~MachineProbe() override;

  /// The mean over about a tenth of a second.
  double read_gb_per_second() override;
  /// Of register-only loops the best of many short runs: such a limit is what was reached once. Takes less
  /// than a second.
  MachineLimits limits() override;

 private:
  struct Buffer;

  std::uint32_t threads_;
  std::size_t share_ = 0;  // bytes of a thread
  std::size_t ahead_ = 0;  // the distance to prefetch that is the faster here
  std::unique_ptr<Buffer> buffer_;
};

/// The higher of each peak, and the first's reading: two measurements of one machine, before and after.
MachineLimits best_peaks(const MachineLimits& a, const MachineLimits& b);

}  // namespace inferno::bench
