// Field case G1: tiny files that announce huge counts and lengths, and the guard that honest ones load fast.

#include <chrono>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/reader.hpp"
#include "gguf/refusal.hpp"
#include "gguf/writer.hpp"
#include "support/child.hpp"
#include "support/gguf_bytes.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using gguf::ValueType;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kHuge[] = {std::uint64_t{1} << 32U, std::uint64_t{1} << 40U, std::uint64_t{1} << 60U,
                                   std::uint64_t{1} << 61U, std::uint64_t{1} << 63U, ~std::uint64_t{0}};

TEST(HostileCounts, OnlyTheMagic) {
  EXPECT_THAT(refusal_of_bytes("GGUF"),
              AllOf(HasSubstr("version"), HasSubstr("byte 4"), HasSubstr("cut off")));
}

TEST(HostileCounts, EveryLengthOfAHeaderWithoutEntries) {
  const std::string whole = GgufBytes::header(0, 0).get();
  for (std::size_t length = 1; length < whole.size(); ++length) {
    EXPECT_THAT(refusal_of_bytes(whole.substr(0, length)), HasSubstr("cut off")) << length;
  }
}

TEST(HostileCounts, TensorCount) {
  for (const std::uint64_t count : kHuge) {
    EXPECT_THAT(
        refusal_of_bytes(GgufBytes::header(count, 0).get()),
        AllOf(HasSubstr("tensor count"), HasSubstr("byte 8,"), HasSubstr("found " + std::to_string(count))));
  }
  // Small enough to be true of some file, but not of this one.
  EXPECT_THAT(refusal_of_bytes(GgufBytes::header(3, 0).zeros(66).get()),
              AllOf(HasSubstr("tensor count"), HasSubstr("at most 2 in the 74 bytes that follow"),
                    HasSubstr("found 3")));
}

TEST(HostileCounts, EntryCount) {
  for (const std::uint64_t count : kHuge) {
    EXPECT_THAT(refusal_of_bytes(GgufBytes::header(0, count).get()),
                AllOf(HasSubstr("metadata entry count"), HasSubstr("byte 16,"),
                      HasSubstr("found " + std::to_string(count))));
  }
  EXPECT_THAT(refusal_of_bytes(GgufBytes::header(0, 2).zeros(27).get()),
              AllOf(HasSubstr("metadata entry count"), HasSubstr("at most 1 in the 27 bytes that follow")));
}

TEST(HostileCounts, KeyLength) {
  for (const std::uint64_t length : kHuge) {
    EXPECT_THAT(refusal_of_bytes(GgufBytes::header(0, 1).number(length).zeros(40).get()),
                AllOf(HasSubstr("metadata entry 1 of 1: key"), HasSubstr("byte 24,"),
                      HasSubstr("found " + std::to_string(length))));
  }
  EXPECT_THAT(refusal_of_bytes(GgufBytes::header(0, 1).number(std::uint64_t{41}).zeros(40).get()),
              AllOf(HasSubstr("key"), HasSubstr("at most 40"), HasSubstr("found 41")));
}

TEST(HostileCounts, EmptyKey) {
  EXPECT_THAT(refusal_of_bytes(GgufBytes::header(0, 1).entry("", ValueType::u32, 1U).get()),
              AllOf(HasSubstr("metadata entry 1 of 1: key"), HasSubstr("byte 24,"), HasSubstr("empty")));
}

TEST(HostileCounts, StringLength) {
  for (const std::uint64_t length : kHuge) {
    EXPECT_THAT(refusal_of_bytes(GgufBytes::header(0, 1).key("a.b", ValueType::string).number(length).get()),
                AllOf(HasSubstr("metadata key \"a.b\": value"), HasSubstr("byte 39,"),
                      HasSubstr("found " + std::to_string(length))));
  }
}

TEST(HostileCounts, ArrayLengthOfEveryElementType) {
  for (std::uint32_t type = 0; type < gguf::kValueTypes; ++type) {
    for (const std::uint64_t length : kHuge) {
      const auto bytes =
          GgufBytes::header(0, 1).key("a", ValueType::array).number(type).number(length).zeros(20);
      EXPECT_THAT(refusal_of_bytes(bytes.get()),
                  AllOf(HasSubstr("metadata key \"a\": array length"), HasSubstr("byte 41,"),
                        HasSubstr(std::string(gguf::value_type_name(static_cast<ValueType>(type)))),
                        HasSubstr("found " + std::to_string(length))))
          << type;
    }
  }
}

