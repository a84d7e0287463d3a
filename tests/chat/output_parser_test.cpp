// Thoughts, answer and tool calls out of a model's output, however it is cut into pieces.

#include "chat/output_parser.hpp"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace inferno {
namespace {

struct Call {
  std::string name, arguments;
  bool whole = false;
  bool operator==(const Call&) const = default;
};

struct Answer {
  std::string reasoning, content;
  std::vector<Call> calls;
  bool operator==(const Answer&) const = default;
};

void PrintTo(const Answer& answer, std::ostream* out) {
  *out << "reasoning \"" << answer.reasoning << "\", content \"" << answer.content << "\"";
  for (const auto& call : answer.calls)
    *out << ", call " << call.name << " " << call.arguments << " " << call.whole;
}

void add(Answer& answer, const OutputDelta& delta) {
  answer.reasoning += delta.reasoning;
  answer.content += delta.content;
  for (const auto& call : delta.calls) {
    if (call.begins) {
      EXPECT_EQ(call.index, answer.calls.size());
      EXPECT_FALSE(call.name.empty());
      answer.calls.push_back({call.name, "", false});
    } else {
      EXPECT_TRUE(call.name.empty());
    }
    ASSERT_LT(call.index, answer.calls.size());
    EXPECT_FALSE(answer.calls[call.index].whole);
    answer.calls[call.index].arguments += call.arguments;
    answer.calls[call.index].whole = call.ends;
  }
}

Answer parse(const std::vector<std::string>& pieces, const OutputParserOptions& options) {
  OutputParser parser(options);
  Answer answer;
  for (const auto& piece : pieces) add(answer, parser.push(piece));
  add(answer, parser.finish());
  EXPECT_EQ(parser.calls(), answer.calls.size());
  return answer;
}

/// The same for the whole text, for every cut into two and three, and for single bytes.
void expect_answer(const std::string& text, const Answer& expected,
                   OutputParserOptions options = {.tool_calls = true}) {
  EXPECT_EQ(parse({text}, options), expected) << text;
  for (std::size_t first = 0; first <= text.size(); ++first) {
    const auto rest = text.substr(first);
    EXPECT_EQ(parse({text.substr(0, first), rest}, options), expected) << text << " cut at " << first;
    for (std::size_t second = 0; second <= rest.size() && text.size() < 120; ++second) {
      EXPECT_EQ(parse({text.substr(0, first), rest.substr(0, second), rest.substr(second)}, options),
                expected);
    }
  }
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  EXPECT_EQ(parse(bytes, options), expected) << text;
}

TEST(OutputParser, PlainAnswer) {
  expect_answer("", {});
  expect_answer("ok", {"", "ok", {}});
  expect_answer("  two lines\n\nend \n", {"", "  two lines\n\nend \n", {}});
  expect_answer("a < b <think", {"", "a < b <think", {}});
  expect_answer("<thin", {"", "<thin", {}});
  expect_answer("<tool_call", {"", "<tool_call", {}});
}

TEST(OutputParser, ThoughtsAtTheBeginning) {
  expect_answer("<think>hi</think>\n\nok", {"hi", "ok", {}});
  expect_answer("<think>\nhi\n\nthere\n</think>\n\nok\n", {"hi\n\nthere", "ok\n", {}});
  expect_answer("\n<think>\n\n</think>\n\nok", {"", "ok", {}});
  expect_answer("<think>a < b </thin k></think>", {"a < b </thin k>", "", {}});
  expect_answer("<think>one</think>two</think>", {"one", "two", {}});
}

TEST(OutputParser, ThoughtsThatBeginAgain) {
  expect_answer("<think></think><think>b</think>c", {"b", "c", {}});
  expect_answer("<think>a</think>\n\n<think>b\n</think>\n\nc", {"a\n\nb", "c", {}});
  expect_answer("<think>a</think>\nok\n<think> b", {"a\n\nb", "ok", {}});
  expect_answer("x <think>y</think> z", {"y", "x z", {}});
  // Without tools nothing waits for a call.
  expect_answer("x <think>y</think> z", {"y", "x z", {}}, {});
  expect_answer(R"(ok <think>hm</think> <tool_call>{"name":"f"}</tool_call>)",
                {"hm", "ok", {{"f", "{}", true}}});
  expect_answer(R"(ok <think><tool_call>{"name":"f"}</tool_call></think>)",
                {R"(<tool_call>{"name":"f"}</tool_call>)", "ok", {}});
}

TEST(OutputParser, TagsThatMeanNothingAreDropped) {
  expect_answer("<think>a<think>b</think>c", {"ab", "c", {}});
  expect_answer("a</think>hello", {"", "ahello", {}});
  expect_answer("</think>hello", {"", "hello", {}});
  expect_answer("a </think> b", {"", "a  b", {}}, {});
  expect_answer("hello</tool_call>you", {"", "helloyou", {}});
  expect_answer("hello\n</tool_call>\nyou", {"", "hello\n\nyou", {}});
  expect_answer("<think>a <think>", {"a", "", {}});
  const OutputParserOptions options{.begins_in_reasoning = true, .tool_calls = true};
  expect_answer("<think>\nhi</think>ok", {"hi", "ok", {}}, options);
}

TEST(OutputParser, AnAnswerWithAFormHasNoTags) {
  const OutputParserOptions options{.plain_content = true};
  expect_answer(R"(<think>hm</think>{"a":"<think>b</think>"})", {"hm", R"({"a":"<think>b</think>"})", {}},
                options);
  expect_answer(R"({"a":"</think>"})", {"", R"({"a":"</think>"})", {}}, options);
}

TEST(OutputParser, AnAnswerWithAFormOrCalls) {
  const OutputParserOptions options{.plain_content = true, .tool_calls = true};
  expect_answer(R"({"a":"<tool_call>{}</tool_call> </think>"})",
                {"", R"({"a":"<tool_call>{}</tool_call> </think>"})", {}}, options);
  expect_answer(R"(<think>a</think><tool_call>{"name":"f"}</tool_call>)", {"a", "", {{"f", "{}", true}}},
                options);
}

TEST(OutputParser, ThoughtsThatAreCutOff) {
  expect_answer("<think>hi", {"hi", "", {}});
  expect_answer("<think>", {});
  expect_answer("<think>hi\n\n", {"hi", "", {}});
  expect_answer("<think>hi</think>", {"hi", "", {}});
}

TEST(OutputParser, ThoughtsThatThePromptBegan) {
  const OutputParserOptions options{.begins_in_reasoning = true, .tool_calls = true};
  expect_answer("hi</think>ok", {"hi", "ok", {}}, options);
  expect_answer("\nhi", {"hi", "", {}}, options);
}

TEST(OutputParser, WithoutReasoningTagsAreText) {
  expect_answer("<think>hi</think>\n\nok", {"", "<think>hi</think>\n\nok", {}}, {.reasoning = false});
}

TEST(OutputParser, OneCall) {
  expect_answer("<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":1}</tool_call>",
                {"", "{\"name\":\"f\",\"arguments\":{\"x\":1}", {{"f", "{\"x\":1", false}}});
  expect_answer("<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":1}}</tool_call>",
                {"", "", {{"f", "{\"x\":1}", true}}});
  expect_answer("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>",
                {"", "", {{"f", "{\"x\": 1}", true}}});
}

