#include "backend/cuda/device.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "platform/fault.hpp"
#include "platform/log.hpp"
#include "step/executor.hpp"

namespace inferno::cuda {
namespace {

/// A device of the module, closed with the last object that uses it.
class Handle {
 public:
  Handle(const Module& module, std::uint32_t index) : module_(module) {
    check(module.open(static_cast<int>(index), &device_), fmt::format("opening device {}", index));
  }
  ~Handle() { module_.close(device_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const Module& module() const { return module_; }
  Device* get() const { return device_; }
  gpu::DeviceCounters& counters() { return counters_; }

  /// Throws DeviceLost or Error if `error` is one.
  void check(int error, std::string_view what) const {
    if (error == 0) return;
    auto text = fmt::format("CUDA: {}: {} (error {})", what, module_.error_text(error), error);
    if (module_.is_loss(error)) throw DeviceLost(text);
    throw Error(text);
  }

 private:
  const Module& module_;
  Device* device_ = nullptr;
  gpu::DeviceCounters counters_;
};

std::uint64_t free_bytes_of(const Handle& handle) {
  std::uint64_t free = 0;
  std::uint64_t total = 0;
  handle.check(handle.module().memory(handle.get(), &free, &total), "asking for free memory");
  return free;
}

/// One allocation.
class Allocation {
 public:
  Allocation() = default;
  Allocation(std::shared_ptr<Handle> handle, std::uint64_t bytes, MemoryKind kind, std::string_view what)
      : handle_(std::move(handle)), kind_(kind) {
    const int error = handle_->module().allocate(handle_->get(), bytes, kind, &address_);
    if (error == kOutOfMemory) {
      throw Error(fmt::format("CUDA: {} needs {} bytes of {}, but {} bytes of the device's are free", what,
                              bytes, kind == MemoryKind::device ? "device memory" : "pinned memory",
                              free_bytes_of(*handle_)));
    }
    handle_->check(error, fmt::format("allocating {} bytes for {}", bytes, what));
    if (kind == MemoryKind::device) ++handle_->counters().allocations;
  }
  ~Allocation() {
    if (address_ == nullptr) return;
    // On a lost device this fails, and there is nobody to tell who does not know.
    static_cast<void>(handle_->module().release(handle_->get(), address_, kind_));
  }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  Allocation(Allocation&& other) noexcept
      : handle_(std::move(other.handle_)),
        kind_(other.kind_),
        address_(std::exchange(other.address_, nullptr)) {}
  Allocation& operator=(Allocation&&) = delete;

  std::byte* address() const { return static_cast<std::byte*>(address_); }

 private:
  std::shared_ptr<Handle> handle_;
  MemoryKind kind_ = MemoryKind::device;
  void* address_ = nullptr;
};

class CudaBuffer : public gpu::Buffer {
 public:
  CudaBuffer(const std::shared_ptr<Handle>& handle, std::uint64_t bytes, gpu::Memory memory,
             std::string_view what)
      : bytes_(bytes), memory_(memory) {
    if (memory != gpu::Memory::device) host_.emplace_back(handle, bytes, MemoryKind::pinned, what);
    if (memory != gpu::Memory::readback) device_.emplace_back(handle, bytes, MemoryKind::device, what);
  }

  std::uint64_t bytes() const override { return bytes_; }
  std::span<std::byte> mapped() const override {
    if (host_.empty()) return {};
    return {host_.front().address(), static_cast<std::size_t>(bytes_)};
  }

  /// What kernels see.
  std::byte* address() const { return device_.empty() ? host_.front().address() : device_.front().address(); }
  bool has_twin() const { return memory_ == gpu::Memory::upload; }

 private:
  std::uint64_t bytes_;
  gpu::Memory memory_;
  std::vector<Allocation> host_, device_;  // none or one of each
};

/// `chain` among the bindings of `advance`.
constexpr std::size_t kChainBinding = 8;

const CudaBuffer& buffer_of(const gpu::Slice& slice) {
  return static_cast<const CudaBuffer&>(*slice.buffer);
}

/// Parts of upload buffers that a recording reads.
struct Twin {
  const CudaBuffer* buffer;
  std::uint64_t begin, end;
};

class CudaRecording : public gpu::Recording {
 public:
  CudaRecording(std::shared_ptr<Handle> handle, std::vector<Command> fetches, std::vector<Command> commands,
                std::uint64_t dispatches)
      : handle_(std::move(handle)),
        fetches_(std::move(fetches)),
        commands_(std::move(commands)),
        dispatches_(dispatches) {}
  ~CudaRecording() override {
    if (graph_ != nullptr) handle_->module().destroy_graph(graph_);
  }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  std::uint64_t dispatches() const override { return dispatches_; }

  /// Brings what the host wrote to the device.
  void fetch() const {
    handle_->check(handle_->module().launch(handle_->get(), fetches_.data(),
                                            static_cast<std::uint32_t>(fetches_.size())),
                   "copying what a step is told");
  }

  void launch() const {
    if (graph_ == nullptr && launched_ && !uncapturable) capture();
    if (graph_ != nullptr) {
      handle_->check(handle_->module().launch_graph(handle_->get(), graph_), "launching a graph");
      return;
    }
    handle_->check(handle_->module().launch(handle_->get(), commands_.data(), count()), "launching kernels");
    launched_ = true;
  }

 private:
  std::uint32_t count() const { return static_cast<std::uint32_t>(commands_.size()); }

  void capture() const {
    const int error = fault::hit(fault::kCapture)
                          ? -1
                          : handle_->module().capture(handle_->get(), commands_.data(), count(), &graph_);
    if (error == 0) return;
    if (handle_->module().is_loss(error)) handle_->check(error, "capturing a graph");
    uncapturable = true;
    log().warn("CUDA: a step could not be captured as a graph ({}); its kernels are launched one by one",
               error < 0 ? "injected fault capture" : handle_->module().error_text(error));
  }

  /// Where capturing failed once it is not tried again, nor spoken of.
  static inline std::atomic<bool> uncapturable = false;

  std::shared_ptr<Handle> handle_;
  std::vector<Command> fetches_;  // of parts of upload buffers
  std::vector<Command> commands_;
  std::uint64_t dispatches_;
  mutable Graph* graph_ = nullptr;  // what a recording does is the same before and after it was captured
  mutable bool launched_ = false;
};

class CudaRecorder : public gpu::Recorder {
 public:
  explicit CudaRecorder(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {}

  void dispatch(gpu::Kernel kernel, std::span<const gpu::Slice> buffers, std::span<const std::byte> constants,
                gpu::Grid grid) override {
    add(kernel, buffers, constants, grid, nullptr);
  }
  void dispatch_indirect(gpu::Kernel kernel, std::span<const gpu::Slice> buffers,
                         std::span<const std::byte> constants, gpu::Slice grid) override {
    add(kernel, buffers, constants, {}, bind(grid));
  }
  void barrier() override {}  // one stream
  void grid_barrier() override {}
  void copy(const gpu::Slice& source, const gpu::Slice& target) override {
    Command command{.kind = CommandKind::copy, .bytes = source.bytes};
    command.buffers[0] = bind(source);
    command.buffers[1] = bind(target);
    if (source.bytes != target.bytes) {
      throw Error(fmt::format("CUDA: a copy of {} bytes to {} bytes", source.bytes, target.bytes));
    }
    commands_.push_back(command);
  }
  void fill(const gpu::Slice& target, std::uint32_t word) override {
    Command command{.kind = CommandKind::fill, .bytes = target.bytes, .word = word};
    command.buffers[0] = bind(target);
    commands_.push_back(command);
  }
  std::unique_ptr<gpu::Recording> finish() override {
    std::vector<Command> fetches;
    for (std::size_t first = 0; first < twins_.size(); first += kMostPieces) {
      Pieces pieces;
      for (std::size_t i = 0; i < std::min<std::size_t>(kMostPieces, twins_.size() - first); ++i) {
        const Twin& twin = twins_[first + i];
        pieces.list[i] = {twin.buffer->mapped().data() + twin.begin, twin.buffer->address() + twin.begin,
                          twin.end - twin.begin};
      }
      Command command{.kind = CommandKind::fetch};
      static_assert(sizeof pieces <= sizeof command.constants);
      std::memcpy(command.constants, &pieces, sizeof pieces);
      fetches.push_back(command);
    }
    return std::make_unique<CudaRecording>(handle_, std::move(fetches), std::move(commands_), dispatches_);
  }

 private:
  void add(gpu::Kernel kernel, std::span<const gpu::Slice> buffers, std::span<const std::byte> constants,
           gpu::Grid grid, const void* indirect_grid) {
    Command command{.kernel = kernel, .grid = grid, .indirect_grid = indirect_grid};
    if (buffers.size() != gpu::kernel_bindings(kernel) ||
        constants.size() != gpu::kernel_constant_bytes(kernel)) {
      throw Error(fmt::format("CUDA: kernel {} takes {} buffers and {} bytes of constants, given {} and {}",
                              gpu::kernel_name(kernel), gpu::kernel_bindings(kernel),
                              gpu::kernel_constant_bytes(kernel), buffers.size(), constants.size()));
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      // The host may cancel a chain while the device runs it: the one buffer that both write has no twin.
      const bool shared = kernel == gpu::Kernel::advance && i == kChainBinding;
      command.buffers[i] =
          shared ? buffer_of(buffers[i]).mapped().data() + buffers[i].offset : bind(buffers[i]);
    }
    std::memcpy(command.constants, constants.data(), constants.size());
    if (!handle_->module().accepts(&command)) {
      throw Error(fmt::format("CUDA: kernel {} is not part of the module{}", gpu::kernel_name(kernel),
                              indirect_grid == nullptr ? "" : " with a grid that the device reads"));
    }
    commands_.push_back(command);
    ++dispatches_;
  }

  /// The slice's address on the device; remembers what must be copied there first.
  void* bind(const gpu::Slice& slice) {
    if (slice.buffer == nullptr) return nullptr;
    const auto& buffer = buffer_of(slice);
    if (slice.offset > buffer.bytes() || slice.bytes > buffer.bytes() - slice.offset) {
      throw Error(fmt::format("CUDA: a slice of {} bytes at {} of a buffer of {}", slice.bytes, slice.offset,
                              buffer.bytes()));
    }
    if (buffer.has_twin()) {
      const auto end = slice.offset + slice.bytes;
      const auto found = std::find_if(twins_.begin(), twins_.end(),
                                      [&](const Twin& twin) { return twin.buffer == &buffer; });
      if (found == twins_.end()) {
        twins_.push_back({&buffer, slice.offset, end});
      } else {
        found->begin = std::min(found->begin, slice.offset);
        found->end = std::max(found->end, end);
      }
    }
    return buffer.address() + slice.offset;
  }

  std::shared_ptr<Handle> handle_;
  std::vector<Command> commands_;
  std::vector<Twin> twins_;
  std::uint64_t dispatches_ = 0;
};

class OpenedDevice : public CudaDevice {
 public:
  OpenedDevice(const Module& module, std::uint32_t index) : handle_(std::make_shared<Handle>(module, index)) {
    DeviceInfo info;
    handle_->check(module.describe(static_cast<int>(index), &info), "asking what the device is");
    capabilities_ = {.name = info.name,
                     .memory_bytes = info.memory_bytes,
                     .max_range = std::numeric_limits<std::uint64_t>::max(),
                     .max_groups = 65535,  // y and z; x has more
                     .subgroup_size = 32,
                     .shared_bytes = info.shared_bytes,
                     .unified_memory = false,
                     .integer_dot = true,
                     .matrix_int8 = true,
                     .software = false};
  }

  const gpu::DeviceCapabilities& capabilities() const override { return capabilities_; }
  const gpu::DeviceCounters& counters() const override { return handle_->counters(); }
  std::uint64_t free_bytes() const override { return free_bytes_of(*handle_); }

  std::unique_ptr<gpu::Buffer> create_buffer(std::uint64_t bytes, gpu::Memory memory,
                                             std::string_view what) override {
    return std::make_unique<CudaBuffer>(handle_, std::max<std::uint64_t>((bytes + 3) / 4 * 4, 4), memory,
                                        what);
  }

  void upload(const gpu::Slice& target, std::span<const std::byte> bytes) override {
    const auto& buffer = buffer_of(target);
    if (buffer.has_twin()) {
      std::memcpy(buffer.mapped().data() + target.offset, bytes.data(), bytes.size());
      return;
    }
    handle_->check(
        handle_->module().copy(handle_->get(), buffer.address() + target.offset, bytes.data(), bytes.size()),
        fmt::format("copying {} bytes to the device", bytes.size()));
  }

  void read(const gpu::Slice& source, std::span<std::byte> bytes) override {
    const auto& buffer = buffer_of(source);
    if (!buffer.mapped().empty()) {  // the host's own memory: nothing to be copied by the device
      handle_->check(handle_->module().wait(handle_->get()), "waiting for the device");
      std::memcpy(bytes.data(), buffer.mapped().data() + source.offset, bytes.size());
    } else {
      handle_->check(handle_->module().copy(handle_->get(), bytes.data(), buffer.address() + source.offset,
                                            bytes.size()),
                     fmt::format("copying {} bytes from the device", bytes.size()));
    }
    handle_->counters().bytes_read += bytes.size();
  }

  std::unique_ptr<gpu::Recorder> record() override { return std::make_unique<CudaRecorder>(handle_); }

  bool has(gpu::Kernel kernel) const override {
    const Command command{.kernel = kernel};
    return handle_->module().accepts(&command);
  }

  void prepare(gpu::Kernel kernel) override {
    if (has(kernel)) return;  // machine code is there already
    throw Error(fmt::format("CUDA: kernel {} is not part of the module", gpu::kernel_name(kernel)));
  }

  void submit(const gpu::Recording& recording, std::uint32_t times) override {
    const auto& recorded = static_cast<const CudaRecording&>(recording);
    recorded.fetch();
    for (std::uint32_t i = 0; i < times; ++i) recorded.launch();
    ++handle_->counters().submissions;
    handle_->counters().dispatches += recording.dispatches() * times;
  }

  void* address(const gpu::Slice& slice) const override { return buffer_of(slice).address() + slice.offset; }
  std::uint32_t persistent_rows(const PersistentModel& of) const override {
    return handle_->module().persistent_rows(handle_->get(), &of);
  }
  void persistent_launch(const PersistentModel& of, const PersistentStep& step) override {
    handle_->check(handle_->module().persistent_launch(handle_->get(), &of, &step), "launching steps");
    ++handle_->counters().submissions;
    ++handle_->counters().dispatches;
  }
  void wait() override {
    ++handle_->counters().waits;
    handle_->check(handle_->module().wait(handle_->get()), "waiting for the device");
  }

  // The driver knows no wait with a limit.
  bool wait_for(std::chrono::microseconds most) override {
    const auto end = std::chrono::steady_clock::now() + most;
    for (;;) {
      bool done = false;
      handle_->check(handle_->module().query(handle_->get(), &done), "asking whether the device is done");
      if (done || std::chrono::steady_clock::now() >= end) return done;
      std::this_thread::yield();
    }
  }

 private:
  std::shared_ptr<Handle> handle_;
  gpu::DeviceCapabilities capabilities_;
};

}  // namespace

std::unique_ptr<CudaDevice> open_device(const Module& module, std::uint32_t index) {
  return std::make_unique<OpenedDevice>(module, index);
}

}  // namespace inferno::cuda
