// Masks of the real vocabulary against every token's bytes, one by one.

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <time.h>
#include <vector>

#include "grammar/compiled_grammar.hpp"
#include "grammar/fixture.hpp"
#include "tokenizer/qwen3_fixture.hpp"

namespace inferno {
namespace {

constexpr std::uint32_t kRows = 151'936;

class Masks : public test::Qwen3Test {
 protected:
  static std::shared_ptr<const grammar::Vocabulary> vocabulary() {
    static const auto kVocabulary = grammar::make_vocabulary(tokenizer(), kRows);
    return kVocabulary;
  }
};

/// A position of a grammar, with nothing in between.
class Position {
 public:
  Position(std::shared_ptr<const grammar::Grammar> compiled,
           const std::shared_ptr<const grammar::Vocabulary>& vocabulary)
      : grammar_(std::move(compiled)),
        masks_(grammar_->masks(vocabulary)),
        automaton_(grammar_->program(), masks_->marker_is_token(), arena_, meter_) {
    automaton_.begin(0, frames_);
  }

  std::vector<std::uint32_t> mask() {
    std::vector<std::uint32_t> words(masks_->vocabulary().words());
    masks_->add_allowed(frames_, arena_, words, meter_);
    return words;
  }

  bool takes(std::string_view bytes) {
    const auto mark = arena_.mark();
    auto at = frames_;
    for (const char byte : bytes) {
      grammar::FrameList next;
      automaton_.step(at, static_cast<std::uint8_t>(byte), next);
      at = std::move(next);
      if (at.empty()) break;
    }
    arena_.release(mark);
    return !bytes.empty() && !at.empty();
  }

  void go(std::string_view bytes) {
    for (const char byte : bytes) {
      grammar::FrameList next;
      automaton_.step(frames_, static_cast<std::uint8_t>(byte), next);
      frames_ = std::move(next);
    }
  }

 private:
  std::shared_ptr<const grammar::Grammar> grammar_;
  std::shared_ptr<grammar::MaskMaker> masks_;
  grammar::FrameArena arena_;
  UnsharedTurn turn_;
  grammar::WorkMeter meter_{turn_, SIZE_MAX};
  grammar::Automaton automaton_;
  grammar::FrameList frames_;
};

const char* const kSchema = R"({"type":"object","properties":{
  "name":{"type":"string"},"code":{"type":"string","pattern":"^[a-z]+[0-9]*$"},"short":{"type":"string","maxLength":5},
  "any":true,"age":{"type":"integer","minimum":-3,"maximum":150},"size":{"type":"number"},
  "list":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"null"},{"$ref":"#"}]},"maxItems":3}},
  "additionalProperties":{"type":"string","minLength":1}})";

TEST_F(Masks, EqualWhatEveryTokenDoes) {
  const auto compiled = grammar::json_schema(kSchema);
  const std::vector<std::string> prefixes = {
      "",
      "{",
      "{\n",
      "{\"",
      "{\"na",
      R"({"name":)",
      R"({"name":")",
      R"({"name":"x)",
      R"({"name":"x\)",
      R"({"name":"x\u00)",
      R"({"name":"x\ud83d)",
      "{\"name\":\"\xF0\x9D",
      R"({"name":"x")",
      R"({"name": "x",)",
      R"({"code":")",
      R"({"code":"ab)",
      R"({"code":"ab1)",
      R"({"short":"ab)",
      R"({"any":)",
      R"({"any":{"x":["a)",
      R"({"any":{"x":["a",1)",
      R"({"age":1)",
      R"({"age":15)",
      R"({"age":-)",
      R"({"size":1.5)",
      R"({"size":1e)",
      R"({"list":[)",
      R"({"list":["a",{"name":"b)",
      R"({"list":["a",{"name":"b"}],)",
      R"({"list":["a",null,null)",
      R"({"nam)",
      R"({"other)",
      R"({"other":"v)",
  };
  for (const auto& prefix : prefixes) {
    Position position(compiled, vocabulary());
    position.go(prefix);
    const auto words = position.mask();
    std::size_t wrong = 0;
    std::size_t count = 0;
    for (std::uint32_t id = 0; id < kRows && wrong < 5; ++id) {
      const auto token = static_cast<TokenId>(id);
      const bool is_text = id < tokenizer().size() && tokenizer().vocabulary().types[id] == TokenType::normal;
      const bool expected = is_text && position.takes(tokenizer().bytes(token));
      count += expected ? 1 : 0;
      if (test::has_bit(words, token) == expected) continue;
      ++wrong;
      ADD_FAILURE() << prefix << " <- " << tokenizer().bytes(token) << ": expected " << expected;
    }
    EXPECT_GT(count, 0U) << prefix;
  }
}

TEST_F(Masks, RandomWalksOfTheRealVocabularyParse) {
  const auto compiled = grammar::json_schema(
      R"({"type":"object","properties":{"answer":{"type":"string","maxLength":40},"score":{"type":"integer","minimum":0,"maximum":100}},"required":["answer","score"],"additionalProperties":false})");
  test::Dice dice(5);
  for (int i = 0; i < 50; ++i) {
    const auto walk = test::random_walk(compiled, tokenizer(), vocabulary(), kRows, dice, 200);
    ASSERT_TRUE(walk.complete) << walk.text;
  }
}

TEST_F(Masks, WhereTheTimeGoes) {
  // No expectation: what it prints is for docs/grammar.md.
  if (std::getenv("INFERNO_GRAMMAR_TIMES") == nullptr) GTEST_SKIP() << "set INFERNO_GRAMMAR_TIMES to measure";
  // Of processor time: what else the machine does is not counted.
  const auto microseconds = [](auto work) {
    const auto now = [] {
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
    };
    const auto begin = now();
    work();
    return now() - begin;
  };
  std::shared_ptr<const grammar::Vocabulary> fresh;
  std::printf("vocabulary %.0f us\n",
              microseconds([&] { fresh = grammar::make_vocabulary(tokenizer(), kRows); }));
  std::shared_ptr<const grammar::Grammar> compiled;
  std::printf("schema %.0f us\n", microseconds([&] { compiled = grammar::json_schema(kSchema); }));
  for (const std::string prefix :
       {"", "{", "{\"", R"({"name":)", R"({"name":")", R"({"name":"x)", "{\"name\":\"\xF0", R"({"name":"x")",
        R"({"code":")", R"({"code":"a)", R"({"short":"ab)", R"({"any":)", R"({"any":{"x":["a)", R"({"age":1)",
        R"({"list":[)", R"({"other)", R"({"other":"v)"}) {
    Position position(compiled, fresh);
    position.go(prefix);
    const auto first = microseconds([&] { position.mask(); });
    const auto again = microseconds([&] { position.mask(); });
    std::printf("%-24s first %6.0f us, again %5.1f us\n", prefix.c_str(), first, again);
  }
}

}  // namespace
}  // namespace inferno