TEST(OutputParser, TextAroundCalls) {
  expect_answer(
      "Let me see.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
      "{\"name\": \"g\", \"arguments\": {\"a\": []}}\n</tool_call>\n",
      {"", "Let me see.", {{"f", "{}", true}, {"g", "{\"a\": []}", true}}});
  expect_answer("<tool_call>{\"name\": \"f\"}</tool_call> and more", {"", "and more", {{"f", "{}", true}}});
}

TEST(OutputParser, ThoughtsThenACall) {
  expect_answer("<think>\nhm\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
                {"hm", "", {{"f", "{}", true}}});
}

TEST(OutputParser, ACallDraftedInThoughtsIsNoCall) {
  expect_answer("<think><tool_call>{\"name\":\"f\",\"arguments\":{\"x\":1}}</tool_call></think>\n\nok",
                {"<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":1}}</tool_call>", "ok", {}});
}

TEST(OutputParser, ArgumentsMayHoldWhateverStringsHold) {
  expect_answer(R"(<tool_call>{"name": "f", "arguments": {"a": "</tool_call> \" } { \\"}}</tool_call>)",
                {"", "", {{"f", R"({"a": "</tool_call> \" } { \\"})", true}}});
  expect_answer(R"(<tool_call>{"arguments": {"a": "b"}, "name": "f"}</tool_call>)",
                {"", "", {{"f", R"({"a": "b"})", true}}});
  expect_answer(R"(<tool_call>{"name": "f", "arguments": "{\"x\": \"\u00e9\"}"}</tool_call>)",
                {"", "", {{"f", R"({"x": "é"})", true}}});
  expect_answer(
      R"(<tool_call>{"id": 5, "name": "f\u0021", "arguments": {}, "x": [1, {"name": "g"}]}</tool_call>)",
      {"", "", {{"f!", "{}", true}}});
}

