#include "gguf/describe.hpp"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "gguf/writer.hpp"
#include "support/gguf_bytes.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using gguf::Array;
using gguf::ValueType;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(DescribeJson, ShippedModel) {
  const std::filesystem::path path = INFERNO_MODELS "/tale-12m-q8_0.gguf";
  const auto json = nlohmann::json::parse(gguf::describe_json(gguf::File::open(path)));
  EXPECT_EQ(json.size(), 5U);
  EXPECT_EQ(json["version"], 3);
  EXPECT_EQ(json["alignment"], 32);
  EXPECT_EQ(json["total_bytes"], std::filesystem::file_size(path));
  EXPECT_EQ(json["metadata"].size(), 25U);
  EXPECT_EQ(json["metadata"]["general.architecture"], "qwen3");
  EXPECT_EQ(json["metadata"]["qwen3.block_count"], 10);
  EXPECT_EQ(json["metadata"]["qwen3.attention.layer_norm_rms_epsilon"], 1e-6);
  EXPECT_EQ(json["metadata"]["tokenizer.ggml.add_bos_token"], false);
  EXPECT_EQ(json["metadata"]["tokenizer.ggml.tokens"].size(), 8192U);
  ASSERT_EQ(json["tensors"].size(), 112U);
  EXPECT_EQ(json["tensors"][0], nlohmann::json({{"name", "token_embd.weight"},
                                                {"type", "q8_0"},
                                                {"shape", {256, 8192}},
                                                {"offset", 0},
                                                {"bytes", 2228224}}));
}

TEST(DescribeJson, StrangeValues) {
  const TemporaryFolder folder;
  gguf::Writer writer;
  writer.add("bad utf-8 \xff", std::string("a\xff\xc0z"));
  writer.add("controls", std::string("\x1b[31m\0\n", 7));
  writer.add("nan", std::numeric_limits<float>::quiet_NaN());
  writer.add("inf", std::numeric_limits<double>::infinity());
  writer.add("floats", Array{ValueType::f32,
                             std::vector<float>{0.1F, -std::numeric_limits<float>::infinity(), 1e-45F}});
  writer.add("booleans", Array{ValueType::boolean, std::vector<std::uint8_t>{0, 1}});
  writer.add("bytes", Array{ValueType::u8, std::vector<std::uint8_t>{0, 1}});
  writer.add("large", std::numeric_limits<std::uint64_t>::max());
  writer.add("nested",
             Array{ValueType::array,
                   std::vector<Array>{{ValueType::string, std::vector<std::string>{"x", "\xfe"}}, {}}});
  writer.write(folder / "x.gguf");
  const auto json =
      nlohmann::json::parse(gguf::describe_json(gguf::File::open(folder / "x.gguf")))["metadata"];
  EXPECT_EQ(json["bad utf-8 \xef\xbf\xbd"], "a\xef\xbf\xbd\xef\xbf\xbdz");
  EXPECT_EQ(json["controls"], std::string("\x1b[31m\0\n", 7));
  EXPECT_EQ(json["nan"], "nan");
  EXPECT_EQ(json["inf"], "inf");
  EXPECT_EQ(json["floats"], nlohmann::json({0.1, "-inf", 1e-45}));
  EXPECT_EQ(json["booleans"], nlohmann::json({false, true}));
  EXPECT_EQ(json["bytes"], nlohmann::json({0, 1}));
  EXPECT_EQ(json["large"], std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(json["nested"], nlohmann::json::array({{"x", "\xef\xbf\xbd"}, nlohmann::json::array()}));
}

TEST(DescribeText, ShippedModel) {
  const std::string text = gguf::describe_text(gguf::File::open(INFERNO_MODELS "/tale-12m-q8_0.gguf"));
  EXPECT_THAT(text, AllOf(HasSubstr("GGUF version 3, alignment 32"), HasSubstr("metadata (25)"),
                          HasSubstr("\"qwen3\""), HasSubstr("string[8192]"), HasSubstr("[\"!\", \"\\\"\", "),
                          HasSubstr("tensors (112)"), HasSubstr("[256, 8192]"),
                          HasSubstr("q8_0: 71 tensors, 12673024 bytes"), HasSubstr("12978752 bytes in all")));
  EXPECT_LT(text.size(), 20'000U);  // 8,192 tokens and the chat template are shortened
}

TEST(DescribeText, NothingReachesTheTerminalRaw) {
  const TemporaryFolder folder;
  gguf::Writer writer;
  writer.add("a key\x1b[2J", std::string("\x1b[31m\xff\r\n"));
  writer.add("list", Array{ValueType::string, std::vector<std::string>{"\x07",
                                                                       "\xc2\x9b"
                                                                       "31m",
                                                                       "\xe2\x80\xaetxt"}});
  const std::vector<std::byte> data(4);
  writer.add_tensor("w\x1b\n", quant::TensorType::f32, {1}, data);
  writer.write(folder / "x.gguf");
  const std::string text = gguf::describe_text(gguf::File::open(folder / "x.gguf"));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\r")), Not(HasSubstr("\xff")),
                          Not(HasSubstr("\xc2\x9b")), Not(HasSubstr("\xe2\x80\xae"))));
  EXPECT_THAT(text,
              AllOf(HasSubstr("\"a key\\x1b[2J\""), HasSubstr("\\u{202e}txt"), HasSubstr("\"w\\x1b\\n\"")));
}

