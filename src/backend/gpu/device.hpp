#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <inferno/error.hpp>

#include "backend/gpu/kernels.hpp"

/// The small device interface that whole-step backends stand on. What is recorded runs later: nothing waits
/// but `wait`, `read` and what says so. Implemented by src/backend/vulkan and src/backend/cuda.
namespace inferno::gpu {

/// Where a buffer's bytes lie.
enum class Memory : std::uint8_t {
  device,   ///< for kernels; the host reaches it by upload and read only (or directly, if memory is unified)
  upload,   ///< mapped; the host writes small things before a submission, kernels read them
  readback  ///< mapped; kernels or copies write it, the host reads it after `wait`
};

/// Bytes on the device, set to zero when made. Freed with the object, which must not be in use by anything
/// submitted and not waited for.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  virtual std::uint64_t bytes() const = 0;
  /// The bytes as the host sees them: always for upload and readback, for device memory only where it is
  /// unified; else empty.
  virtual std::span<std::byte> mapped() const = 0;
};

/// A stretch of a buffer as a kernel is to see it. `offset` is a multiple of kOffsetAlignment; `bytes` is at
/// most Capabilities::max_range.
struct Slice {
  const Buffer* buffer = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  Slice() = default;
  Slice(const Buffer& whole) : buffer(&whole), bytes(whole.bytes()) {}  // NOLINT: a buffer is its own slice
  Slice(const Buffer& of, std::uint64_t from, std::uint64_t count)
      : buffer(&of), offset(from), bytes(count) {}
};

/// Slices begin at multiples of this: no Vulkan device asks for more.
inline constexpr std::uint64_t kOffsetAlignment = 256;

struct DeviceCapabilities {
  std::string name;                  ///< for people: "NVIDIA H200"
  std::uint64_t memory_bytes = 0;    ///< of device memory in all
  std::uint64_t max_range = 0;       ///< bytes of a slice that a kernel binds (lavapipe: 128 MiB)
  std::uint32_t max_groups = 65535;  ///< workgroups of a dispatch, in each direction
  std::uint32_t subgroup_size = 0;   ///< 4 to 64
  std::uint32_t shared_bytes = 0;    ///< of a workgroup
  bool unified_memory = false;       ///< the host reaches device memory: nothing is staged
  bool integer_dot = false;          ///< four int8 products in one instruction
  bool matrix_int8 = false;          ///< it multiplies int8 on matrix units: so does measure_int8
  bool keeps_subnormals = true;      ///< floats below 2^-126 are computed with, not taken for zero
  bool software = false;             ///< a CPU that poses as a GPU
};

/// What a device did so far: the counts that the seam's promise is measured by.
struct DeviceCounters {
  std::uint64_t submissions = 0;
  std::uint64_t waits = 0;
  std::uint64_t bytes_read = 0;   ///< by the host, after a submission
  std::uint64_t allocations = 0;  ///< of device memory
  std::uint64_t dispatches = 0;   ///< of the recordings that were submitted
};

/// Commands that were recorded: can be submitted again and again; holds no copy of the buffers' content, so
/// what small buffers say at that time is what happens. Must not be destroyed while it runs.
class Recording {
 public:
  virtual ~Recording() = default;
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  virtual std::uint64_t dispatches() const = 0;
};

/// Takes commands down in order. Commands may overlap on the device until a `barrier` between them.
class Recorder {
 public:
  virtual ~Recorder() = default;
  Recorder() = default;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// `buffers` in the order of the kernel's bindings (kernels.hpp), `constants` its constants struct as
  /// bytes. Throws Error if the kernel is not part of this build or a slice breaks a rule.
  virtual void dispatch(Kernel kernel, std::span<const Slice> buffers, std::span<const std::byte> constants,
                        Grid grid) = 0;
  /// The grid is read on the device when the dispatch runs: three u32 at the beginning of `grid`.
  virtual void dispatch_indirect(Kernel kernel, std::span<const Slice> buffers,
                                 std::span<const std::byte> constants, Slice grid) = 0;
  /// What was recorded before is done, and its writes can be seen, before what comes after begins: kernels
  /// and copies alike. Grids of indirect dispatches are left out, because waiting for those costs as much
  /// again: they are what was written before the recording began.
  virtual void barrier() = 0;
  /// A barrier for indirect grids, too: before a kernel that writes a grid which was used before it.
  virtual void grid_barrier() = 0;
  /// Equal sizes. Offsets and sizes of copies and fills are multiples of 4 only.
  virtual void copy(const Slice& source, const Slice& target) = 0;
  virtual void fill(const Slice& target, std::uint32_t word) = 0;
  /// Ends the recording. The writes of its commands can be seen by the host after `wait`. The recorder is
  /// used up.
  virtual std::unique_ptr<Recording> finish() = 0;

  template <typename Constants>
  void dispatch(Kernel kernel, std::initializer_list<Slice> buffers, const Constants& constants, Grid grid) {
    dispatch(kernel, std::span(buffers.begin(), buffers.size()), std::as_bytes(std::span(&constants, 1)),
             grid);
  }
  template <typename Constants>
  void dispatch_indirect(Kernel kernel, std::initializer_list<Slice> buffers, const Constants& constants,
                         const Slice& grid) {
    dispatch_indirect(kernel, std::span(buffers.begin(), buffers.size()),
                      std::as_bytes(std::span(&constants, 1)), grid);
  }
};

/// One device with its kernels. Used by one thread at a time. Methods throw DeviceLost (step/executor.hpp)
/// once the device is gone, Error for anything else.
class Device {
 public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual const DeviceCapabilities& capabilities() const = 0;
  virtual const DeviceCounters& counters() const = 0;
  /// Bytes of device memory that are free now; where the driver does not say, all that this object did not
  /// take.
  virtual std::uint64_t free_bytes() const = 0;

  /// Zeroed memory; 0 bytes are made 4. Throws Error saying what was needed for `what` and what is free.
  virtual std::unique_ptr<Buffer> create_buffer(std::uint64_t bytes, Memory memory,
                                                std::string_view what) = 0;
  /// Copies to device memory and waits for it (staged in pieces, or directly where memory is unified). For
  /// what is written once, before the first step.
  virtual void upload(const Slice& target, std::span<const std::byte> bytes) = 0;
  /// Copies from any buffer and waits for it. Counted in bytes_read.
  virtual void read(const Slice& source, std::span<std::byte> bytes) = 0;

  /// Whether the device has this kernel. All have those of kernels.hpp that are not for some devices only.
  virtual bool has(Kernel kernel) const = 0;
  /// Compiles a kernel now rather than when it is first recorded, so that a driver that refuses it is found
  /// out in time. Throws Error.
  virtual void prepare(Kernel kernel) = 0;
  /// Begins a recording.
  virtual std::unique_ptr<Recorder> record() = 0;
  /// Hands a recording to the device, to be run `times` times one after the other, and returns at once;
  /// submissions run in order. Throws Error if the device refuses it (nothing happened then).
  virtual void submit(const Recording& recording, std::uint32_t times) = 0;
  /// Waits until everything submitted is done.
  virtual void wait() = 0;
  /// Waits for it no longer than so, and says whether it is done. Counts as no wait: `wait` has the last
  /// word.
  virtual bool wait_for(std::chrono::microseconds most) = 0;

  /// Records, submits and waits: one question and its answer. For tests of kernels and for `hybrid`.
  void run_once(const std::function<void(Recorder&)>& commands) {
    const auto recorder = record();
    commands(*recorder);
    const auto recording = recorder->finish();
    submit(*recording, 1);
    wait();
  }
};

}  // namespace inferno::gpu