TEST(OutputParser, EveryCutCallIsNotWhole) {
  const std::string text = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, \"}\"]}}\n</tool_call>";
  const auto whole_from = text.find("}}") + 2;
  for (std::size_t size = 11; size < text.size(); ++size) {
    const auto answer = parse({text.substr(0, size)}, {.tool_calls = true});
    EXPECT_EQ(answer.content, "") << size;
    if (!answer.calls.empty()) {
      EXPECT_EQ(answer.calls[0].whole, size >= whole_from) << size;
    }
  }
}

TEST(OutputParser, BrokenCallsAreContentWithoutTags) {
  expect_answer("<tool_call>\nnothing\n</tool_call>\nok", {"", "nothing\nok", {}});
  expect_answer("<tool_call></tool_call>ok", {"", "ok", {}});
  expect_answer("<tool_call>{\"arguments\": {}}</tool_call>", {"", "{\"arguments\": {}}", {}});
  expect_answer("<tool_call>[1]</tool_call>", {"", "[1]", {}});
  expect_answer("<tool_call>{\"name\": \"f\", \"arguments\": {]}</tool_call>ok",
                {"", "{\"name\": \"f\", \"arguments\": {]}ok", {{"f", "{", false}}});
}

TEST(OutputParser, BlanksAroundABrokenCallAreKept) {
  expect_answer("see <tool_call>this</tool_call> and that\n", {"", "see this and that\n", {}});
  expect_answer("see\n\n<tool_call>\n\n x \n\n</tool_call>\n\nok", {"", "see\n\n\n x \n\n\nok", {}});
  expect_answer("a <tool_call>b", {"", "a b", {}});
  expect_answer("a <tool_call>[1]</tool_call> <tool_call>{\"name\": \"f\"}</tool_call> b ",
                {"", "a [1]b", {{"f", "{}", true}}});
}

TEST(OutputParser, ArgumentsThatAreNoJsonMakeNoCall) {
  const auto expect_text = [](const std::string& arguments, const std::string& passed_on) {
    const auto json = R"({"name":"f","arguments":)" + arguments + "}";
    Answer expected{"", "x " + json + " y", {}};
    if (!passed_on.empty()) expected.calls.push_back({"f", passed_on, false});
    expect_answer("x <tool_call>" + json + "</tool_call> y", expected);
  };
  expect_text(R"({"x":oops})", R"({"x":)");
  expect_text(R"({"x":1,})", R"({"x":1,)");
  expect_text(R"({x:1})", "{");
  expect_text(R"({'x':1})", "{");
  expect_text(R"({"x":01})", R"({"x":0)");
  expect_text(R"({"x":tru})", R"({"x":tru)");
  expect_text(R"({"x":True})", R"({"x":)");
  expect_text(R"({"x" 1})", R"({"x" )");
  expect_text(R"({"x":"\q"})", R"({"x":"\)");
  expect_text(R"({"x":[1 2]})", R"({"x":[1 )");
  expect_text(R"(NaN)", "");
  expect_text(R"(.5)", "");
  expect_text(R"("no JSON")", "");
  expect_text(R"("{\"x\":}")", "");
  expect_text(R"({},"arguments":{})", "{");
  expect_answer(R"(<tool_call>{"name":"f","x":oops,"arguments":{}}</tool_call>)",
                {"", R"({"name":"f","x":oops,"arguments":{}})", {}});
  // Before the name is known nothing is passed on.
  expect_answer(R"(<tool_call>{"arguments":{"x":oops},"name":"f"}</tool_call>)",
                {"", R"({"arguments":{"x":oops},"name":"f"})", {}});
}

TEST(OutputParser, WhatIsNoCallOfAFunctionIsContent) {
  for (const std::string json :
       {R"({"name": "f", "parameters": {"x": 1}})", R"({"parameters": {"x": 1}, "name": "f"})",
        R"({"id": 1, "name": "f"})", R"({"name": "f", "arguments": null})",
        R"({"name": "f", "arguments": [1]})", R"({"name": "f", "arguments": 5})",
        R"({"name": "f", "arguments": true})", R"({"name": "f", "arguments": "5"})",
        R"({"name": "f", "arguments": "null"})", R"({"name": "f", "arguments": "[{}]"})",
        R"({"name": "f", "arguments": ""})", R"({"name": "", "arguments": {}})",
        R"({"name": "f", "name": "g", "x": {}})"}) {
    expect_answer("<tool_call>" + json + "</tool_call>", {"", json, {}});
  }
  // What has been passed on cannot be taken back, but never becomes a call.
  expect_answer(R"(<tool_call>{"arguments": {}, "name": ""}</tool_call>)",
                {"", R"({"arguments": {}, "name": ""})", {}});
  expect_answer(R"(<tool_call>{"name": "f", "arguments": " {\"x\": 1} "}</tool_call>)",
                {"", "", {{"f", R"( {"x": 1} )", true}}});
}

