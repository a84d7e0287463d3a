// What the writer writes the reader reads; what the reader would refuse the writer does not write.

#include "gguf/writer.hpp"

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <sys/resource.h>

#include <inferno/error.hpp>

#include "gguf/reader.hpp"
#include "support/child.hpp"
#include "support/gguf_bytes.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using gguf::Array;
using gguf::Value;
using gguf::ValueType;
using quant::TensorType;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::size_t files_in(const TemporaryFolder& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

bool equal(const Array& a, const Array& b) {
  if (a.element_type != b.element_type || a.elements.index() != b.elements.index()) return false;
  if (const auto* list = std::get_if<std::vector<Array>>(&a.elements)) {
    const auto& other = std::get<std::vector<Array>>(b.elements);
    return std::equal(list->begin(), list->end(), other.begin(), other.end(), equal);
  }
  return std::visit(
      [&](const auto& list) {
        using List = std::decay_t<decltype(list)>;
        if constexpr (std::is_same_v<List, std::vector<Array>>) {
          return false;
        } else {
          return list == std::get<List>(b.elements);
        }
      },
      a.elements);
}

template <typename T>
void expect_kept(const gguf::File& file, std::string_view key, ValueType type, const T& expected) {
  const Value* value = file.find(key);
  ASSERT_NE(value, nullptr) << key;
  EXPECT_EQ(value->type(), type) << key;
  EXPECT_EQ(std::get<T>(value->storage()), expected) << key;
}

TEST(Writer, KeepsEveryValueType) {
  const TemporaryFolder folder;
  gguf::Writer writer;
  writer.add("u8", std::uint8_t{255});
  writer.add("i8", std::int8_t{-128});
  writer.add("u16", std::uint16_t{65535});
  writer.add("i16", std::int16_t{-32768});
  writer.add("u32", 4294967295U);
  writer.add("i32", std::numeric_limits<std::int32_t>::min());
  writer.add("u64", std::numeric_limits<std::uint64_t>::max());
  writer.add("i64", std::numeric_limits<std::int64_t>::min());
  writer.add("f32", 0.1F);
  writer.add("f64", 0.1);
  writer.add("true", true);
  writer.add("false", false);
  writer.add("text", std::string("a\0b\xff", 4));
  writer.add("empty text", std::string());
  writer.write(folder / "x.gguf");
  const auto file = gguf::File::open(folder / "x.gguf");
  EXPECT_EQ(file.metadata().size(), 14U);
  EXPECT_EQ(file.metadata()[0].first, "u8");
  expect_kept(file, "u8", ValueType::u8, std::uint8_t{255});
  expect_kept(file, "i8", ValueType::i8, std::int8_t{-128});
  expect_kept(file, "u16", ValueType::u16, std::uint16_t{65535});
  expect_kept(file, "i16", ValueType::i16, std::int16_t{-32768});
  expect_kept(file, "u32", ValueType::u32, 4294967295U);
  expect_kept(file, "i32", ValueType::i32, std::numeric_limits<std::int32_t>::min());
  expect_kept(file, "u64", ValueType::u64, std::numeric_limits<std::uint64_t>::max());
  expect_kept(file, "i64", ValueType::i64, std::numeric_limits<std::int64_t>::min());
  expect_kept(file, "f32", ValueType::f32, 0.1F);
  expect_kept(file, "f64", ValueType::f64, 0.1);
  expect_kept(file, "true", ValueType::boolean, true);
  expect_kept(file, "false", ValueType::boolean, false);
  expect_kept(file, "text", ValueType::string, std::string("a\0b\xff", 4));
  expect_kept(file, "empty text", ValueType::string, std::string());
  EXPECT_EQ(file.find("absent"), nullptr);
}

TEST(Value, KnowsWhereItStands) {
  const TemporaryFolder folder;
  gguf::Writer writer;
  writer.add("a", 7U);
  writer.add("b", std::string("text"));
  writer.add("c", Array{ValueType::u8, std::vector<std::uint8_t>{1}});
  writer.write(folder / "x.gguf");
  const std::string bytes = read_file(folder / "x.gguf");
  const auto file = gguf::File::open(folder / "x.gguf");
  const auto a = file.find("a")->offset();
  ASSERT_TRUE(a);
  EXPECT_EQ(bytes.substr(*a, 4), std::string("\7\0\0\0", 4));
  EXPECT_EQ(bytes.substr(*file.find("b")->offset(), 12), std::string("\4\0\0\0\0\0\0\0text", 12));
  const std::string array("\0\0\0\0\1\0\0\0\0\0\0\0\1", 13);  // element type, length, element
  EXPECT_EQ(bytes.substr(*file.find("c")->offset(), 13), array);
  EXPECT_EQ(Value(7U).offset(), std::nullopt);
}

TEST(Value, SaysTheSame) {
  EXPECT_TRUE(say_the_same(Value(2U), Value(std::uint64_t{2})));
  EXPECT_TRUE(say_the_same(Value(-2), Value(std::int64_t{-2})));
  EXPECT_TRUE(say_the_same(Value(2U, 10), Value(2U, 20)));
  EXPECT_FALSE(say_the_same(Value(2U), Value(3U)));
  EXPECT_FALSE(say_the_same(Value(2U), Value(2.0F)));
  EXPECT_FALSE(say_the_same(Value(1U), Value(true)));
  EXPECT_FALSE(say_the_same(Value("a"), Value("b")));
  const Array list{ValueType::array, std::vector<Array>{{ValueType::string, std::vector<std::string>{"x"}}}};
  Array other = list;
  EXPECT_TRUE(say_the_same(Value(list), Value(other)));
  std::get<std::vector<Array>>(other.elements)[0].elements = std::vector<std::string>{"y"};
  EXPECT_FALSE(say_the_same(Value(list), Value(other)));
}

TEST(Writer, KeepsArraysOfEveryElementType) {
  const Array arrays[] = {
      {ValueType::u8, std::vector<std::uint8_t>{0, 255}},
      {ValueType::i8, std::vector<std::int8_t>{-1, 1}},
      {ValueType::u16, std::vector<std::uint16_t>{1, 65535}},
      {ValueType::i16, std::vector<std::int16_t>{-1}},
      {ValueType::u32, std::vector<std::uint32_t>{7, 8}},
      {ValueType::i32, std::vector<std::int32_t>{-7, 8}},
      {ValueType::f32, std::vector<float>{0.5F, -0.0F}},
      {ValueType::boolean, std::vector<std::uint8_t>{0, 1, 1}},
      {ValueType::string, std::vector<std::string>{"", "abc", std::string(100'000, 'x')}},
      {ValueType::u64, std::vector<std::uint64_t>(20'000, 1)},
      {ValueType::i64, std::vector<std::int64_t>{-1}},
      {ValueType::f64, std::vector<double>{1e300}},
      {ValueType::f64, std::vector<double>{}},
      {ValueType::string, std::vector<std::string>{}},
      {ValueType::array, std::vector<Array>{}},
  };
  const TemporaryFolder folder;
  gguf::Writer writer;
  Array nested{ValueType::array, std::vector<Array>(std::begin(arrays), std::end(arrays))};
  nested = Array{ValueType::array, std::vector<Array>{nested, arrays[0]}};
  for (std::size_t i = 0; i < std::size(arrays); ++i) writer.add("array" + std::to_string(i), arrays[i]);
  writer.add("nested", nested);
  writer.write(folder / "x.gguf");
  const auto file = gguf::File::open(folder / "x.gguf");
  for (std::size_t i = 0; i < std::size(arrays); ++i) {
    EXPECT_TRUE(equal(*file.find("array" + std::to_string(i))->as_array(), arrays[i])) << i;
  }
  EXPECT_TRUE(equal(*file.find("nested")->as_array(), nested));
}

TEST(Value, Conversions) {
  EXPECT_EQ(Value(std::int8_t{5}).as_unsigned(), 5U);
  EXPECT_EQ(Value(std::int8_t{-5}).as_unsigned(), std::nullopt);
  EXPECT_EQ(Value(std::int8_t{-5}).as_signed(), -5);
  EXPECT_EQ(Value(std::numeric_limits<std::uint64_t>::max()).as_signed(), std::nullopt);
  EXPECT_EQ(Value(std::numeric_limits<std::uint64_t>::max()).as_unsigned(),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(Value(1.5F).as_unsigned(), std::nullopt);
  EXPECT_EQ(Value(1.5F).as_number(), 1.5);
  EXPECT_EQ(Value(7U).as_number(), 7.0);
  EXPECT_EQ(Value(true).as_unsigned(), std::nullopt);
  EXPECT_EQ(Value(true).as_number(), std::nullopt);
  EXPECT_EQ(Value(true).as_bool(), true);
  EXPECT_EQ(Value(1U).as_bool(), std::nullopt);
  EXPECT_EQ(*Value("text").as_string(), "text");
  EXPECT_EQ(Value(1U).as_string(), nullptr);
  EXPECT_EQ(Value(1U).as_array(), nullptr);
}

TEST(Writer, MixesFormatsInOneFile) {
  const TemporaryFolder folder;
  for (const std::uint32_t alignment : {8U, 32U, 4096U}) {
    gguf::Writer writer(alignment);
    std::vector<std::vector<std::byte>> data;
    data.reserve(quant::formats().size());
    for (const auto& format : quant::formats()) {
      auto& bytes = data.emplace_back(std::size_t{3} * format.block_bytes * 2);
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + data.size());
      writer.add_tensor(std::string(format.name), format.type, {std::uint64_t{format.block_elements} * 2, 3},
                        bytes);
    }
    writer.write(folder / "x.gguf");
    for (const bool map : {true, false}) {
      const auto file = gguf::File::open(folder / "x.gguf", {map});
      EXPECT_EQ(file.alignment(), alignment);
      EXPECT_EQ(file.total_bytes(), std::filesystem::file_size(folder / "x.gguf"));
      ASSERT_EQ(file.tensors().size(), data.size());
      for (std::size_t i = 0; i < data.size(); ++i) {
        const auto& tensor = file.tensors()[i];
        EXPECT_EQ(tensor.format, &quant::formats()[i]);
        EXPECT_EQ(tensor.offset % alignment, 0U);
        EXPECT_EQ(file.find_tensor(tensor.name), &tensor);
        const auto found = file.data(tensor);
        EXPECT_TRUE(std::equal(found.begin(), found.end(), data[i].begin(), data[i].end()));
      }
      EXPECT_EQ(file.find_tensor("absent"), nullptr);
    }
  }
}

TEST(Writer, ReproducesTheShippedModelByteForByte) {
  const TemporaryFolder folder;
  const std::filesystem::path original = INFERNO_MODELS "/tale-12m-q8_0.gguf";
  const auto file = gguf::File::open(original);
  gguf::Writer writer;
  for (const auto& [key, value] : file.metadata()) writer.add(key, value);
  for (const auto& tensor : file.tensors())
    writer.add_tensor(tensor.name, tensor.format->type, tensor.shape, file.data(tensor));
  writer.write(folder / "x.gguf");
  EXPECT_TRUE(read_file(original) == read_file(folder / "x.gguf"));
}

TEST(Writer, FillsInPiecesOfWholeRows) {
  const TemporaryFolder folder;
  gguf::Writer writer;
  constexpr std::uint64_t kRows = 5000;
  constexpr std::uint64_t kColumns = 512;  // 2 KiB a row: more than one piece
  std::uint64_t expected_row = 0;
  writer.add_tensor("w", TensorType::f32, {kColumns, kRows},
                    [&](std::uint64_t first_row, std::span<std::byte> target) {
                      EXPECT_EQ(first_row, expected_row);
                      EXPECT_EQ(target.size() % (kColumns * sizeof(float)), 0U);
                      expected_row += target.size() / (kColumns * sizeof(float));
                      for (std::size_t i = 0; i < target.size() / sizeof(float); ++i) {
                        const auto value = static_cast<float>(first_row * kColumns + i);
                        std::memcpy(target.data() + i * sizeof value, &value, sizeof value);
                      }
                    });
  std::uint64_t last = 0;
  writer.write(folder / "x.gguf", [&](std::uint64_t written, std::uint64_t total) {
    EXPECT_GE(written, last);
    EXPECT_LE(written, total);
    last = written;
  });
  EXPECT_EQ(last, std::filesystem::file_size(folder / "x.gguf"));
  EXPECT_EQ(expected_row, kRows);
  const auto file = gguf::File::open(folder / "x.gguf");
  const auto* values = reinterpret_cast<const float*>(file.data(file.tensors()[0]).data());
  for (std::uint64_t i = 0; i < kRows * kColumns; ++i) ASSERT_EQ(values[i], static_cast<float>(i));
}

TEST(Writer, RefusesWhatTheReaderWould) {
  const TemporaryFolder folder;
  const std::vector<std::byte> data(64);
  const auto message = [&](auto&& prepare, std::uint32_t alignment = 32) {
    try {
      gguf::Writer writer(alignment);
      prepare(writer);
      writer.write(folder / "x.gguf");
    } catch (const Error& error) {
      EXPECT_EQ(files_in(folder), 0U);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  using W = gguf::Writer&;
  EXPECT_THAT(message([](W w) { w.add("", 1U); }), HasSubstr("metadata key \"\""));
  EXPECT_THAT(message([](W w) { w.add(std::string(65536, 'k'), 1U); }), HasSubstr("1 to 65535 bytes"));
  EXPECT_THAT(message([](W w) { w.add("a", 1U), w.add("a", 1U); }),
              HasSubstr("metadata key \"a\": expected each key once"));
  EXPECT_THAT(message([](W w) { w.add("general.alignment", 64U); }), HasSubstr("general.alignment"));
  EXPECT_THAT(message([](W w) { w.add("general.alignment", 32); }), HasSubstr("general.alignment"));
  EXPECT_THAT(message([](W) {}, 3), HasSubstr("alignment: expected a power of two"));
  EXPECT_THAT(message([](W) {}, 0), HasSubstr("alignment: expected a power of two"));
  EXPECT_THAT(message([](W w) {
                w.add("a", Array{ValueType::u32, std::vector<float>{1}});
              }),
              HasSubstr("element type u32"));
  EXPECT_THAT(message([](W w) {
                w.add("a", Array{ValueType::boolean, std::vector<std::uint8_t>{2}});
              }),
              HasSubstr("booleans"));
  EXPECT_THAT(message([](W w) {
                Array deep{ValueType::u8, std::vector<std::uint8_t>{}};
                for (int i = 0; i < 8; ++i) deep = Array{ValueType::array, std::vector<Array>{deep}};
                w.add("a", deep);
              }),
              HasSubstr("nested at most 8 deep"));
  EXPECT_THAT(message([](W w) {
                w.add("a", Array{ValueType::string, std::vector<std::string>((4U << 20U) + 1)});
              }),
              HasSubstr("at most 4194304 elements in all arrays"));
  EXPECT_THAT(message([](W w) { w.add("a", std::string(128U << 20U, 'x')); }),
              HasSubstr("metadata key \"a\": expected at most 134217728 bytes of memory"));
  EXPECT_THAT(message([](W w) {
                w.add("a", Array{ValueType::string, std::vector<std::string>(4U << 20U)});
              }),
              HasSubstr("metadata key \"a\": expected at most 134217728 bytes of memory"));
  EXPECT_THAT(message([](W w) {
                for (int i = 0; i < 65536; ++i) w.add(std::to_string(i), true);
              }),
              HasSubstr("less than 65536 metadata entries"));
  EXPECT_THAT(message([](W w) {
                const gguf::Writer::Fill nothing = [](std::uint64_t, std::span<std::byte>) {};
                for (int i = 0; i < 20; ++i) {
                  w.add_tensor(std::to_string(i), TensorType::f32, {std::uint64_t{1} << 56U}, nothing);
                }
              }),
              HasSubstr("bytes before it"));
  EXPECT_THAT(message([&](W w) { w.add_tensor("", TensorType::f32, {16}, data); }), HasSubstr("name"));
  EXPECT_THAT(message([&](W w) { w.add_tensor(std::string(256, 'w'), TensorType::f32, {16}, data); }),
              HasSubstr("1 to 255"));
  EXPECT_THAT(message([&](W w) { w.add_tensor("w", TensorType::f32, {}, data); }),
              HasSubstr("1 to 4 dimensions"));
  EXPECT_THAT(message([&](W w) {
                w.add_tensor("w", TensorType::f32, {1, 1, 1, 1, 16}, data);
              }),
              HasSubstr("1 to 4 dimensions"));
  EXPECT_THAT(message([&](W w) {
                w.add_tensor("w", TensorType::f32, {16, 0}, data);
              }),
              HasSubstr("a dimension of 0"));
  EXPECT_THAT(message([&](W w) {
                w.add_tensor("w", TensorType::f32, {~std::uint64_t{0}, 16}, data);
              }),
              HasSubstr("dimension"));
  EXPECT_THAT(message([&](W w) { w.add_tensor("w", TensorType::q8_0, {33}, data); }),
              HasSubstr("multiple of 32"));
  EXPECT_THAT(message([&](W w) { w.add_tensor("w", TensorType::f32, {15}, data); }),
              HasSubstr("expected 60 bytes, found 64"));
  EXPECT_THAT(message([&](W w) { w.add_tensor("w", static_cast<TensorType>(39), {16}, data); }),
              HasSubstr("accepted are f32 (0)"));
  EXPECT_THAT(message([&](W w) {
                w.add_tensor("w", TensorType::f32, {16}, data);
                w.add_tensor("w", TensorType::f32, {16}, data);
              }),
              HasSubstr("tensor \"w\": expected each tensor once"));
}

TEST(Writer, AFailureKeepsTheOldFileAndLeavesNothing) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.gguf", "old");
  gguf::Writer writer;
  writer.add_tensor("w", TensorType::f32, {1024, 4096}, [](std::uint64_t first_row, std::span<std::byte>) {
    if (first_row != 0) throw Error("the source broke");
  });
  EXPECT_THROW(writer.write(path), Error);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(Writer, AFullDiskIsAnError) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.gguf", "old");
  const auto result = run_in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    gguf::Writer writer;
    writer.add_tensor("w", TensorType::f32, {1024, 4096}, [](std::uint64_t, std::span<std::byte>) {});
    writer.write(path);
  });
  EXPECT_EQ(result.outcome, Outcome::threw_error);
  EXPECT_THAT(result.message, AllOf(HasSubstr("x.gguf"), HasSubstr("writing failed after")));
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(Writer, ReplacesAndFollowsLinks) {
  const TemporaryFolder folder;
  const auto path = folder.write("x.gguf", "old");
  std::filesystem::create_symlink("x.gguf", folder / "link.gguf");
  gguf::Writer().write(folder / "link.gguf");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.gguf"));
  EXPECT_EQ(gguf::File::open(path).metadata().size(), 0U);
  EXPECT_EQ(files_in(folder), 2U);
  EXPECT_THROW(gguf::Writer().write(folder.path()), Error);
  EXPECT_THROW(gguf::Writer().write("/dev/null"), Error);
  EXPECT_THROW(gguf::Writer().write(folder.path() / "absent" / "x.gguf"), Error);
}

}  // namespace
}  // namespace inferno::test
