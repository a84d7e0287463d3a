// What cannot be followed is refused with its place, soon, and with little memory.

#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "grammar/fixture.hpp"
#include "support/child.hpp"

namespace inferno {
namespace {

using test::refusal_of;

TEST(Refusal, NamesThePlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"type":"object","properties":{"a":{"type":"string","pattern":"^+[a-z]$"}}})",
       "/properties/a/pattern: an anchor that is repeated"},
      {R"({"$ref":"#"})", ": it refers back to itself"},
      {R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"})",
       "/$defs/a: it refers back to itself"},
      {R"({"properties":{"a":{"$ref":"#/$defs/none"}}})",
       "/properties/a/$ref: \"#/$defs/none\" leads nowhere"},
      {R"({"properties":{"a":{"$ref":"http://example.com/s.json"}}})",
       "/properties/a/$ref: \"http://example.com/s.json\" leads out of the schema"},
      {R"({"$ref":"#name"})", "/$ref: \"#name\" leads nowhere"},
      {R"({"$ref":7})", "/$ref: expected a string, found a number"},
      {R"({"type":"array","minItems":1000000000})",
       "/minItems: at least 1000000000: no answer can be that long"},
      {R"({"type":"string","minLength":1e99})", "/minLength: at least"},
      {R"({"items":{"surprise":1}})", "/items/surprise: unknown keyword \"surprise\"; supported are type"},
      {R"({"type":"strnig"})", "/type: \"strnig\" is no type; expected null, boolean, integer"},
      {R"({"properties":{"a/b":{"type":["string",3]}}})",
       "/properties/a~1b/type/1: expected a type's name, found a number"},
      {R"({"not":{"type":"string"}})", "/not: the keyword not is not supported"},
      {R"({"patternProperties":{"a":{}}})",
       "/patternProperties: the keyword patternProperties is not supported"},
      {R"({"if":{}})", "/if: the keyword if is not supported"},
      {R"({"type":"array","uniqueItems":true})", "/uniqueItems: unique items are supported only of"},
      {R"({"type":"string","format":"regex"})",
       "/format: the format \"regex\" is not supported; supported are date"},
      {R"({"type":"string","format":"int32"})", "/format: the format \"int32\" is not supported"},
      {R"({"format":"double"})", "/format: the format \"double\" is not supported"},
      {R"({"type":"integer","format":5})", "/format: expected a format's name, found a number"},
      {R"({"type":"integer","format":"uint8","minimum":300})", "/format: no integer matches this"},
      {R"({"type":"string","nullable":"yes"})", "/nullable: expected true or false, found a string"},
      {R"({"type":"integer","exclusiveMinimum":"3"})",
       "/exclusiveMinimum: expected a number, found a string"},
      {R"({"type":"string","minLength":5,"maxLength":3})", "/minLength: at least 5 and at most 3"},
      {R"({"type":"string","minLength":-1})", "/minLength: expected a whole number from 0 on"},
      {R"({"type":"string","minLength":1.5})", "/minLength: expected a whole number from 0 on"},
      {R"({"type":"integer","minimum":3,"maximum":2})", "/maximum: no integer matches this"},
      {R"({"type":"integer","minimum":1.2,"maximum":1.8})", "/maximum: no integer matches this"},
      {R"({"type":"number","minimum":1e40})", "/minimum: expected a bound below 10^18"},
      {R"({"type":"number","multipleOf":1e-40})",
       "/multipleOf: expected a number below 10^18 with at most 16"},
      {R"({"type":"number","minimum":0.30000000000000001,"maximum":0.30000000000000009})",
       "/maximum: no number matches this"},
      {R"({"type":"integer","multipleOf":0})", "/multipleOf: expected a number above 0"},
      {R"~({"type":"string","pattern":"a(?=b)"})~", "/pattern: look-ahead, which is not supported"},
      {R"~({"type":"string","pattern":"(?<!a)b"})~", "/pattern: look-behind, which is not supported"},
      {R"({"type":"string","pattern":"(a)\\1"})", "/pattern: a backreference, which is not supported"},
      {R"({"type":"string","pattern":"\\bfoo"})", "/pattern: a word boundary, which is not supported"},
      {R"({"type":"string","pattern":"\\p{L}"})", "/pattern: a Unicode property, which is not supported"},
      {R"({"type":"string","pattern":"(a"})", "/pattern: a group that does not end"},
      {R"~({"type":"string","pattern":"a)"})~", "/pattern: \")\" without \"(\""},
      {R"({"type":"string","pattern":"[b-a]"})", "/pattern: a range whose ends are out of order"},
      {R"({"type":"string","pattern":"a{3,2}"})", "/pattern: {3,2}: the numbers are out of order"},
      {R"({"type":"string","pattern":"$a"})", "/pattern: no text matches the pattern"},
      {R"({"type":"string","pattern":"^a{3}$","maxLength":2})", "/pattern: no text of that length"},
      {R"({"allOf":[{"type":"string","pattern":"^a"},{"pattern":"^b"}]})",
       "/allOf/1/pattern: no text matches this and what /allOf/0/pattern asks for"},
      {R"({"allOf":[{"type":"string","format":"date"},{"format":"uuid"}]})",
       "/allOf/1/format: no text matches this and what /allOf/0/format asks for"},
      {R"({"allOf":[{"type":"string","format":"nanoid"},{"minLength":3}]})",
       "/allOf/0/format: the format \"nanoid\" is not supported"},
      {R"~({"type":"string","pattern":"^(?=a)b|c"})~", "/pattern: look-ahead, which is not supported"},
      {R"~({"type":"string","pattern":"^(?=a)*b"})~", "/pattern: look-ahead, which is not supported"},
      {R"~({"type":"string","pattern":"^(?=a)b"})~", "/pattern: no text matches the pattern"},
      {R"~({"type":"string","pattern":"^(?=a"})~", "/pattern: look-ahead, which is not supported"},
      {R"({"enum":[]})", "/enum: an empty list"},
      {R"({"anyOf":[]})", "/anyOf: an empty list"},
      {R"({"anyOf":{"type":"string"}})", "/anyOf: expected a list of schemas, found an object"},
      {R"({"properties":[1]})", "/properties: expected an object with schemas, found an array"},
      {R"({"properties":{"a":1}})", "/properties/a: expected a schema"},
      {R"({"required":"a"})", "/required: expected a list of strings, found a string"},
      {R"({"required":[1]})", "/required/0: expected a string, found a number"},
      {R"({"additionalProperties":"no"})", "/additionalProperties: expected a schema"},
      {R"({"type":"object","properties":{"a":{}},"additionalProperties":false,"required":["b"]})",
       "/additionalProperties: a value must be here, but nothing matches"},
      {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
       "/properties/a: every value contains another one without end"},
      {R"({"properties":{"x":{"type":"string","enum":[1,2]}}})", "/properties/x: no value matches this"},
      {R"({"allOf":[{"type":"string"},{"type":"integer"}]})", ": no value matches this"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})",
       "/oneOf: alternatives 0 and 1 may hold together"},
      {R"({"oneOf":[{"minLength":2},{"type":"integer"}]})", "/oneOf: alternatives 0 and 1 may hold together"},
      {R"({"oneOf":[{"properties":{"a":{"const":1}}},{"properties":{"a":{"const":2}}}]})",
       "/oneOf: alternatives 0 and 1 may hold together"},
      {R"({"type":"object","minProperties":2})",
       "/minProperties: supported only up to the number of declared properties and one more, 1"},
      {R"({"type":"object","properties":{"a":true},"additionalProperties":false,"minProperties":2})",
       "/minProperties: supported only up to the number of declared properties, 1"},
      {R"({"type":"object","minProperties":3,"maxProperties":2})",
       "/minProperties: at least 3 and at most 2"},
      {R"({"type":"object","required":["a","b"],"maxProperties":1})",
       "/maxProperties: at most 1, but 2 properties are required"},
      {R"({"type":"object","propertyNames":5})", "/propertyNames: expected a schema"},
      {R"({"type":"object","propertyNames":{"anyOf":[{"pattern":"^a"},{"pattern":"^b"}]}})",
       "/propertyNames: alternatives of names are not supported"},
      {R"({"type":"object","propertyNames":{"minLength":3},"required":["ab"]})",
       ": a value must be here, but nothing matches"},
      {R"({"type":"array","uniqueItems":true,"items":{"type":"string"}})", "/uniqueItems: unique items are"},
      {R"({"type":"array","uniqueItems":true,"items":{"enum":[1,1.0]},"minItems":2})",
       "/uniqueItems: there are only 1 different items, at least 2"},
      {R"({"not":{}})", ": a value must be here, but nothing matches"},
      {R"({"not":{"not":{"type":"string"}}})", "/not: the keyword not is not supported"},
      {R"({"properties":{"a":{"$id":"x"}}})", "/properties/a/$id: $id is supported only at the top"},
      {"false", ": a value must be here, but nothing matches"},
      {"[]", ": expected a schema (an object, true or false), found an array"},
      {"7", ": expected a schema"},
      {"", ": expected JSON, found"},
      {std::string("true\0", 5), ": expected JSON, found \"\\x00\" at byte 5"},
      {"{\"type\":", ": expected JSON, found"},
      {R"({"properties":{"a":{"type":"null","type":"string"}}})",
       "/properties/a: the key \"type\" stands here twice"},
  };
  for (const auto& [schema, expected] : cases) {
    const auto found = refusal_of(schema);
    EXPECT_EQ(found.substr(0, expected.size()), expected) << schema << "\n  " << found;
  }
}

