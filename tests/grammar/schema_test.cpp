// Which texts a schema allows, byte by byte.

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "grammar/fixture.hpp"

namespace inferno {
namespace {

using test::accepts;
using test::check_schemas;

TEST(Schema, Types) {
  check_schemas(
      {{R"({"type":"null"})", {"null"}, {"nul", "true", "nulll", " null", "null "}},
       {R"({"type":"boolean"})", {"true", "false"}, {"null", "True"}},
       {R"({"type":"integer"})",
        {"0", "7", "-7", "123456789012345678"},
        {"-0", "01", "1.0", "1e2", "1234567890123456789", "+1", "-", ""}},
       {R"({"type":"number"})",
        {"0", "-0", "0.5", "-1.25", "1e9", "1E+9", "1.5e-09", "1234567890123456"},
        {"01", ".5", "1.", "1e", "1e999", "12345678901234567", "--1", "NaN"}},
       {R"({"type":"string"})",
        {R"("")", R"("a\"b\\\/\b\f\n\r\t\u00e9")", "\"\xC3\xA9\xE2\x82\xAC\xF0\x9D\x84\x9E\"",
         R"("\ud834\udd1e")", "\"\x7F\""},
        {"\"\n\"", "\"\x1F\"", R"("\x")", R"("\u12g4")", R"("\ud834")", R"("\ud834\n")", R"("\ud834\ud834")",
         R"("\udd1e")", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xE0\x80\x80\"",
         "\"\xC3\"", "\"\x80\"", "\"\xF5\"", "a", "\""}},
       {R"({"type":["string","null"]})", {R"("x")", "null"}, {"1", "true"}},
       {"true",
        {"null", "[1,{\"a\":[]}]", R"({"b":{"c":"d"}})", "\"x\"", "-1.5", "false"},
        {"", "x", "[1,]"}},
       {"{}", {"null", "[]", "{}"}, {"nil"}}});
}

TEST(Schema, Objects) {
  check_schemas(
      {{R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"}},"required":["a"]})",
        {R"({"a":1})", R"({"a": 1, "b": null})", "{\n  \"a\": 1,\n  \"b\": null\n}", "{ \"a\": 1 }"},
        {R"({"b":null,"a":1})", R"({"b":null})", "{}", R"({"a":1,"c":2})", R"({"a":1,"a":1})", R"({"a":1,})",
         R"({"a" :1})", R"({"a":  1})", R"({"a":1 ,"b":null})", "{\n\n\"a\":1}", "{\t\"a\":1}",
         R"({"\u0061":1})"}},
       {R"({"properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["b"]})",
        {R"({"a":1,"b":2,"c":3})", R"({"b":2})", R"({"a":1,"b":2})", R"({"b":2,"c":3})"},
        {R"({"a":1,"c":3})", R"({"c":3})"}},
       {R"({"type":"object","additionalProperties":{"type":"integer"}})",
        {"{}", R"({"x":1,"y":2})", R"({"":0})", R"({"\"":0})", R"({"\n":0,"\u001f":1})"},
        {R"({"x":"y"})", R"({"x":1,})", R"({"\u0041":1})"}},
       {R"({"type":"object","properties":{"ab":{"type":"null"}},"additionalProperties":{"type":"integer"}})",
        {R"({"ab":null,"a":1,"abc":2,"b":3})", R"({"a":1})", R"({"ac":1})", R"({"":1})"},
        {R"({"ab":1})", R"({"a":1,"ab":null})", R"({"a":1,"ab":1})"}},
       {R"({"type":"object","required":["z"],"additionalProperties":{"type":"boolean"}})",
        {R"({"z":true})", R"({"z":true,"y":false})"},
        {"{}", R"({"y":true})", R"({"z":1})"}},
       {R"({"type":"object"})", {"{}", R"({"a":[{"b":null}]})"}, {"[]", "{"}},
       {R"({"type":"object","properties":{"q\"\\\n":{"const":1}},"required":["q\"\\\n"]})",
        {R"({"q\"\\\n":1})"},
        {R"({"q":1})"}},
       {R"({"type":"object","additionalProperties":false})", {"{}", "{ }", "{\n}"}, {R"({"a":1})"}},
       {R"({"type":"object","properties":{"a":false,"b":{"type":"null"}}})",
        {"{}", R"({"b":null})"},
        {R"({"a":1})"}},
       {R"({"type":"object","properties":{"a":{"type":"null"}},"required":["a"],"minProperties":1,"maxProperties":1})",
        {R"({"a":null})"},
        {"{}"}}});
}

