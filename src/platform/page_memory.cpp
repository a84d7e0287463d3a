#include "platform/page_memory.hpp"

#include <cstdint>
#include <new>
#include <sys/mman.h>
#include <utility>

namespace inferno {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20U;

}  // namespace

PageMemory::PageMemory(std::size_t bytes) {
  if (bytes == 0) return;
  if (bytes > SIZE_MAX - kHugePage) throw std::bad_alloc();
  // Rounded up to whole huge pages when it is large, so that the last one can be huge, too.
  const auto rounded = bytes < kHugePage ? bytes : (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* address =
      mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (rounded >= kHugePage) madvise(address, rounded, MADV_HUGEPAGE);  // a wish: it may be refused
#endif
  data_ = static_cast<std::byte*>(address);
  size_ = rounded;
}

PageMemory::PageMemory(PageMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PageMemory::~PageMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace inferno
