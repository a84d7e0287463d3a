// Schemas as programs write them: zod's (third and fourth version) and pydantic's, literally.

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "grammar/fixture.hpp"

namespace inferno {
namespace {

using test::check_schemas;

TEST(ClientSchemas, NotOfEverythingIsFalse) {
  check_schemas({{R"({"anyOf":[{"anyOf":[{"not":{}},{"type":"string"}]},{"type":"null"}]})",
                  {R"("x")", "null"},
                  {"1", "{}"}},
                 {R"({"anyOf":[{"not":true},{"type":"null"}]})", {"null"}, {"1"}},
                 {R"({"type":"integer","not":false})", {"1"}, {"null"}},
                 {R"({"type":"integer","not":{"not":{"title":"t"}}})", {"1"}, {"null"}},
                 {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"not":{}}}})",
                  {"{}", R"({"a":null})"},
                  {R"({"b":1})", R"({"a":null,"b":null})"}},
                 {R"({"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":{"not":{}}})",
                  {R"({"a":null})"},
                  {R"({"a":null,"c":1})"}},
                 {R"({"type":"array","items":{"not":{"description":"none"}}})", {"[]"}, {"[1]"}},
                 {R"({"enum":[[1],[],["x"]],"items":{"not":{}}})", {"[]"}, {"[1]"}}});
}

TEST(ClientSchemas, FormatsBesidePatterns) {
  check_schemas(
      {{R"({"type":"string","format":"uuid","pattern":"^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}|00000000-0000-0000-0000-000000000000)$"})",
        {R"("123e4567-e89b-12d3-a456-426614174000")"},
        {R"("123e4567-e89b-92d3-a456-426614174000")", R"("x")"}},
       {R"({"type":"string","format":"email","pattern":"^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"})",
        {R"("a.b@example.com")", R"("o'n_1@a-b.co")"},
        {R"(".a@example.com")", R"("a..b@example.com")", R"("a.@example.com")", R"("a@b.c")",
         R"("a#b@example.com")"}},
       {R"({"type":"string","format":"ipv4","pattern":"^(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])\\.){3}(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])$"})",
        {R"("1.20.255.0")"},
        {R"("1.2.3.256")"}},
       {R"({"type":"string","format":"ipv6","pattern":"^(([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|::|([0-9a-fA-F]{1,4})?::([0-9a-fA-F]{1,4}:?){0,6})$"})",
        {R"("::")", R"("fe80::1:2")", R"("1:2:3:4:5:6:7:8")"},
        {R"("fe80::1:")", R"("1:2::3")"}},
       {R"({"type":"string","format":"date","pattern":"^(?:(?:\\d\\d[2468][048]|\\d\\d[13579][26]|\\d\\d0[48]|[02468][048]00|[13579][26]00)-02-29|\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|(?:02)-(?:0[1-9]|1\\d|2[0-8])))$"})",
        {R"("2024-02-29")"},
        {R"("2023-02-29")", R"("0000-01-01")"}},
       {R"({"type":"string","format":"date-time","pattern":"^\\d{4}-\\d\\d-\\d\\dT(?:(?:[01]\\d|2[0-3]):[0-5]\\d(?::[0-5]\\d(?:\\.\\d+)?)?(?:Z))$"})",
        {R"("2024-02-29T23:59:59.5Z")"},
        {R"("2024-02-29T23:59Z")", R"("2024-02-29T23:59:59+01:00")"}},
       // The pattern has no zone, the format needs one: the pattern decides.
       {R"({"type":"string","format":"time","pattern":"^(?:[01]\\d|2[0-3]):[0-5]\\d(?::[0-5]\\d(?:\\.\\d+)?)?$"})",
        {R"("23:59")", R"("23:59:59.5")"},
        {R"("23:59:59Z")", R"("24:00")"}},
       {R"({"type":"string","format":"duration","pattern":"^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+([.,]\\d+)?S)?)?)$"})",
        {R"("P1Y2M3DT4H")", R"("P4W")"},
        {R"("P")", R"("1D")"}},
       // Formats that nobody knows here, named beside what they are.
       {R"({"type":"string","format":"base64","contentEncoding":"base64","pattern":"^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$"})",
        {R"("")", R"("YQ==")"},
        {R"("YQ=")"}},
       {R"({"type":"string","format":"cuid","pattern":"^[cC][^\\s-]{8,}$"})",
        {R"("c12345678")"},
        {R"("c1")"}},
       {R"({"type":"string","format":"cuid","allOf":[{"type":"string","pattern":"^[cC][^\\s-]{8,}$"},{"type":"string","pattern":"^c.*"}]})",
        {R"("c12345678")"},
        {R"("C12345678")", R"("c1")"}},
       {R"({"allOf":[{"type":"string","format":"nanoid"},{"pattern":"^[a-z]{3}$"}]})",
        {R"("abc")"},
        {R"("ab")"}}});
}

