#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "platform/mapped_file.hpp"

namespace inferno::gguf {

/// What a header is parsed from. Headers are read through small windows and never through a mapping: what is
/// skipped costs no memory.
class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  virtual std::uint64_t size() const = 0;
  /// `offset + target.size()` is at most size().
  virtual void read(std::uint64_t offset, std::span<std::byte> target) const = 0;
};

class FileSource final : public ByteSource {
 public:
  explicit FileSource(const InputFile& file) : file_(file) {}
  std::uint64_t size() const override { return file_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> target) const override { file_.read(offset, target); }

 private:
  const InputFile& file_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> target) const override {
    if (!target.empty()) std::memcpy(target.data(), bytes_.data() + offset, target.size());
  }

 private:
  std::span<const std::byte> bytes_;
};

/// Reads forward through a window. Callers check `remaining()` first: that is where the message is known.
class Cursor {
 public:
  explicit Cursor(const ByteSource& source) : source_(source), window_(kWindow) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return source_.size() - position_; }
  void seek(std::uint64_t position) { position_ = position; }
  void skip(std::uint64_t count) { position_ += count; }

  void read(std::span<std::byte> target) {
    if (target.size() > kWindow) {
      source_.read(position_, target);
    } else if (!target.empty()) {
      if (position_ < start_ || position_ + target.size() > start_ + filled_) refill();
      std::memcpy(target.data(), window_.data() + (position_ - start_), target.size());
    }
    position_ += target.size();
  }

  template <typename T>
  T number() {
    T value;
    read(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

 private:
  static constexpr std::size_t kWindow = 65536;

  void refill() {
    start_ = position_;
    filled_ = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, remaining()));
    source_.read(start_, std::span(window_).first(filled_));
  }

  const ByteSource& source_;
  std::vector<std::byte> window_;
  std::uint64_t position_ = 0;
  std::uint64_t start_ = 0;
  std::size_t filled_ = 0;
};

}  // namespace inferno::gguf