TEST(Schema, Arrays) {
  check_schemas({{R"({"type":"array","items":{"type":"integer"}})",
                  {"[]", "[1]", "[1,2, 3]", "[\n  1,\n  2\n]", "[ 1 ]", "[ ]"},
                  {"[1,]", "[,1]", "[1 2]", "[null]", "[1", "[1  ]"}},
                 {R"({"type":"array","items":{"type":"null"},"minItems":2,"maxItems":3})",
                  {"[null,null]", "[null,null,null]"},
                  {"[]", "[null]", "[null,null,null,null]"}},
                 {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
                 {R"({"prefixItems":[{"const":1},{"const":2}]})", {"[]", "[1]", "[1,2]"}, {"[2]", "[1,2,3]"}},
                 {R"({"prefixItems":[{"const":1}],"items":{"type":"null"},"minItems":1})",
                  {"[1]", "[1,null]", "[1,null,null]"},
                  {"[]", "[null]", "[1,1]"}},
                 {R"({"prefixItems":[{"const":1}],"minItems":2})", {"[1,2]", "[1,\"x\",3]"}, {"[1]"}},
                 {R"({"items":[{"const":1}],"additionalItems":{"const":2}})", {"[1,2,2]", "[]"}, {"[1,1]"}},
                 {R"({"type":"array","items":false})", {"[]"}, {"[1]"}}});
}

TEST(Schema, StringsOfBoundedLength) {
  check_schemas({{R"({"type":"string","minLength":2,"maxLength":3})",
                  {R"("ab")", R"("abc")", "\"\xC3\xA9\xF0\x9D\x84\x9E\"", R"("\n\u00e9")",
                   R"("\ud834\udd1e\ud834\udd1e")"},
                  {R"("")", R"("a")", R"("abcd")", R"("\ud834\udd1e")"}},
                 {R"({"type":"string","maxLength":0})", {R"("")"}, {R"("a")"}},
                 {R"({"type":"string","pattern":"^[a-c]+$","minLength":2,"maxLength":4})",
                  {R"("ab")", R"("abca")"},
                  {R"("a")", R"("abcab")", R"("abd")"}},
                 {R"({"type":"string","pattern":"^(ab)*$","minLength":3})",
                  {R"("abab")", R"("ababab")"},
                  {R"("ab")", R"("")", R"("aba")"}},
                 {R"({"type":"string","pattern":"^(ab)*$","minLength":3,"maxLength":5})",
                  {R"("abab")"},
                  {R"("ababab")"}}});
  std::string text(2000, 'x');
  const auto compiled = grammar::json_schema(R"({"type":"string","maxLength":2000})");
  EXPECT_TRUE(accepts(compiled, "\"" + text + "\""));
  EXPECT_FALSE(accepts(compiled, "\"" + text + "x\""));
}

TEST(Schema, NumbersWithinBounds) {
  check_schemas(
      {{R"({"type":"integer","minimum":-5,"maximum":123})",
        {"-5", "-1", "0", "9", "99", "100", "123"},
        {"-6", "124", "-10", "200", "1000", "-0"}},
       {R"({"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":12})",
        {"10", "11"},
        {"9", "12", "1", "110"}},
       {R"({"type":"integer","minimum":1.5,"maximum":2.5})", {"2"}, {"1", "3"}},
       {R"({"type":"integer","multipleOf":7,"minimum":10,"maximum":30})",
        {"14", "21", "28"},
        {"7", "10", "35", "15"}},
       {R"({"type":"integer","minimum":1e3})", {"1000", "99999"}, {"999", "0", "-1"}},
       {R"({"type":"number","minimum":0.25,"maximum":1.5})",
        {"0.25", "0.250", "1", "1.0", "1.5", "0.3", "1.4999999999999999"},
        {"0.2", "0", "1.51", "2", "-1", "1e0", "0.24999"}},
       {R"({"type":"number","exclusiveMinimum":0})", {"0.1", "1", "0.0001"}, {"0", "-1", "0.0", "-0"}},
       // As the fourth draft has it.
       {R"({"type":"integer","minimum":3,"exclusiveMinimum":true,"maximum":6,"exclusiveMaximum":true})",
        {"4", "5"},
        {"3", "6"}},
       {R"({"type":"integer","minimum":3,"exclusiveMinimum":false,"maximum":4})", {"3", "4"}, {"2", "5"}},
       {R"({"enum":[1,2,3],"minimum":1,"exclusiveMinimum":true})", {"2", "3"}, {"1"}},
       {R"({"type":"integer","format":"int8"})", {"-128", "127", "0"}, {"-129", "128"}},
       {R"({"type":"integer","format":"int32","minimum":0})", {"2147483647"}, {"2147483648", "-1"}},
       {R"({"type":"integer","format":"int64"})", {"-123456789012345678"}, {"1.5"}},
       {R"({"type":"integer","format":"uint64"})", {"0", "123456789012345678"}, {"-1"}},
       {R"({"type":["integer","string"],"format":"int32"})", {"5", R"("x")"}, {"2147483648"}},
       {R"({"enum":[1,300],"type":"integer","format":"uint8"})", {"1"}, {"300"}},
       {R"({"type":"number","format":"double"})", {"1.5", "1e9"}, {R"("x")"}},
       {R"({"type":"integer","format":"unix-time"})", {"5"}, {R"("x")"}},
       {R"({"type":"string","nullable":true})", {R"("x")", "null"}, {"1"}},
       {R"({"type":"string","nullable":false})", {R"("x")"}, {"null"}},
       {R"({"type":"integer","nullable":true,"minimum":3})", {"3", "null"}, {"2"}},
       {R"({"type":"string","enum":["a"],"nullable":true})", {R"("a")"}, {"null"}},
       {R"({"nullable":true,"enum":[null,1]})", {"null", "1"}, {"2"}},
       {R"({"type":"number","maximum":-1})", {"-1", "-1.5", "-20"}, {"0", "-0.5", "1"}},
       {R"({"type":"number","multipleOf":0.01,"minimum":0,"maximum":2})",
        {"0", "0.01", "1.25", "2"},
        {"0.001", "2.01", "1.255"}},
       {R"({"type":"integer","minimum":-1e30,"maximum":1e30})", {"-123456789012345678", "0"}, {"1e3"}},
       {R"({"type":"number","minimum":3,"maximum":3})", {"3", "3.0"}, {"3.1", "4"}}});
}

TEST(Schema, EnumAndConst) {
  check_schemas(
      {{R"({"enum":["a","ab",1,12,true,null,{"x":[1,"y"]},[ ]]})",
        {R"("a")", R"("ab")", "1", "12", "true", "null", R"({"x": [1, "y"]})", "[]"},
        {R"("b")", R"("abc")", "123", "2", "false", R"({"x":[1]})", "[1]"}},
       {R"({"const":{"b":1,"a":"\u00e9\n"}})", {"{\"b\":1,\"a\":\"\xC3\xA9\\n\"}"}, {R"({"a":"x","b":1})"}},
       {R"({"type":"string","enum":["a",1,"bcd"],"maxLength":2})", {R"("a")"}, {"1", R"("bcd")"}},
       {R"({"type":"integer","enum":[1,2,3,10],"minimum":2})", {"2", "3", "10"}, {"1"}},
       {R"({"enum":[1.0,1e2],"type":"integer"})", {"1.0", "1e2"}, {"1", "100"}}});
}

TEST(Schema, Combinations) {
  check_schemas(
      {{R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})",
        {"12", R"("a")"},
        {R"("ab")", "null"}},
       {R"({"anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"properties":{"a":{"const":2},"b":{"const":3}},"required":["a","b"]}]})",
        {R"({"a":1})", R"({"a":2,"b":3})"},
        {R"({"a":2})", R"({"a":1,"b":3})"}},
       {R"({"type":"integer","anyOf":[{"minimum":10},{"maximum":-10}]})", {"10", "-10", "55"}, {"5", "-5"}},
       {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"minimum":3},"b":{"type":"null"}}}]})",
        {R"({"a":3})", R"({"a":3,"b":null})"},
        {R"({"a":2})", R"({"b":null})"}},
       {R"({"oneOf":[{"type":"string"},{"type":"null"}]})", {"null", R"("x")"}, {"1"}},
       {R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind","x"]},
                       {"type":"object","properties":{"kind":{"const":"b"},"y":{"type":"null"}},"required":["kind","y"]}]})",
        {R"({"kind":"a","x":1})", R"({"kind":"b","y":null})"},
        {R"({"kind":"a","y":null})", R"({"kind":"c"})"}},
       {R"({"anyOf":[{"const":1},{"const":1}]})", {"1"}, {"2"}},
       {R"({"$ref":"#/$defs/p","$defs":{"p":{"type":"integer"}},"maximum":3})", {"3"}, {"4", "null"}},
       {R"({"$ref":"#/%24defs/a~1b","$defs":{"a/b":{"const":0}}})", {"0"}, {"1"}}});
}

TEST(Schema, Recursion) {
  const std::string tree =
      R"({"$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["v","kids"],"additionalProperties":false}},"$ref":"#/$defs/node"})";
  check_schemas(
      {{tree,
        {R"({"v":1,"kids":[]})", R"({"v":1,"kids":[{"v":2,"kids":[{"v":3,"kids":[]}]},{"v":4,"kids":[]}]})"},
        {R"({"v":1})", R"({"v":1,"kids":[{}]})"}},
       {R"({"type":["object","null"],"properties":{"next":{"$ref":"#"}},"required":["next"]})",
        {"null", R"({"next":{"next":null}})"},
        {R"({"next":1})", "{}"}}});
  // Alternatives that stay open all the way down share what is above them.
  const auto ambiguous = grammar::json_schema(
      R"({"anyOf":[{"type":"null"},{"properties":{"n":{"$ref":"#"}},"required":["n"]},{"properties":{"n":{"$ref":"#"},"m":{"const":1}},"required":["n"]}]})");
  std::string deep = "null";
  for (int i = 0; i < 60; ++i) deep = R"({"n":)" + deep + (i % 2 == 0 ? "}" : R"(,"m":1})");
  EXPECT_TRUE(accepts(ambiguous, deep));
}