TEST(Refusal, AnnotationsAreNone) {
  EXPECT_EQ(
      refusal_of(
          R"({"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"x","title":"t","description":"d",
      "default":1,"examples":[1],"deprecated":true,"readOnly":false,"$comment":"c","type":"integer",
      "definitions":{"unused":{"strange":1}}})"),
      "");
}

/// Compiles, or is refused, within five seconds and 192 MiB.
void expect_bounded(const std::string& schema, const std::string& what) {
  const auto result = test::run_in_child([&] { grammar::json_schema(schema); }, std::size_t{192} << 20U);
  EXPECT_TRUE(result.outcome == test::Outcome::returned || result.outcome == test::Outcome::threw_error)
      << what << ": " << result.message;
  EXPECT_LT(result.seconds, 5.0) << what << ": " << result.message;
  EXPECT_LT(result.peak_growth, std::size_t{192} << 20U) << what;
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(Refusal, HostileSchemasAreBounded) {
  expect_bounded(R"({"pattern":")" + repeated("(", 10'000) + repeated(")", 10'000) + R"("})", "parentheses");
  expect_bounded(R"({"pattern":"^(a|b)*a(a|b){18}$"})", "many states");
  expect_bounded(R"~({"pattern":"((((((((a{99}){99}){99}){99}){99}){99}){99}){99})"})~", "nested counts");
  expect_bounded(R"({"pattern":"(((((a*)*)*)*)*)*b"})", "nested stars");
  expect_bounded(R"({"pattern":"(x?){5000}(x?){5000}"})", "many optional parts");
  expect_bounded(R"({"pattern":"^.{0,9000}$","maxLength":8000})", "long counts");
  expect_bounded(R"({"pattern":")" + repeated("[a-z]|", 5000) + R"(x"})", "alternatives");
  expect_bounded(R"({"type":"string","maxLength":2000})", "maxLength");
  expect_bounded(repeated(R"({"items":)", 100'000) + "true" + repeated("}", 100'000), "depth");
  expect_bounded(repeated(R"({"items":)", 100) + "true" + repeated("}", 100), "nesting that can be left out");
  expect_bounded(repeated(R"({"type":"array","minItems":1,"items":)", 100) + "true" + repeated("}", 100),
                 "nesting");
  std::string many = R"({"enum":[)";
  for (int i = 0; i < 50'000; ++i) many += (i == 0 ? "\"value " : ",\"value ") + std::to_string(i) + "\"";
  expect_bounded(many + "]}", "enum");
  expect_bounded(many + R"(],"pattern":"7$"})", "enum with a pattern");
  std::string properties = R"({"type":"object","properties":{)";
  for (int i = 0; i < 20'000; ++i)
    properties += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + R"(":{"type":"null"})";
  expect_bounded(properties + "}}", "properties");
  expect_bounded(properties + R"(},"minProperties":9000,"maxProperties":11000})",
                 "properties that are counted");
  expect_bounded(properties + R"(},"additionalProperties":true,"propertyNames":{"pattern":"^p"}})",
                 "properties with a rule for names");
  std::string together = R"({"type":"string","allOf":[)";
  for (int i = 0; i < 40; ++i)
    together +=
        std::string(i == 0 ? "" : ",") + R"({"pattern":"(a|b)*a(a|b){)" + std::to_string(i) + R"(}"})";
  expect_bounded(together + "]}", "patterns together");
  expect_bounded(R"({"pattern":"^)" + repeated("(?!.*a.{9}b)", 16) + R"(c"})", "look-ahead");
  std::string product = R"({"allOf":[)";
  for (int i = 0; i < 30; ++i)
    product += std::string(i == 0 ? "" : ",") + R"({"anyOf":[{"minimum":1},{"maximum":5}]})";
  expect_bounded(product + "]}", "product of alternatives");
  std::string chain = R"({"$ref":"#/$defs/d0","$defs":{"d9999":{"type":"null"})";
  for (int i = 0; i < 9999; ++i)
    chain += ",\"d" + std::to_string(i) + R"(":{"$ref":"#/$defs/d)" + std::to_string(i + 1) + "\"}";
  expect_bounded(chain + "}}", "chain of references");
  std::string doubling = R"({"$ref":"#/$defs/d0","$defs":{"d40":{"type":"null"})";
  for (int i = 0; i < 40; ++i) {
    const auto next = R"({"$ref":"#/$defs/d)" + std::to_string(i + 1) + "\"}";
    doubling += ",\"d" + std::to_string(i) + R"(":{"anyOf":[)" + next + "," + next + "]}";
  }
  expect_bounded(doubling + "}}", "doubling references");
  std::string one_of = R"({"oneOf":[)";
  for (int i = 0; i < 900; ++i)
    one_of += std::string(i == 0 ? "" : ",") + R"({"const":)" + std::to_string(i) + "}";
  expect_bounded(one_of + "]}", "oneOf");
  expect_bounded(R"({"type":"string","description":")" + std::string(std::size_t{5} << 20U, 'x') + "\"}",
                 "size");
}

TEST(Refusal, WhatFieldReportsName) {
  EXPECT_EQ(refusal_of(R"({"type":"string","maxLength":2000})"), "");
  std::string many = R"({"enum":[)";
  for (int i = 0; i < 50'000; ++i) many += (i == 0 ? "\"value " : ",\"value ") + std::to_string(i) + "\"";
  const auto compiled = grammar::json_schema(many + "]}");
  EXPECT_TRUE(test::accepts(compiled, R"("value 49999")"));
  EXPECT_FALSE(test::accepts(compiled, R"("value 50000")"));
  const auto deep = R"({"pattern":")" + repeated("(", 10'000) + repeated(")", 10'000) + R"("})";
  EXPECT_EQ(refusal_of(deep).substr(0, 9), "/pattern:");
}

std::string list_of(int count, const std::function<std::string(int)>& item) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    out += item(i);
  }
  return out;
}

