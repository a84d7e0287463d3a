// Field case G6: files that are not the GGUF we speak, and what people name x.gguf by mistake.

#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <inferno/error.hpp>

#include "gguf/reader.hpp"
#include "gguf/refusal.hpp"
#include "support/gguf_bytes.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::string_literals;

std::string with_version(std::uint32_t version) {
  return GgufBytes::header(1, 1, version)
      .entry("general.architecture", "qwen3")
      .tensor("a", {8}, 0, 0)
      .pad()
      .zeros(32)
      .get();
}

TEST(Version, TwoAndThreeLoad) {
  const TemporaryFolder folder;
  for (const std::uint32_t version : {2U, 3U}) {
    const auto file = gguf::File::open(folder.write("x.gguf", with_version(version)));
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.tensors().size(), 1U);
    EXPECT_EQ(*file.find("general.architecture")->as_string(), "qwen3");
  }
}

TEST(Version, OthersAreNamed) {
  EXPECT_THAT(refusal_of_bytes(with_version(1)),
              AllOf(HasSubstr("version: expected 2 or 3 at byte 4"), HasSubstr("version 1")));
  EXPECT_THAT(refusal_of_bytes(with_version(0)), HasSubstr("expected 2 or 3 at byte 4, found 0"));
  EXPECT_THAT(refusal_of_bytes(with_version(4)),
              AllOf(HasSubstr("found 4"), HasSubstr("newer than this program")));
  EXPECT_THAT(refusal_of_bytes(with_version(0xFFFF)), HasSubstr("found 65535"));
}

TEST(Version, BigEndian) {
  for (const std::uint32_t version : {2U, 3U}) {
    EXPECT_THAT(refusal_of_bytes(with_version(version << 24U)),
                AllOf(HasSubstr("big-endian"), HasSubstr(fmt::format("found {} ", version))));
  }
}

TEST(UnknownType, NamesTheTensorTheNumberAndWhatIsAccepted) {
  for (const std::uint32_t type : {37U, 38U, 43U, 142U, 1000U, 1U << 31U, ~0U}) {
    EXPECT_THAT(
        refusal_of_bytes(
            GgufBytes::header(1, 0).tensor("blk.0.attn_q.weight", {256}, type, 0).pad().zeros(1024).get()),
        AllOf(HasSubstr("tensor \"blk.0.attn_q.weight\": type"), HasSubstr(fmt::format("found {}", type)),
              HasSubstr("f32 (0), f16 (1), q4_0 (2), q5_0 (6), q8_0 (8), bf16 (30)"), HasSubstr("byte 63,")));
  }
}

TEST(NotGguf, LooksLike) {
  const std::pair<std::string, std::string> cases[] = {
      {"FUGG\x03\0\0\0"s, "reversed"},
      {"<!DOCTYPE html>\n<html lang=\"en\"><head>", "HTML page"},
      {"\n\n  <html>\r\n<body>Sign in", "HTML page"},
      {"\xef\xbb\xbf<!doctype HTML>", "HTML page"},
      {"<HEAD><TITLE>502 Bad Gateway", "HTML page"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>", "XML"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 639446688\n",
       "Git LFS pointer of the real file of 639446688 bytes; run \"git lfs pull\""},
      {"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"},
      {"PK\x03\x04\x14\0\0\0\x08\0"s, "zip"},
      {"\x1f\x8b\x08\0"s, "gzip"},
      {"\x28\xb5\x2f\xfd\x04"s, "zstd"},
      {"tjgg\x03\0\0\0"s, "GGML"},
      {"{\"error\":\"Invalid username or password.\"}", "JSON"},
      {"Entry not found", "plain text"},
      {"\x38\x05\0\0\0\0\0\0{\"__metadata__\":{}}"s, "safetensors"},
      {std::string(100, '\0'), "zeros"},
      {"\x7f\x45LF\x02\x01"s, "program"},
      {"\x80\x02\x8a\x0a"s, "pickle"},
  };
  for (const auto& [bytes, meaning] : cases) {
    EXPECT_THAT(refusal_of_bytes(bytes), AllOf(HasSubstr("magic: expected \"GGUF\" at byte 0, found \""),
                                               HasSubstr("looks like"), HasSubstr(meaning)));
  }
}

TEST(NotGguf, ShowsItsFirstBytesReadably) {
  EXPECT_THAT(refusal_of_bytes("\x01\x02\x1b[2Jabc\xff\n"),
              HasSubstr("found \"\\x01\\x02\\x1b[2Jabc\\xff\\n\"; not a GGUF file"));
  EXPECT_THAT(refusal_of_bytes("<!DOCTYPE html>"), HasSubstr("found \"<!DOCTYPE html>\""));
  EXPECT_THAT(refusal_of_bytes("gguf\x03"), HasSubstr("found \"gguf\\x03\""));
}

TEST(NotGguf, Empty) {
  EXPECT_THAT(refusal_of_bytes(""), HasSubstr("empty"));
}

TEST(NotGguf, NoRegularFile) {
  const TemporaryFolder folder;
  const auto path = folder / "x.gguf";
  std::filesystem::create_directory(path);
  EXPECT_THAT(refusal(path), HasSubstr("expected a regular file, found a directory"));
  std::filesystem::remove(path);

  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);  // nobody will ever write into it
  EXPECT_THAT(refusal(path), HasSubstr("expected a regular file, found a FIFO"));
  std::filesystem::create_symlink(path, folder / "link.gguf");
  EXPECT_THAT(refusal(folder / "link.gguf"), HasSubstr("expected a regular file, found a FIFO"));
  std::filesystem::remove(path);
  EXPECT_THAT(refusal(folder / "link.gguf"), HasSubstr("No such file"));

  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.native().size(), sizeof address.sun_path);
  path.native().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(refusal(path), HasSubstr("expected a regular file, found a socket"));
  ::close(socket);

  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("expected a regular file, found a character device"));
  EXPECT_THAT(refusal(folder / "absent.gguf"), HasSubstr("No such file"));
  EXPECT_THAT(refusal(folder.path() / "no folder" / "x.gguf"), HasSubstr("No such file"));
}

TEST(NotGguf, APathThatWouldUpsetTheTerminal) {
  const TemporaryFolder folder;
  try {
    gguf::File::open(folder.write("evil\n\x1b[2J.gguf", "nothing"));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("evil\\n\\x1b[2J.gguf"));
  }
}

}  // namespace
}  // namespace inferno::test
