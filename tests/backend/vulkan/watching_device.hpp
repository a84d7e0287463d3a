#pragma once

#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "backend/gpu/device.hpp"

namespace inferno::test {

/// What a device was asked for.
struct Watched {
  std::set<gpu::Kernel> prepared;
  std::set<gpu::Kernel> recorded;
  std::optional<gpu::Kernel> refused;  ///< a kernel that the driver is to refuse
};

class WatchingRecorder : public gpu::Recorder {
 public:
  WatchingRecorder(std::unique_ptr<gpu::Recorder> inner, Watched& watched)
      : inner_(std::move(inner)), watched_(watched) {}

  void dispatch(gpu::Kernel kernel, std::span<const gpu::Slice> buffers, std::span<const std::byte> constants,
                gpu::Grid grid) override {
    watched_.recorded.insert(kernel);
    inner_->dispatch(kernel, buffers, constants, grid);
  }
  void dispatch_indirect(gpu::Kernel kernel, std::span<const gpu::Slice> buffers,
                         std::span<const std::byte> constants, gpu::Slice grid) override {
    watched_.recorded.insert(kernel);
    inner_->dispatch_indirect(kernel, buffers, constants, grid);
  }
  void barrier() override { inner_->barrier(); }
  void grid_barrier() override { inner_->grid_barrier(); }
  void copy(const gpu::Slice& source, const gpu::Slice& target) override { inner_->copy(source, target); }
  void fill(const gpu::Slice& target, std::uint32_t word) override { inner_->fill(target, word); }
  std::unique_ptr<gpu::Recording> finish() override { return inner_->finish(); }

 private:
  std::unique_ptr<gpu::Recorder> inner_;
  Watched& watched_;
};

/// Hands everything on to another device, and notes kernels.
class WatchingDevice : public gpu::Device {
 public:
  WatchingDevice(std::unique_ptr<gpu::Device> inner, Watched& watched)
      : inner_(std::move(inner)), watched_(watched) {}

  const gpu::DeviceCapabilities& capabilities() const override { return inner_->capabilities(); }
  const gpu::DeviceCounters& counters() const override { return inner_->counters(); }
  std::uint64_t free_bytes() const override { return inner_->free_bytes(); }
  std::unique_ptr<gpu::Buffer> create_buffer(std::uint64_t bytes, gpu::Memory memory,
                                             std::string_view what) override {
    return inner_->create_buffer(bytes, memory, what);
  }
  void upload(const gpu::Slice& target, std::span<const std::byte> bytes) override {
    inner_->upload(target, bytes);
  }
  void read(const gpu::Slice& source, std::span<std::byte> bytes) override { inner_->read(source, bytes); }
  bool has(gpu::Kernel kernel) const override { return inner_->has(kernel); }
  void prepare(gpu::Kernel kernel) override {
    if (kernel == watched_.refused) throw Error("the driver refuses this kernel");
    watched_.prepared.insert(kernel);
    inner_->prepare(kernel);
  }
  std::unique_ptr<gpu::Recorder> record() override {
    return std::make_unique<WatchingRecorder>(inner_->record(), watched_);
  }
  void submit(const gpu::Recording& recording, std::uint32_t times) override {
    inner_->submit(recording, times);
  }
  void wait() override { inner_->wait(); }
  bool wait_for(std::chrono::microseconds most) override { return inner_->wait_for(most); }

 private:
  std::unique_ptr<gpu::Device> inner_;
  Watched& watched_;
};

}  // namespace inferno::test