TEST(DescribeText, EmptyFile) {
  const TemporaryFolder folder;
  gguf::Writer().write(folder / "x.gguf");
  const auto file = gguf::File::open(folder / "x.gguf");
  EXPECT_THAT(gguf::describe_text(file), HasSubstr("tensors (0)"));
  const auto json = nlohmann::json::parse(gguf::describe_json(file));
  EXPECT_EQ(json["metadata"], nlohmann::json::object());
  EXPECT_EQ(json["tensors"], nlohmann::json::array());
}

std::string two_types() {
  return GgufBytes::header(2, 0).tensor("a", {8}, 0, 0).tensor("b", {256, 2}, 12, 32).pad().zeros(320).get();
}

TEST(Describe, TypesThatCannotBeRun) {
  const TemporaryFolder folder;
  const auto file = gguf::File::open(folder.write("x.gguf", two_types()));
  EXPECT_THAT(gguf::describe_text(file),
              AllOf(HasSubstr("  b     q4_k  [256, 2]"), HasSubstr("2 tensors, 520 parameters, 320 bytes"),
                    HasSubstr("  f32: 1 tensors, 32 bytes\n"),
                    HasSubstr("  q4_k: 1 tensors, 288 bytes; inferno cannot run this type\n")));
  const auto json = nlohmann::json::parse(gguf::describe_json(file));
  EXPECT_EQ(json["tensors"][1], nlohmann::json({{"name", "b"},
                                                {"type", "q4_k"},
                                                {"shape", {256, 2}},
                                                {"offset", 32},
                                                {"bytes", 288},
                                                {"supported", false}}));
  EXPECT_FALSE(json["tensors"][0].contains("supported"));
}

// Eight levels of eight elements would show two million.
TEST(DescribeText, ArraysInArraysAreNamedOnly) {
  const TemporaryFolder folder;
  gguf::Writer writer;
  Array deep{ValueType::u8, std::vector<std::uint8_t>(8)};
  for (int level = 0; level < 5; ++level) deep = Array{ValueType::array, std::vector<Array>(8, deep)};
  writer.add("deep", deep);
  writer.add("short", 1U);
  writer.write(folder / "x.gguf");
  const auto text = gguf::describe_text(gguf::File::open(folder / "x.gguf"));
  EXPECT_THAT(text, HasSubstr("array[8]  [array[8], array[8], "));
  EXPECT_LT(text.size(), 500U);
  EXPECT_THAT(text, HasSubstr("u32       1\n"));
}

TEST(Describe, SplitFilesNameTheShard) {
  const TemporaryFolder folder;
  const std::vector<std::byte> data(4);
  for (std::uint16_t shard = 0; shard < 2; ++shard) {
    gguf::Writer writer;
    writer.add("split.no", shard);
    writer.add("split.count", std::uint16_t{2});
    writer.add("split.tensors.count", std::int32_t{2});
    writer.add_tensor(shard == 0 ? "a" : "b", quant::TensorType::f32, {1}, data);
    writer.write(folder / (shard == 0 ? "m-00001-of-00002.gguf" : "m-00002-of-00002.gguf"));
  }
  const auto file = gguf::File::open(folder / "m-00001-of-00002.gguf");
  const auto json = nlohmann::json::parse(gguf::describe_json(file));
  EXPECT_EQ(json["tensors"][0]["shard"], 1);
  EXPECT_EQ(json["tensors"][1]["shard"], 2);
  EXPECT_THAT(gguf::describe_text(file), HasSubstr("shard"));
}

}  // namespace
}  // namespace inferno::test