TEST(ClientSchemas, SeveralPatternsHoldTogether) {
  check_schemas(
      {{R"({"type":"string","allOf":[{"type":"string","pattern":"^ab.*"},{"type":"string","pattern":".*yz$"}]})",
        {R"("abyz")", R"("ab yz")"},
        {R"("ab")", R"("yz")", R"("abz")"}},
       {R"({"type":"string","minLength":5,"maxLength":6,"allOf":[{"pattern":"^ab"},{"pattern":"yz$"}]})",
        {R"("ab-yz")", R"("ab--yz")"},
        {R"("abyz")", R"("ab---yz")"}},
       {R"({"allOf":[{"type":"string","pattern":"a"},{"pattern":"b"},{"pattern":"^[a-c]{3}$"}]})",
        {R"("abc")", R"("cba")", R"("bba")"},
        {R"("abca")", R"("bbb")", R"("ccc")"}},
       // Look-ahead at the beginning says the same.
       {R"~({"type":"string","pattern":"^(?=.*[a-z])(?=.*\\d)[a-z\\d]{4,}$"})~",
        {R"("abc1")", R"("1234x")"},
        {R"("abcd")", R"("1234")", R"("a1")"}},
       {R"~({"anyOf":[{"type":"number"},{"type":"string","pattern":"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"}]})~",
        {"1.5", R"("1.5")", R"("-.5")", R"("007")"},
        {R"("-")", R"("")", R"(".")", R"("+.")", R"("1e5")"}},
       {R"~({"type":"string","pattern":"^(?![|()]\\))[(|)a]{2}$"})~",
        {"\"a)\"", "\"|(\""},
        {"\"|)\"", "\"a\""}}});
}

TEST(ClientSchemas, NamesOfProperties) {
  check_schemas(
      {{R"({"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"number"}})",
        {"{}", R"({"any":1})"},
        {R"({"any":"x"})"}},
       {R"({"type":"object","propertyNames":{"type":"string","enum":["a","b"]},"additionalProperties":{"type":"number"},"required":["b"]})",
        {R"({"b":1})", R"({"a":1,"b":2})"},
        {"{}", R"({"a":1})", R"({"b":1,"c":2})"}},
       {R"({"type":"object","propertyNames":{"anyOf":[{"type":"string","enum":["a","b"]},{"not":{}}]},"additionalProperties":{"type":"number"}})",
        {"{}", R"({"a":1})", R"({"a":1,"b":2})"},
        {R"({"c":2})"}},
       {R"({"type":"object","propertyNames":{"pattern":"^x-"},"additionalProperties":{"type":"null"}})",
        {"{}", R"({"x-a":null})", R"({"x-a":null,"x-b":null})"},
        {R"({"a":null})", R"({"x-a":1})"}},
       {R"({"type":"object","propertyNames":{"minLength":2,"maxLength":3},"additionalProperties":true})",
        {"{}", R"({"ab":1,"abc":2})"},
        {R"({"a":1})", R"({"abcd":1})"}},
       {R"({"type":"object","properties":{"x":{"type":"null"},"y.y":{"const":1},"zz":{"const":2}},"propertyNames":{"pattern":"^[xy]"},"additionalProperties":{"const":3}})",
        {R"({"x":null,"y.y":1})", R"({"y.y":1,"yay":3})", R"({"xx":3})"},
        {R"({"zz":2})", R"({"y.y":3})", R"({"x":3})", R"({"a":3})"}},
       {R"({"enum":[{"a":1},{"b":1}],"propertyNames":{"const":"a"}})", {R"({"a":1})"}, {R"({"b":1})"}}});
}