TEST(Schema, NestingEndsSoThatItCanBeClosed) {
  const auto any = grammar::json_object();
  const auto nested = [](int levels) {
    std::string text = "{}";
    for (int i = 1; i < levels; ++i) text = R"({"a":)" + text + "}";
    return text;
  };
  EXPECT_TRUE(accepts(any, nested(64)));
  EXPECT_FALSE(accepts(any, nested(65)));
  EXPECT_FALSE(accepts(any, "[]"));
  // Where three more levels are needed, none is begun that has no room for them.
  const auto needy = grammar::json_schema(
      R"({"type":"object","properties":{"more":{"$ref":"#"},"end":{"type":"array","items":{"type":"array","maxItems":0},"minItems":1}},"required":["end"]})");
  const std::string end = R"("end":[[]]})";
  const auto chain = [&](int levels) {
    std::string text;
    for (int i = 1; i < levels; ++i) text += R"({"more":)";
    text += "{" + end;
    for (int i = 1; i < levels; ++i) text += "," + end;
    return text;
  };
  EXPECT_TRUE(accepts(needy, chain(62)));
  EXPECT_EQ(test::allowed_prefix(needy, chain(63)), std::string(R"({"more":)").size() * 61 + 2);
}

TEST(Schema, SpaceIsBounded) {
  const auto any = grammar::json_object();
  EXPECT_EQ(test::allowed_prefix(any, "{  "), 2U);
  EXPECT_EQ(test::allowed_prefix(any, "{\n     "), 6U);  // four for one level
  EXPECT_EQ(test::allowed_prefix(any, "{\n\n"), 2U);
  EXPECT_EQ(test::allowed_prefix(any, "{\"a\":  "), 6U);
  EXPECT_EQ(test::allowed_prefix(any, "{\"a\":\n"), 5U);
  EXPECT_EQ(test::allowed_prefix(any, "{\"a\":{\n         "), 15U);
  EXPECT_EQ(test::allowed_prefix(any, " {"), 0U);
}

TEST(Schema, Formats) {
  check_schemas(
      {{R"({"type":"string","format":"date"})",
        {R"("2024-02-29")", R"("1999-12-31")", R"("2000-02-29")"},
        {R"("2023-02-29")", R"("1900-02-29")", R"("2024-13-01")", R"("2024-04-31")", R"("0000-01-01")",
         R"("24-1-1")"}},
       {R"({"type":"string","format":"time"})",
        {R"("23:59:59Z")", R"("00:00:00.5+02:00")"},
        {R"("24:00:00Z")", R"("1:2:3Z")"}},
       {R"({"type":"string","format":"date-time"})", {R"("2024-02-29T23:59:59Z")"}, {R"("2024-02-29")"}},
       {R"({"type":"string","format":"duration"})",
        {R"("P1D")", R"("PT5M")", R"("P1Y2M3DT4H5M6S")", R"("P4W")"},
        {R"("P")", R"("PT")", R"("P1DT")", R"("1D")"}},
       {R"({"type":"string","format":"uuid"})",
        {R"("123e4567-e89b-12d3-a456-426614174000")"},
        {R"("123e4567e89b12d3a456426614174000")"}},
       {R"({"type":"string","format":"ipv4"})",
        {R"("255.0.10.1")"},
        {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"}},
       {R"({"type":"string","format":"ipv6"})",
        {R"("::")", R"("::1")", R"("1::")", R"("1:2:3:4:5:6:7:8")", R"("1:2::7:8")", R"("1:2:3:4:5:6:7::")"},
        {R"("1:2:3")", R"("1::2::3")", R"(":1")", R"("1:2:3:4:5:6:7:8:9")"}},
       {R"({"type":"string","format":"hostname"})", {R"("a-b.example.com")"}, {R"("-a.com")", R"("a..b")"}},
       {R"({"type":"string","format":"email"})", {R"("a.b@example.com")"}, {R"("@x.com")", R"("a@b@c.de")"}},
       {R"({"type":"string","format":"password","minLength":2})", {R"("a\"b")"}, {R"("a")"}},
       {R"({"type":"string","format":"binary","pattern":"^a"})", {R"("ab")"}, {R"("b")"}},
       {R"({"type":"string","format":"byte"})",
        {R"("")", R"("YWI=")", R"("YQ==")", R"("YWJj")"},
        {R"("YWI")", R"("=")", R"("Y===")"}},
       {R"({"type":"string","format":"json-pointer"})", {R"("")", R"("/a~1b/0")"}, {R"("a")", R"("/~2")"}},
       {R"({"type":"string","format":"uri-reference"})",
        {R"("")", R"("/a/b?q=1#f")", R"("a/b:c")", R"("#f")", R"("?q")", R"("https://example.com/x")"},
        {R"("a b")", R"("a:b c")", R"("\\a")", R"("%zz")"}},
       {R"({"type":"string","format":"uri"})",
        {R"("https://example.com/a?b=c#d")"},
        {R"("example.com")", R"("http:// x")"}}});
}

TEST(Schema, KeysKeepTheirOrder) {
  const auto compiled = grammar::json_schema(
      R"({"type":"object","properties":{"zebra":{"type":"null"},"apple":{"type":"null"},"mango":{"type":"null"}},"required":["mango","apple","zebra"]})");
  EXPECT_TRUE(accepts(compiled, R"({"zebra":null,"apple":null,"mango":null})"));
  EXPECT_FALSE(accepts(compiled, R"({"apple":null,"mango":null,"zebra":null})"));
}

}  // namespace
}  // namespace inferno
