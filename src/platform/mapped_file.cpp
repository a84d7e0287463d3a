#include "platform/mapped_file.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <utility>

#include <inferno/error.hpp>

#include "platform/available_memory.hpp"
#include "platform/log.hpp"
#include "platform/quote.hpp"

namespace inferno {
namespace {

constexpr std::size_t kPathLimit = 1024;

std::string reason(int code) {
  return std::generic_category().message(code);
}

std::string_view kind_of(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return "a directory";
  if (S_ISFIFO(status.st_mode)) return "a FIFO (named pipe)";
  if (S_ISSOCK(status.st_mode)) return "a socket";
  if (S_ISCHR(status.st_mode)) return "a character device";
  if (S_ISBLK(status.st_mode)) return "a block device";
  return "something else";
}

void require_regular(const std::filesystem::path& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return;
  throw Error(fmt::format("{}: expected a regular file, found {}", quote(path.native(), kPathLimit),
                          kind_of(status)));
}

[[noreturn]] void fail_to_open(const std::filesystem::path& path, int code) {
  throw Error(fmt::format("{}: cannot be opened: {}", quote(path.native(), kPathLimit), reason(code)));
}

}  // namespace

InputFile InputFile::open(const std::filesystem::path& path) {
  // Asked before opening, because opening some devices has effects; asked again after, because the name may
  // stand for something else by then. O_NONBLOCK keeps a FIFO that slips in between from blocking.
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) fail_to_open(path, errno);
  require_regular(path, status);
  InputFile file;
  file.path_ = path;
  file.descriptor_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (!file.descriptor_ || ::fstat(file.descriptor_.get(), &status) != 0) fail_to_open(path, errno);
  require_regular(path, status);
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  return file;
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> target) const {
  constexpr std::size_t kLargestRead = std::size_t{1} << 30U;  // Linux reads at most 2 GiB at once
  while (!target.empty()) {
    const ssize_t count = ::pread(descriptor_.get(), target.data(), std::min(target.size(), kLargestRead),
                                  static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw Error(fmt::format("{}: cannot be read at byte {}: {}", quote(path_.native(), kPathLimit), offset,
                              reason(errno)));
    }
    if (count == 0) {
      throw Error(
          fmt::format("{}: expected {} bytes at byte {}, found the end of the file: it was shortened while "
                      "it was read",
                      quote(path_.native(), kPathLimit), target.size(), offset));
    }
    offset += static_cast<std::uint64_t>(count);
    target = target.subspan(static_cast<std::size_t>(count));
  }
}

MappedFile::MappedFile(const InputFile& file, bool map, std::uint64_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max()) {
    throw Error(fmt::format("{}: {} bytes are more than this system can address",
                            quote(file.path().native(), kPathLimit), bytes));
  }
  const auto size = static_cast<std::size_t>(bytes);
  if (size == 0) return;  // an empty mapping is an error to the system; an empty span is what it means
  if (map) {
    void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor_.get(), 0);
    if (mapped != MAP_FAILED) {
      address_ = static_cast<std::byte*>(mapped);
      mapped_ = true;
      size_ = size;
      return;
    }
    if (errno != ENODEV && errno != EACCES && errno != EINVAL) {
      throw Error(fmt::format("{}: cannot map {} bytes: {}", quote(file.path().native(), kPathLimit), size,
                              reason(errno)));
    }
    log().warn("{}: this file system cannot map files ({}); reading the file into memory",
               quote(file.path().native(), kPathLimit), reason(errno));
  }
  if (const auto available = available_memory(); available && size > *available) {
    throw Error(
        fmt::format("{}: reading the file into memory takes {} bytes, {} are available; map it instead (no "
                    "--no-mmap), or take a smaller model",
                    quote(file.path().native(), kPathLimit), size, *available));
  }
  // Anonymous pages rather than operator new: the same release in both modes, and no page is touched twice.
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(fmt::format("{}: no memory to read {} bytes: {}", quote(file.path().native(), kPathLimit),
                            size, reason(errno)));
  }
  try {
    file.read(0, {static_cast<std::byte*>(memory), size});
  } catch (...) {
    ::munmap(memory, size);
    throw;
  }
  ::mprotect(memory, size, PROT_READ);
  address_ = static_cast<std::byte*>(memory);
  size_ = size;
}

MappedFile MappedFile::open(const std::filesystem::path& path, bool map) {
  return MappedFile(InputFile::open(path), map);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(other.mapped_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

void MappedFile::drop_pages(std::span<const std::byte> part) const {
  if (!mapped_ || part.empty()) return;
  const std::less<> before;  // pointers into other memory must compare, too
  if (before(part.data(), address_) || before(address_ + size_, part.data() + part.size())) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (static_cast<std::size_t>(part.data() - address_) + page - 1) / page * page;
  const auto end = (static_cast<std::size_t>(part.data() - address_) + part.size()) / page * page;
  if (end > begin) ::madvise(address_ + begin, end - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) ::munmap(address_, size_);
}

}  // namespace inferno