TEST(OutputParser, WhatFollowsABrokenCallIsNotHeldBack) {
  OutputParser parser({.tool_calls = true});
  EXPECT_EQ(parser.push("<tool_call>no").content, "no");
  EXPECT_EQ(parser.push(" call").content, " call");
  EXPECT_EQ(parser.push(" at all</tool_").content, " at all");
  EXPECT_EQ(parser.push("call>ok").content, "ok");
  expect_answer(R"(<tool_call>no<tool_call>{"name":"f"}</tool_call>)", {"", "no", {{"f", "{}", true}}});
}

/// Time grows with what is pushed, not with what is held: this would take hours.
TEST(OutputParser, LongRunsInSmallPiecesCostNoMoreThanTheirLength) {
  constexpr std::size_t kPieces = 1'000'000;
  for (const std::string begin : {"<tool_call>broken", "", "<think>", "ok", "<think>a</think>ok",
                                  R"(<tool_call>{"name":"f"}</tool_call>)", "<tool_call>",
                                  R"(<tool_call>{"name":"f","arguments":{"a":")"}) {
    for (const char* const piece : {"\n", "x"}) {
      OutputParser parser({.tool_calls = true});
      (void)parser.push(begin);
      for (std::size_t i = 0; i < kPieces; ++i) (void)parser.push(piece);
      (void)parser.finish();
    }
  }
}

TEST(OutputParser, AForgottenClosingTagEndsWithTheJson) {
  expect_answer("<tool_call>{\"name\": \"f\", \"arguments\": {}}", {"", "", {{"f", "{}", true}}});
  expect_answer("<tool_call>{\"name\": \"f\", \"arguments\": {}}\n<tool_call>{\"name\": \"g\"}</tool_call>",
                {"", "", {{"f", "{}", true}, {"g", "{}", true}}});
}

TEST(OutputParser, WithoutToolsTagsAreText) {
  expect_answer("<tool_call>{}</tool_call>", {"", "<tool_call>{}</tool_call>", {}}, {});
}

TEST(OutputParser, StreamsWhatIsCertain) {
  OutputParser parser({.tool_calls = true});
  EXPECT_EQ(parser.push("<think>ab").reasoning, "ab");
  EXPECT_EQ(parser.push(" c").reasoning, " c");
  EXPECT_EQ(parser.push(" </th").reasoning, "");
  EXPECT_EQ(parser.push("ink>\n").reasoning, "");
  EXPECT_EQ(parser.push("ok").content, "ok");
  EXPECT_EQ(parser.push(" <").content, "");
  EXPECT_EQ(parser.push("b").content, " <b");
  auto delta = parser.push("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\"");
  ASSERT_EQ(delta.calls.size(), 1U);
  EXPECT_EQ(delta.calls[0].name, "f");
  EXPECT_EQ(delta.calls[0].arguments, "{\"a\"");
  delta = parser.push(": 1");
  ASSERT_EQ(delta.calls.size(), 1U);
  EXPECT_EQ(delta.calls[0].arguments, ": 1");
}