std::string pattern(int i) {
  return R"({"type":"string","pattern":"^[^,]*,{)" + std::to_string(i + 1) + R"(}$"})";
}

/// Of a property `name` that is `value`; it must be there.
std::string object_of(const std::string& name, const std::string& value) {
  return R"({"type":"object","properties":{")" + name + R"(":)" + value + R"(},"required":[")" + name +
         R"("],"additionalProperties":false})";
}

TEST(Refusal, TooManyWaysAtOnce) {
  const auto patterns = R"({"anyOf":[)" + list_of(200, pattern) + "]}";
  const std::string too_many = ": here more than 40 patterns can be open at once";
  EXPECT_EQ(refusal_of(patterns).substr(0, too_many.size()), too_many);
  const auto begins_with = [](const std::string& found, const std::string& expected) {
    return found.substr(0, expected.size()) == expected ? "" : found + " instead of " + expected;
  };
  EXPECT_EQ(begins_with(refusal_of(object_of("x", patterns)), "/properties/x" + too_many), "");
  // Also below a name that comes early or late, behind others.
  for (const auto* const name : {"b", "z"}) {
    EXPECT_EQ(begins_with(refusal_of(R"({"properties":{"m":{"type":"string"},")" + std::string(name) +
                                     R"(":)" + patterns + R"(,"n":{"type":"null"}}})"),
                          "/properties/" + std::string(name) + too_many),
              "");
  }
  // One in each alternative, which only their ends tell apart.
  const auto spread = list_of(100, [](int i) { return object_of("v", pattern(i)); });
  EXPECT_EQ(begins_with(refusal_of(R"({"anyOf":[)" + spread + "]}"), "/anyOf/0/properties/v" + too_many), "");
  // Alternatives that are told apart before are no crowd.
  const auto told_apart = list_of(100, [](int i) {
    return R"({"properties":{"kind":{"const":"k)" + std::to_string(i) + R"("},"v":)" + pattern(i) +
           R"(},"required":["kind","v"]})";
  });
  EXPECT_EQ(refusal_of(R"({"anyOf":[)" + told_apart + "]}"), "");
  EXPECT_EQ(refusal_of(R"({"anyOf":[)" + list_of(40, pattern) + "]}"), "");

  const auto product = list_of(100, [](int i) {
    return object_of("a", R"({"anyOf":[)" + list_of(50, [i](int j) {
                            return object_of("b", R"({"maxLength":)" + std::to_string(i * 50 + j) + "}");
                          }) + "]}");
  });
  EXPECT_EQ(begins_with(refusal_of(R"({"anyOf":[)" + product + "]}"),
                        "/anyOf/0/properties/a: here more than 4096 ways to go on can be open at once"),
            "");
  expect_bounded(R"({"anyOf":[)" + product + "]}", "product of ways");
  expect_bounded(R"({"anyOf":[)" + spread + "]}", "patterns of ways");
}

