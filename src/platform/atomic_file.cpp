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
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    temporary_ = path_;
    temporary_ += fmt::format(".{}-{}.tmp", ::getpid(), attempt);
    descriptor_ = FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                                        0666));  // NOLINT: the umask narrows it
    if (descriptor_) return;
    if (errno != EEXIST) break;
  }
  fail(path_, "cannot be written", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_) ::unlink(temporary_.c_str());
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
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "cannot be given its name", errno);
  descriptor_ = FileDescriptor();
}

}  // namespace inferno
