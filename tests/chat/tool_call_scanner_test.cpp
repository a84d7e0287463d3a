#include "chat/tool_call_scanner.hpp"

#include <gtest/gtest.h>
#include <string>

namespace inferno {
namespace {

TEST(ToolCallScanner, StopsBehindTheClosingBrace) {
  ToolCallScanner scanner;
  const std::string text = R"( {"name": "f", "arguments": {"a": {}}} rest)";
  EXPECT_EQ(scanner.push(text), text.find(" rest"));
  EXPECT_TRUE(scanner.is_whole());
  EXPECT_EQ(scanner.name(), "f");
  EXPECT_EQ(scanner.take_arguments(), R"({"a": {}})");
  EXPECT_EQ(scanner.take_arguments(), "");
}

TEST(ToolCallScanner, ArgumentsWaitForTheName) {
  ToolCallScanner scanner;
  scanner.push(R"({"arguments": {"a": 1}, )");
  EXPECT_EQ(scanner.take_arguments(), "");
  scanner.push(R"("name": "f")");
  EXPECT_EQ(scanner.take_arguments(), R"({"a": 1)");
  scanner.push("}");
  EXPECT_EQ(scanner.take_arguments(), "}");
}

TEST(ToolCallScanner, TheLastBraceWaitsForTheEndOfTheCall) {
  for (const auto* arguments : {R"({"a": {}})", "{}", R"({ })", R"("{\"a\": 1} ")"}) {
    ToolCallScanner scanner;
    scanner.push(R"({"name": "f", "arguments": )" + std::string(arguments));
    EXPECT_TRUE(scanner.has_begun());
    const auto taken = scanner.take_arguments();
    scanner.push(" ");
    EXPECT_EQ(scanner.take_arguments(), "");
    scanner.push(R"(, "x": 1})");
    ASSERT_TRUE(scanner.is_whole());
    const auto rest = scanner.take_arguments();
    EXPECT_EQ(rest[0], '}');
    EXPECT_EQ(taken + rest, arguments[0] == '"' ? R"({"a": 1} )" : arguments);
  }
}

TEST(ToolCallScanner, BreaksAtWhatIsNoCall) {
  for (const auto* text :
       {"x", "[", R"({"name": 5})", R"({"name" "f"})", R"({"name": "f", "arguments": {]}})", R"({"a": 1})",
        R"({5: 1})", R"({"name": "f" "g"})", "{}", R"({"name": ""})", R"({"name": "f", "parameters": {}})",
        R"({"name": "f", "arguments": null})", R"({"name": "f", "arguments": [)",
        R"({"name": "f", "arguments": "1"})"}) {
    ToolCallScanner scanner;
    scanner.push(text);
    EXPECT_TRUE(scanner.is_broken()) << text;
    EXPECT_FALSE(scanner.is_whole()) << text;
  }
}

TEST(ToolCallScanner, TakesAnyObjectAsArguments) {
  for (const auto* arguments : {"{}", R"({"a":-0.5e+3,"b":1E9,"c":12.25,"d":true,"e":false,"f":null})",
                                R"({"x":[{"a":[1,2.5,"x"]},[],{}]})", R"({ "a" : [ 1 , -2 ] , "b" : { } })",
                                R"({"\u00e9\"\\\/\b\f\n\r\t":"\ud83d\ude00"})", "{\n\t\"a\":\r\n1}"}) {
    for (const auto* rest : {"}", " }", ",\"x\":1}"}) {
      ToolCallScanner scanner;
      scanner.push(R"({"name": "f", "arguments": )" + std::string(arguments) + rest);
      EXPECT_TRUE(scanner.is_whole()) << arguments << rest;
      EXPECT_EQ(scanner.take_arguments(), arguments);
    }
  }
}

TEST(ToolCallScanner, NestingIsLimited) {
  ToolCallScanner scanner;
  scanner.push(R"({"name": "f", "arguments": {"a": )");
  scanner.push(std::string(100000, '['));
  EXPECT_TRUE(scanner.is_broken());
}

}  // namespace
}  // namespace inferno