TEST(Refusal, PathsAreOneLineWhateverTheKey) {
  EXPECT_EQ(test::refusal_of(R"({"a\nb\u007f%":1})").substr(0, 14), "/a%0Ab%7F%25: ");
  EXPECT_EQ(test::refusal_of(R"({"properties":{"\r~/":{"type":"int"}}})").substr(0, 25),
            "/properties/%0D~0~1/type:");
}

TEST(Refusal, Tools) {
  const std::vector<grammar::ToolSpec> many(1001, {"f", ""});
  EXPECT_THROW(grammar::tool_calls(many, false), UsageError);
  EXPECT_THROW(grammar::tool_calls({}, false), UsageError);
  const std::vector<grammar::ToolSpec> tools = {{"good", ""},
                                                {"bad", R"({"properties":{"x":{"type":"int"}}})"}};
  try {
    grammar::tool_calls(tools, false);
    FAIL() << "no error";
  } catch (const grammar::SchemaError& error) {
    EXPECT_EQ(error.document(), 1U);
    EXPECT_EQ(error.path(), "/properties/x/type");
  }
  const std::vector<grammar::ToolSpec> text = {{"f", R"({"type":"string"})"}};
  EXPECT_THROW(grammar::tool_calls(text, false), grammar::SchemaError);
}

}  // namespace
}  // namespace inferno
