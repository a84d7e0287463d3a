// Bodies as they come: sloppy, hostile, broken.

#include "server/api/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

#include "server/api/error.hpp"
#include "server/api/fields.hpp"
#include "server/api/json_text.hpp"

namespace inferno::api {
namespace {

using testing::HasSubstr;

std::string refusal_of(const std::string& text) {
  try {
    ADD_FAILURE() << dump_json(parse_json(text));
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400U);
    const auto body = nlohmann::json::parse(error.body(), nullptr, false);
    EXPECT_FALSE(body.is_discarded()) << error.body();
    return error.what();
  }
  return {};
}

std::string nested(std::size_t depth, char open, char close) {
  return std::string(depth, open) + std::string(depth, close);
}

TEST(RequestJson, KeepsOrderAndKinds) {
  const std::string text =
      R"({"z":1,"a":[true,false,null,-3,18446744073709551615,1.5],"m":{"y":"\"\\\n\u0000é😀","b":{}},"e":[]})";
  EXPECT_EQ(nlohmann::ordered_json::parse(dump_json(parse_json(text))).dump(),
            nlohmann::ordered_json::parse(text).dump());
}

TEST(RequestJson, IntegersBeyond64BitsKeepTheirDigits) {
  EXPECT_EQ(dump_json(parse_json("[123456789012345678901234567890]")), "[123456789012345678901234567890]");
}

TEST(RequestJson, OfEqualKeysTheLastCounts) {
  EXPECT_EQ(dump_json(parse_json(R"({"a":1,"b":2,"a":3})")), R"({"a":3,"b":2})");
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) many += "\"k" + std::to_string(i % 100) + "\":" + std::to_string(i) + ",";
  many += R"("last":0})";
  const auto object = parse_json(many);
  ASSERT_EQ(object.object()->members().size(), 101U);
  EXPECT_EQ(*object.object()->find("k7")->integer(), 907);
  EXPECT_EQ(object.object()->members().front().first, "k0");
  EXPECT_EQ(object.object()->find("k100"), nullptr);
}