TEST(HostileCounts, StringInsideAnArray) {
  auto bytes =
      GgufBytes::header(0, 1).key("a", ValueType::array).number(ValueType::string).number(std::uint64_t{2});
  bytes.text("x").number(~std::uint64_t{0});
  EXPECT_THAT(refusal_of_bytes(bytes.get()),
              AllOf(HasSubstr("metadata key \"a\": array element"), HasSubstr("byte 58,")));
}

TEST(HostileCounts, ArrayOfArraysLoadsAndItsLengthsAreChecked) {
  auto bytes =
      GgufBytes::header(0, 1).key("a", ValueType::array).number(ValueType::array).number(std::uint64_t{2});
  bytes.number(ValueType::u8).number(std::uint64_t{1}).raw("\x05");
  const std::string start = bytes.get();
  bytes.number(ValueType::u8).number(std::uint64_t{1} << 60U);
  EXPECT_THAT(refusal_of_bytes(bytes.get()),
              AllOf(HasSubstr("metadata key \"a\": array length"), HasSubstr("byte 66,")));

  const TemporaryFolder folder;
  const auto path =
      folder.write("x.gguf", GgufBytes().raw(start).number(ValueType::string).number(std::uint64_t{0}).get());
  const auto file = gguf::File::open(path);
  const auto& outer = std::get<std::vector<gguf::Array>>(file.find("a")->as_array()->elements);
  ASSERT_EQ(outer.size(), 2U);
  EXPECT_EQ(std::get<std::vector<std::uint8_t>>(outer[0].elements), std::vector<std::uint8_t>{5});
  EXPECT_EQ(outer[1].element_type, ValueType::string);
  EXPECT_EQ(outer[1].size(), 0U);
}

std::string nested(std::uint32_t depth) {
  auto bytes = GgufBytes::header(0, 1).key("a", ValueType::array);
  for (std::uint32_t level = 1; level < depth; ++level)
    bytes.number(ValueType::array).number(std::uint64_t{1});
  return bytes.number(ValueType::u8).number(std::uint64_t{0}).get();
}

TEST(HostileCounts, NestedArrays) {
  const TemporaryFolder folder;
  EXPECT_EQ(gguf::File::open(folder.write("x.gguf", nested(8))).metadata().size(), 1U);
  for (const std::uint32_t depth : {9U, 100U, 10'000U, 1'000'000U}) {
    EXPECT_THAT(
        refusal_of_bytes(nested(depth)),
        AllOf(HasSubstr("metadata key \"a\""), HasSubstr("nested at most 8 deep"), HasSubstr("byte 133,")));
  }
}

TEST(HostileCounts, ArraysThatFanOut) {
  // Each level says 1,000: 10^24 arrays in 96 bytes if anybody believed it.
  auto bytes = GgufBytes::header(0, 1).key("a", ValueType::array);
  for (int level = 0; level < 8; ++level) bytes.number(ValueType::array).number(std::uint64_t{1000});
  EXPECT_THAT(refusal_of_bytes(bytes.get()), HasSubstr("metadata key \"a\": array length"));
}

TEST(HostileCounts, ValueType) {
  for (const std::uint32_t type : {13U, 14U, 255U, 0x80000000U, 0xFFFFFFFFU}) {
    EXPECT_THAT(refusal_of_bytes(GgufBytes::header(0, 1).key("a", type).zeros(16).get()),
                AllOf(HasSubstr("metadata key \"a\": value type"), HasSubstr("byte 33,"),
                      HasSubstr("from 0 to 12"), HasSubstr("found " + std::to_string(type))));
    EXPECT_THAT(
        refusal_of_bytes(GgufBytes::header(0, 1).key("a", ValueType::array).number(type).zeros(16).get()),
        AllOf(HasSubstr("metadata key \"a\": array element type"), HasSubstr("byte 37,"),
              HasSubstr("found " + std::to_string(type))));
  }
}

TEST(HostileCounts, Dimensions) {
  for (const std::uint32_t dimensions : {0U, 5U, 0xFFFFFFFFU}) {
    EXPECT_THAT(refusal_of_bytes(GgufBytes::header(1, 0).text("w").number(dimensions).zeros(40).get()),
                AllOf(HasSubstr("tensor \"w\": dimension count"), HasSubstr("byte 33,"), HasSubstr("1 to 4"),
                      HasSubstr("found " + std::to_string(dimensions))));
  }
}

TEST(HostileCounts, TensorNameLength) {
  for (const std::uint64_t length : kHuge) {
    EXPECT_THAT(refusal_of_bytes(GgufBytes::header(1, 0).number(length).zeros(40).get()),
                AllOf(HasSubstr("tensor 1 of 1: name"), HasSubstr("byte 24,"),
                      HasSubstr("found " + std::to_string(length))));
  }
  EXPECT_THAT(refusal_of_bytes(GgufBytes::header(1, 0).text("").zeros(40).get()),
              AllOf(HasSubstr("tensor 1 of 1: name"), HasSubstr("empty")));
  EXPECT_THAT(refusal_of_bytes(GgufBytes::header(1, 0).text(std::string(256, 'w')).zeros(40).get()),
              AllOf(HasSubstr("tensor 1 of 1: name"), HasSubstr("at most 255"), HasSubstr("found 256")));
}

TEST(HostileCounts, Booleans) {
  EXPECT_THAT(refusal_of_bytes(GgufBytes::header(0, 1).entry("a", ValueType::boolean, std::uint8_t{7}).get()),
              AllOf(HasSubstr("metadata key \"a\": value"), HasSubstr("boolean"), HasSubstr("byte 37,"),
                    HasSubstr("found 7")));
  auto bytes = GgufBytes::header(0, 1)
                   .key("a", ValueType::array)
                   .number(ValueType::boolean)
                   .number(std::uint64_t{9000});
  std::string list(9000, '\1');
  list[8999] = '\2';
  EXPECT_THAT(refusal_of_bytes(bytes.raw(list).get()), AllOf(HasSubstr("metadata key \"a\": array element"),
                                                             HasSubstr("byte 9048,"), HasSubstr("found 2")));
}

constexpr std::uint64_t kMegabyte = 1U << 20U;

/// A sparse file of `size` bytes that starts with these and goes on with zeros.
std::string refusal_of_sparse(const GgufBytes& start, std::uint64_t size) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.gguf", start.get());
  std::filesystem::resize_file(path, size);
  return refusal(path);
}