TEST(OutputParser, AStopStringWithinATagLeavesNoPieceOfIt) {
  struct Cut {
    std::string text, reasoning, content;
  };
  for (const auto& [text, reasoning, content] :
       {Cut{"<t", "", ""}, Cut{"\n<thi", "", "\n"}, Cut{"<think>hi</thin", "hi", ""},
        Cut{"<think>a <", "a <", ""}, Cut{"<think>hi</think>\nok <tool_", "hi", "ok "},
        Cut{"ok</thi", "", "ok"}, Cut{"<think>a<thi", "a", ""}, Cut{"ok </tool_c", "", "ok "},
        Cut{"a < b", "", "a < b"}, Cut{"<div", "", "<div"}}) {
    OutputParser parser({.tool_calls = true});
    Answer answer;
    add(answer, parser.push(text));
    add(answer, parser.finish(true));
    EXPECT_EQ(answer.reasoning, reasoning) << text;
    EXPECT_EQ(answer.content, content) << text;
  }
}

/// Pieces whose tags are told; the others spell them.
TEST(OutputParser, WithTagsToldWhatSpellsOneIsText) {
  struct Piece {
    std::string text;
    bool is_tag = false;
  };
  const auto parse_told = [](const std::vector<Piece>& pieces, bool one_piece) {
    OutputParser parser({.tool_calls = true, .tags_are_told = true});
    Answer answer;
    std::size_t byte = 0;
    std::string all;
    for (const auto& [text, is_tag] : pieces) {
      if (is_tag) parser.tag_at(byte);
      byte += text.size();
      if (one_piece) {
        all += text;
      } else {
        add(answer, parser.push(text));
      }
    }
    add(answer, parser.push(all));
    add(answer, parser.finish());
    return answer;
  };
  const Piece think{"<think>", true};
  const Piece think_end{"</think>", true};
  const Piece call{"<tool_call>", true};
  const Piece call_end{"</tool_call>", true};
  struct Case {
    std::vector<Piece> pieces;
    Answer expected;
  };
  for (const auto& [pieces, expected] :
       {Case{{think, {"he wrote </think> x"}, think_end, {"ok"}}, {"he wrote </think> x", "ok", {}}},
        Case{{{" "}, think, {"a <think> b"}, think_end, {"\n\n<think>c</think>"}},
             {"a <think> b", "<think>c</think>", {}}},
        Case{{{"<think>a</think>b"}}, {"", "<think>a</think>b", {}}},
        Case{{{"<tool_call>{\"name\": \"f\"}</tool_call> ok"}},
             {"", "<tool_call>{\"name\": \"f\"}</tool_call> ok", {}}},
        Case{{{"a "}, call, {"{\"name\": \"f\"}"}, call_end, {" b <tool_call>"}},
             {"", "ab <tool_call>", {{"f", "{}", true}}}},
        // What breaks a call's JSON may be a tag itself.
        Case{{call, {"x"}, think, {"y"}, think_end, {"z"}}, {"y", "xz", {}}},
        Case{{call, think, {"y"}, think_end, {"z"}}, {"y", "z", {}}},
        Case{{call, {"{\"name\": \"f\"}"}, {"</tool_call>"}}, {"", "</tool_call>", {{"f", "{}", true}}}}}) {
    for (const bool one_piece : {false, true})
      EXPECT_EQ(parse_told(pieces, one_piece), expected) << one_piece;
  }
}

TEST(OutputParser, KnowsWhetherItEndedInACall) {
  const auto ends = [](const std::string& text) {
    OutputParser parser({.tool_calls = true});
    (void)parser.push(text);
    EXPECT_FALSE(parser.ended_in_call());
    (void)parser.finish();
    return parser.ended_in_call();
  };
  for (const auto* text : {"<tool_call>", "a <tool_call>\n{\"name\": \"f\", \"",
                           "<tool_call>{\"name\": \"f\", \"arguments\": {"})
    EXPECT_TRUE(ends(text)) << text;
  for (const auto* text :
       {"", "a", "<tool_call>x", "<tool_call>{\"name\": \"f\"}", "<tool_call>{\"name\": \"f\"}</tool_"})
    EXPECT_FALSE(ends(text)) << text;
}

TEST(OutputParser, KnowsWhetherThePromptBeganTheThoughts) {
  const auto ends = [](std::string text, bool trusted) {
    return ends_in_reasoning(Prompt(jinja::Text(std::move(text), trusted)));
  };
  EXPECT_TRUE(ends("<|im_start|>assistant\n<think>\n", true));
  EXPECT_FALSE(ends("<|im_start|>assistant\n<think>\n", false));
  EXPECT_FALSE(ends("<think>\n\n</think>\n\n", true));
  EXPECT_FALSE(ends("", true));
}

}  // namespace
}  // namespace inferno
