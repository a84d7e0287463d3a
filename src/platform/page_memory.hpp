#pragma once

#include <cstddef>

namespace inferno {

/// Zeroed memory straight from the system, aligned to a cache line at least. Pages that are never touched
/// take no memory; large ones are asked for as huge pages, without which a stream of weights is held up at
/// every 4 KiB.
class PageMemory {
 public:
  PageMemory() = default;
  /// Throws std::bad_alloc.
  explicit PageMemory(std::size_t bytes);
  PageMemory(PageMemory&& other) noexcept;
  PageMemory& operator=(PageMemory&& other) noexcept;
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;
  ~PageMemory();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace inferno
