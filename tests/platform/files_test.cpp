#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <inferno/error.hpp>

#include "platform/atomic_file.hpp"
#include "platform/mapped_file.hpp"
#include "support/child.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::size_t files_in(const TemporaryFolder& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

TEST(MappedFile, BothModesGiveTheSameBytes) {
  const TemporaryFolder folder;
  for (const std::size_t size : {1U, 4095U, 4096U, 4097U, 1'000'000U}) {
    std::string content(size, 'x');
    content.back() = 'y';
    const auto path = folder.write("f", content);
    for (const bool map : {true, false}) {
      const auto file = MappedFile::open(path, map);
      EXPECT_EQ(text(file.bytes()), content);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.bytes().data()) % 4096, 0U);
    }
  }
}

TEST(MappedFile, EmptyFile) {
  const TemporaryFolder folder;
  for (const bool map : {true, false})
    EXPECT_TRUE(MappedFile::open(folder.write("f", ""), map).bytes().empty());
}

TEST(MappedFile, Moves) {
  const TemporaryFolder folder;
  auto first = MappedFile::open(folder.write("f", "first"));
  auto second = MappedFile::open(folder.write("g", "second"), false);
  first = std::move(second);
  EXPECT_EQ(text(first.bytes()), "second");
  const MappedFile third(std::move(first));
  EXPECT_EQ(text(third.bytes()), "second");
  EXPECT_TRUE(
      first.bytes().empty());  // NOLINT(bugprone-use-after-move): what is left is promised to be empty
}

TEST(MappedFile, IsReadOnly) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", "text");
  for (const bool map : {true, false}) {
    const auto result = run_in_child([&] {
      ::signal(SIGSEGV, SIG_DFL);  // a sanitizer would report what is meant to happen
      const auto file = MappedFile::open(path, map);
      const_cast<volatile std::byte&>(file.bytes()[0]) = std::byte{0};
    });
    EXPECT_EQ(result.outcome, Outcome::died);
  }
  EXPECT_EQ(read_file(path), "text");
}

TEST(MappedFile, TooLittleMemoryIsAnError) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", "x");
  std::filesystem::resize_file(path, 256U << 20U);  // holes
  for (const bool map : {true, false}) {
    const auto result = run_in_child([&] { MappedFile::open(path, map); });
    EXPECT_EQ(result.outcome, kMemoryIsLimited ? Outcome::threw_error : Outcome::returned) << result.message;
    if (kMemoryIsLimited) {
      EXPECT_THAT(result.message, HasSubstr("268435456 bytes"));
    }
  }
}

TEST(InputFile, ReadsAnywhereAndNoticesShortening) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", "0123456789");
  const auto file = InputFile::open(path);
  EXPECT_EQ(file.size(), 10U);
  std::string part(3, ' ');
  file.read(7, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "789");
  std::filesystem::resize_file(path, 8);
  try {
    file.read(7, std::as_writable_bytes(std::span(part)));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("shortened"), HasSubstr("byte 8")));
  }
  EXPECT_THROW(MappedFile(file, false), Error);
}

TEST(InputFile, RefusesAllButRegularFilesAtOnce) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  const std::pair<std::filesystem::path, std::string> cases[] = {
      {folder.path(), "a directory"},      {folder / "fifo", "a FIFO"}, {"/dev/null", "a character device"},
      {folder / "absent", "No such file"}, {"", "No such file"},
  };
  for (const auto& [path, what] : cases) {
    const auto result = run_in_child([&] { InputFile::open(path); });
    EXPECT_EQ(result.outcome, Outcome::threw_error);
    EXPECT_THAT(result.message, HasSubstr(what));
    EXPECT_LT(result.seconds, 1.0);
  }
}

TEST(InputFile, WithoutPermission) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", "x");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const auto result = run_in_child([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) return;  // the superuser may read everything
    InputFile::open(path);
  });
  EXPECT_EQ(result.outcome, Outcome::threw_error);
  EXPECT_THAT(result.message, HasSubstr("Permission denied"));
}

TEST(AtomicFile, AppearsOnlyWhenItIsWhole) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", "old");
  {
    AtomicFile file(path);
    file.write(bytes("new "));
    EXPECT_EQ(read_file(path), "old");
    file.write(bytes("content"));
    file.commit();
  }
  EXPECT_EQ(read_file(path), "new content");
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  AtomicFile(folder / "f").write(bytes("half"));
  EXPECT_EQ(files_in(folder), 0U);
}

TEST(AtomicFile, TwoWritersDoNotMeet) {
  const TemporaryFolder folder;
  AtomicFile first(folder / "f");
  AtomicFile second(folder / "f");
  first.write(bytes("first"));
  second.write(bytes("second"));
  second.commit();
  first.commit();
  EXPECT_EQ(read_file(folder / "f"), "first");
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(AtomicFile, RefusesFoldersAndDevices) {
  const TemporaryFolder folder;
  EXPECT_THROW(AtomicFile(folder.path()), Error);
  EXPECT_THROW(AtomicFile("/dev/null"), Error);
  EXPECT_THROW(AtomicFile(folder / "absent/f"), Error);
}

}  // namespace
}  // namespace inferno::test