GgufBytes array_of(ValueType type, std::uint64_t size, std::uint64_t entries = 1) {
  return GgufBytes::header(0, entries).key("general.name", ValueType::array).number(type).number(size);
}

// Files that really hold what they announce: nothing in them is malformed, there is only too much of it.
TEST(HostileSizes, AString) {
  constexpr std::uint64_t kLength = (std::uint64_t{1} << 31U) - 200;
  const auto start = GgufBytes::header(0, 1).key("general.name", ValueType::string).number(kLength);
  for (const std::uint64_t size : {std::uint64_t{1} << 31U, std::uint64_t{1} << 41U}) {
    EXPECT_THAT(refusal_of_sparse(start, size),
                AllOf(HasSubstr("metadata key \"general.name\": value"),
                      HasSubstr("at most 134217728 bytes of memory for all keys and values at byte 48,"),
                      HasSubstr("found a string of 2147483448 bytes")));
  }
}

TEST(HostileSizes, AnArrayOfNumbers) {
  EXPECT_THAT(refusal_of_sparse(array_of(ValueType::u8, 2047 * kMegabyte), 2048 * kMegabyte),
              AllOf(HasSubstr("metadata key \"general.name\": array length"),
                    HasSubstr("at most 4194304 elements in all arrays of the file at byte 52,"),
                    HasSubstr("found 2146435072 after 0 others")));
  EXPECT_THAT(refusal_of_sparse(array_of(ValueType::boolean, 256 * kMegabyte), 300 * kMegabyte),
              HasSubstr("at most 4194304 elements"));
  EXPECT_THAT(refusal_of_sparse(array_of(ValueType::f64, 4 * kMegabyte + 1), 64 * kMegabyte),
              HasSubstr("at most 4194304 elements"));
}

TEST(HostileSizes, ManyEmptyStringsOrArrays) {
  EXPECT_THAT(refusal_of_sparse(array_of(ValueType::string, 4 * kMegabyte), 33 * kMegabyte),
              AllOf(HasSubstr("metadata key \"general.name\": array length"),
                    HasSubstr("at most 134217728 bytes of memory for all keys and values at byte 52,"),
                    HasSubstr("found an array of 4194304 elements of type string after 128 bytes")));
  EXPECT_THAT(refusal_of_sparse(array_of(ValueType::array, 4 * kMegabyte), 49 * kMegabyte),
              AllOf(HasSubstr("at most 134217728 bytes"), HasSubstr("4194304 elements of type array")));
  EXPECT_THAT(refusal_of_sparse(array_of(ValueType::string, 5 * kMegabyte), 41 * kMegabyte),
              HasSubstr("at most 4194304 elements"));
}