TEST(RequestJson, NestingIsBounded) {
  EXPECT_NO_THROW(parse_json(nested(kMaxJsonDepth, '[', ']')));
  EXPECT_THAT(refusal_of(nested(kMaxJsonDepth + 1, '[', ']')), HasSubstr("nested deeper than 100"));
  EXPECT_THAT(refusal_of(std::string(100'000, '[')), HasSubstr("nested"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_THAT(refusal_of(objects), HasSubstr("nested"));
}

TEST(RequestJson, TheNumberOfValuesIsBounded) {
  std::string text = "[";
  for (std::size_t i = 0; i < kMaxJsonValues; ++i) text += "1,";
  text.back() = ']';
  EXPECT_THAT(refusal_of(text), HasSubstr("more than 1000000 values"));
}

TEST(RequestJson, WhatIsNoJson) {
  for (const auto* text : {"", "  \n", "{", "[1,]", R"({"a":1,})", "nul", "{'a':1}", "{\"a\" 1}", "1 2",
                           "NaN", "[Infinity]", "\"\n\"", "01", "// x\n1"}) {
    EXPECT_FALSE(refusal_of(text).empty()) << text;
  }
  for (const std::string text : {"{", "[1,", "{\"a\":", "\"ab", "tru", "{\"a\":1"}) {
    EXPECT_EQ(refusal_of(text),
              fmt::format("the request body is not valid JSON: it ends after {} bytes, before the JSON does",
                          text.size()));
  }
  EXPECT_THAT(refusal_of("{\"a\":1}}"), HasSubstr("found \"1}}\" at byte 8"));
  EXPECT_THAT(refusal_of("{\"a\": 1e999}"), HasSubstr("beyond the range of a double"));
  EXPECT_THAT(refusal_of("{\"a\": -1e999}"), HasSubstr("beyond the range of a double"));
}

TEST(RequestJson, ByteOrderMarkIsSkipped) {
  EXPECT_EQ(dump_json(parse_json("\xEF\xBB\xBF{}")), "{}");
}

TEST(RequestJson, BrokenUtf8AndLoneSurrogatesAreRefusedWithoutRepeatingThem) {
  for (const std::string bad :
       {"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xF0\x9F", "\\ud83d", "\\udc00", "\\ud83dx"}) {
    for (const auto& text : {"{\"a\":\"" + bad + "\"}", "{\"" + bad + "\":1}", "[\"x" + bad + "y\"]"}) {
      const auto message = refusal_of(text);
      EXPECT_EQ(message.find(bad[0] == '\\' ? "\xED" : bad), std::string::npos);
    }
  }
}

TEST(RequestJson, AnEscapedNulIsACharacterLikeAnyOther) {
  EXPECT_EQ(*parse_json(R"("a\u0000b")").string(), std::string("a\0b", 3));
}

TEST(RequestJson, ANulByteEndsNothing) {
  const std::string nul(1, '\0');
  for (const auto& text : {"{}" + nul, "{}" + nul + "{}", nul + "{}", "{" + nul + "}", "[1" + nul + "]",
                           "\"a" + nul + "\"", "{\"a\":1}" + nul + "\n", nul}) {
    EXPECT_THAT(refusal_of(text), HasSubstr("not valid JSON")) << text;
  }
  EXPECT_THAT(refusal_of("{}" + nul + "{}"), HasSubstr("at byte 3"));
}

TEST(RequestFields, IntegersMayBeWrittenAsNumbersWithoutFraction) {
  EXPECT_EQ(integral(parse_json("1.0")), 1);
  EXPECT_EQ(integral(parse_json("1e2")), 100);
  EXPECT_EQ(integral(parse_json("-0")), 0);
  EXPECT_EQ(integral(parse_json("-0.0")), 0);
  EXPECT_EQ(integral(parse_json("18446744073709551615")), INT64_MAX);
  EXPECT_EQ(integral(parse_json("1e30")), INT64_MAX);
  EXPECT_EQ(integral(parse_json("-1e30")), INT64_MIN);
  EXPECT_EQ(integral(parse_json("123456789012345678901234567890")), INT64_MAX);
  for (const auto* text : {"1.5", "\"1\"", "true", "null", "[1]", "{}"}) {
    EXPECT_EQ(integral(parse_json(text)), std::nullopt) << text;
  }
}

TEST(RequestFields, SayWhichFieldIsWrong) {
  const auto body = parse_json(R"({"a":{"b":"x","c":2}})");
  const auto inner = Fields(body, "").object("a");
  ASSERT_TRUE(inner);
  try {
    inner->integer("b");
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.param(), "a.b");
    EXPECT_STREQ(error.what(), "a.b: expected an integer, found a string");
  }
  try {
    inner->integer("c", 3, 9);
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_STREQ(error.what(), "a.c: expected an integer from 3 to 9, found 2");
  }
}

TEST(JsonText, WhatIsSentIsAlwaysValid) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  std::string out;
  append_json_string(out, all);
  const auto parsed = nlohmann::json::parse(out).get<std::string>();
  EXPECT_EQ(parsed.substr(0, 128), all.substr(0, 128));
  EXPECT_EQ(parsed.substr(128, 3), "\xEF\xBF\xBD");

  const std::string text = "\"quoted\" \\ /\b\f\n\r\t\x7F é 漢 😀 \xE2\x80\xA8";
  out.clear();
  append_json_string(out, text);
  EXPECT_EQ(nlohmann::json::parse(out).get<std::string>(), text);
}

TEST(JsonText, NumbersThatJsonLacks) {
  std::string out;
  append_json_float(out, -std::numeric_limits<float>::infinity(), "-9999.0");
  out += ' ';
  append_json_float(out, std::numeric_limits<float>::quiet_NaN(), "null");
  out += ' ';
  append_json_float(out, -11.931214F, "null");
  EXPECT_EQ(out, "-9999.0 null -11.931214");
}

}  // namespace
}  // namespace inferno::api
