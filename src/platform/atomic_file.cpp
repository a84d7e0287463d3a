#include "platform/atomic_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <system_error>
#include <unistd.h>

#include <inferno/error.hpp>

#include "platform/quote.hpp"

namespace inferno {
namespace {

constexpr std::size_t kPathLimit = 1024;

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view what, int code) {
  throw Error(fmt::format("{}: {}: {}", quote(path.native(), kPathLimit), what,
                          std::generic_category().message(code)));
}

}  // namespace

template <typename Make>
void AtomicFile::take_temporary_name(const Make& make) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    temporary_ = path_;
    temporary_ += fmt::format(".{}-{}.tmp", ::getpid(), attempt);
    if (make()) return;
    if (errno != EEXIST) break;
  }
  const int code = errno;
  temporary_.clear();
  fail(path_, "cannot be written", code);
}

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;
  if (std::filesystem::is_symlink(path_, ignored)) {
    const auto target = std::filesystem::canonical(path_, ignored);
    if (!ignored) path_ = target;
  }
  const auto status = std::filesystem::status(path_, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw Error(
        fmt::format("{}: cannot be written: expected a regular file or none, found a directory or device",
                    quote(path.native(), kPathLimit)));
  }
  constexpr int kMode = 0666;  // the umask narrows it
#ifdef O_TMPFILE
  const auto folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  descriptor_ = FileDescriptor(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode));
  if (descriptor_) return;
#endif
  take_temporary_name([&] {
    descriptor_ = FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
    return static_cast<bool>(descriptor_);
  });
}

AtomicFile::~AtomicFile() {
  if (descriptor_ && !temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  constexpr std::size_t kLargestWrite = std::size_t{1} << 30U;
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_.get(), bytes.data(), std::min(bytes.size(), kLargestWrite));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_, fmt::format("writing failed after {} bytes", written_), errno);
    written_ += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_.get()) != 0) fail(path_, "cannot be flushed to the disk", errno);
  if (temporary_.empty()) {
    // A name cannot be given in place of another file's: first one of its own.
    const auto nameless = fmt::format("/proc/self/fd/{}", descriptor_.get());
    take_temporary_name([&] {
      return ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) == 0;
    });
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "cannot be given its name", errno);
  descriptor_ = FileDescriptor();
}

}  // namespace inferno