TEST(HostileSizes, ManyThatAreAllowedOneByOne) {
  // Three strings of 50 MB: the third is one too many.
  auto strings = GgufBytes::header(0, 3);
  const TemporaryFolder folder;
  const auto path = folder.write("x.gguf", "");
  std::ofstream file(path, std::ios::binary);
  std::string bytes = strings.get();
  for (const char* key : {"a", "b", "c"}) {
    bytes += GgufBytes().key(key, ValueType::string).number(50 * kMegabyte).get();
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.seekp(static_cast<std::streamoff>(50 * kMegabyte), std::ios::cur);
    bytes.clear();
  }
  file << std::string(64, '\0');
  file.close();
  EXPECT_THAT(refusal(path),
              AllOf(HasSubstr("metadata key \"c\": value"), HasSubstr("at most 134217728 bytes"),
                    HasSubstr("found a string of 52428800 bytes after 104858048 bytes")));
}

TEST(HostileSizes, LongKeys) {
  constexpr int kKeys = 2100;  // of 64 KiB
  auto bytes = GgufBytes::header(0, kKeys);
  std::string key(65535, 'k');
  for (int i = 0; i < kKeys; ++i) {
    key.replace(0, 5, fmt::format("{:5}", i));
    bytes.entry(key, ValueType::u8, std::uint8_t{0});
  }
  EXPECT_THAT(
      refusal_of_bytes(bytes.get()),
      AllOf(HasSubstr("metadata entry "), HasSubstr("key: expected at most 134217728 bytes of memory"),
            HasSubstr("a key of 65535 bytes")));
}

// What follows the tensors is not read into memory either.
TEST(HostileSizes, BytesAfterTheLastTensor) {
  const TemporaryFolder folder;
  const auto path =
      folder.write("x.gguf", GgufBytes::header(1, 0).tensor("a", {8}, 0, 0).pad().zeros(32).get());
  std::filesystem::resize_file(path, std::uint64_t{1} << 41U);
  for (const bool map : {true, false}) {
    const ChildResult result = run_in_child([&] { gguf::File::open(path, {map}); }, 16 * kMegabyte);
    EXPECT_EQ(result.outcome, Outcome::returned) << result.message;
    EXPECT_LT(result.peak_growth, (kMemoryIsLimited ? 16 : 128) * kMegabyte);
  }
}

TEST(HostileCounts, MessagesShowNamesPrintablyAndShortened) {
  const std::string key = "\x1b[31m\n\r\t\x07" + std::string(50'000, 'k') + "\xff\xfe";
  const std::string message = refusal_of_bytes(GgufBytes::header(0, 1).key(key, 13U).zeros(8).get());
  EXPECT_THAT(message, AllOf(HasSubstr("\"\\x1b[31m\\n\\r\\t\\x07kkk"), HasSubstr("...\" (50011 bytes)")));
  EXPECT_LT(message.size(), 400U);
}

TEST(HonestCounts, AVocabularyOfAMillionLoads) {
  constexpr std::size_t kTokens = 1'000'000;
  const TemporaryFolder folder;
  gguf::Writer writer;
  std::vector<std::string> tokens;
  std::vector<std::string> merges;
  for (std::size_t i = 0; i < kTokens; ++i) {
    tokens.push_back(fmt::format("token{}", i));
    merges.push_back(fmt::format("left{} right{}", i, i / 100));
  }
  writer.add("tokenizer.ggml.tokens", gguf::Array{ValueType::string, tokens});
  writer.add("tokenizer.ggml.scores", gguf::Array{ValueType::f32, std::vector<float>(kTokens)});
  writer.add("tokenizer.ggml.token_type", gguf::Array{ValueType::i32, std::vector<std::int32_t>(kTokens)});
  writer.add("tokenizer.ggml.merges", gguf::Array{ValueType::string, std::move(merges)});
  writer.add("tokenizer.chat_template", std::string(1U << 20U, 'x'));
  writer.write(folder / "x.gguf");
  const auto file = gguf::File::open(folder / "x.gguf");
  EXPECT_EQ(std::get<std::vector<std::string>>(file.find("tokenizer.ggml.tokens")->as_array()->elements),
            tokens);
}

TEST(HonestCounts, A152ThousandTokenVocabularyLoadsFast) {
  const TemporaryFolder folder;
  gguf::Writer writer;
  std::vector<std::string> tokens;
  for (int i = 0; i < 152'000; ++i) tokens.push_back("token" + std::to_string(i));
  writer.add("tokenizer.ggml.tokens", gguf::Array{ValueType::string, tokens});
  writer.add("tokenizer.ggml.merges", gguf::Array{ValueType::string, tokens});
  writer.add("tokenizer.ggml.scores", gguf::Array{ValueType::f32, std::vector<float>(152'000)});
  writer.write(folder / "x.gguf");
  const auto start = std::chrono::steady_clock::now();
  const auto file = gguf::File::open(folder / "x.gguf");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
  EXPECT_EQ(std::get<std::vector<std::string>>(file.find("tokenizer.ggml.tokens")->as_array()->elements),
            tokens);
}

}  // namespace
}  // namespace inferno::test