TEST(ClientSchemas, NumbersOfProperties) {
  check_schemas(
      {{R"({"type":"object","additionalProperties":{"type":"integer"},"minProperties":1})",
        {R"({"a":1})", R"({"a":1,"b":2})"},
        {"{}", "{ }"}},
       {R"({"type":"object","additionalProperties":{"type":"integer"},"maxProperties":2})",
        {"{}", R"({"a":1})", R"({"a":1,"b":2})"},
        {R"({"a":1,"b":2,"c":3})"}},
       {R"({"type":"object","minProperties":1,"maxProperties":1})",
        {R"({"a":[{}]})"},
        {"{}", R"({"a":1,"b":2})"}},
       {R"({"type":"object","maxProperties":0})", {"{}"}, {R"({"a":1})"}},
       {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"additionalProperties":false,"minProperties":2})",
        {R"({"a":null,"c":null})", R"({"b":null,"c":null})", R"({"a":null,"b":null,"c":null})"},
        {"{}", R"({"c":null})", R"({"a":null})"}},
       {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"required":["c"],"additionalProperties":false,"maxProperties":2})",
        {R"({"c":null})", R"({"a":null,"c":null})", R"({"b":null,"c":null})"},
        {R"({"a":null})", R"({"a":null,"b":null,"c":null})"}},
       {R"({"type":"object","properties":{"a":{"type":"null"},"b":false},"additionalProperties":{"type":"integer"},"minProperties":2,"maxProperties":3})",
        {R"({"a":null,"x":1})", R"({"a":null,"x":1,"y":2})"},
        {R"({"a":null})", R"({"x":1})", R"({"x":1,"x":2})", R"({"a":null,"x":1,"y":2,"z":3})"}},
       {R"({"allOf":[{"type":"object","minProperties":1},{"maxProperties":2},{"minProperties":0}]})",
        {R"({"a":1})", R"({"a":1,"b":2})"},
        {"{}", R"({"a":1,"b":2,"c":3})"}}});
  // Nesting leaves room for what must still come.
  const auto deep = grammar::json_schema(
      R"({"type":"object","properties":{"a":{"$ref":"#"},"b":{"type":"null"}},"additionalProperties":false,"minProperties":1})");
  std::string text;
  for (int i = 0; i < 63; ++i) text += R"({"a":)";
  EXPECT_TRUE(test::accepts(deep, text + R"({"b":null})" + std::string(63, '}')));
  EXPECT_EQ(test::allowed_prefix(deep, text + R"({"a":)"), text.size() + 2);
}

TEST(ClientSchemas, UniqueItemsOfFewValues) {
  check_schemas(
      {{R"({"type":"array","uniqueItems":true,"items":{"enum":["a","b","ab"]}})",
        {"[]", R"(["a"])", R"(["ab", "b", "a"])", R"(["b","a"])"},
        {R"(["a","a"])", R"(["a","b","a"])", R"(["c"])", R"(["a","b","ab","a"])"}},
       {R"({"type":"array","uniqueItems":true,"items":{"anyOf":[{"type":"boolean"},{"type":"null"}]},"minItems":2,"maxItems":2})",
        {"[true,null]", "[false,true]"},
        {"[true]", "[null,null]", "[true,false,null]"}},
       {R"({"type":"array","uniqueItems":true,"items":{"enum":[1,1.0,2]}})",
        {"[1,2]", "[2,1]"},
        {"[1,1.0]", "[1,1]"}},
       {R"({"type":"array","uniqueItems":true,"items":{"$ref":"#/$defs/e"},"minItems":1,"$defs":{"e":{"const":"x"}}})",
        {R"(["x"])"},
        {"[]", R"(["x","x"])"}}});
}

TEST(ClientSchemas, BoundsOfAnyNumberOfDigits) {
  check_schemas(
      {{R"({"type":"number","minimum":0.30000000000000004})",
        {"0.3000000000000001", "1", "0.4"},
        {"0.3", "0.30", "0.3000000000000000"}},
       {R"({"type":"number","maximum":0.30000000000000004})",
        {"0.3", "0.3000000000000000"},
        {"0.3000000000000001", "0.4"}},
       {R"({"type":"number","minimum":1e-20})", {"0.0000000000000001", "1"}, {"0", "0.0", "-1"}},
       {R"({"type":"number","minimum":-1e-20,"maximum":1e-20})", {"0", "0.0"}, {"0.0000000000000001", "1"}},
       {R"({"type":"number","exclusiveMaximum":5e-324})", {"0", "-1"}, {"0.0000000000000001"}},
       {R"({"type":"integer","minimum":0.99999999999999999999,"maximum":3.00000000000000000001})",
        {"1", "3"},
        {"0", "4"}},
       {R"({"type":"number","maximum":-123456789.12345678901234567890})",
        {"-123456789.1234567890123457", "-123456790"},
        {"-123456789.1234567890123456", "-123456789"}},
       {R"({"type":"number","minimum":1e-999999999})", {"1"}, {"0"}},
       // What a reader of doubles takes for the bound itself is not beyond it.
       {R"({"type":"number","exclusiveMinimum":5})", {"5.000000000000001", "6"}, {"5", "5.0000000000000001"}},
       {R"({"type":"number","exclusiveMaximum":5})", {"4.999999999999999", "4"}, {"5", "4.9999999999999999"}},
       {R"({"type":"integer","exclusiveMaximum":5.0000000000000000001})", {"4"}, {"5"}},
       {R"({"enum":[0.3,0.30000000000000004,0.30000000000000005],"minimum":0.30000000000000004})",
        {"0.30000000000000004", "0.30000000000000005"},
        {"0.3"}}});
}

}  // namespace
}  // namespace inferno
