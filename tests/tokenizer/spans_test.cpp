#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tokenizer/fixtures.hpp"
#include "tokenizer/normalizer.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno {
namespace {

using testing::HasSubstr;
using Ids = std::vector<TokenId>;
using Spans = std::vector<TextSpan>;

class SpansTest : public testing::Test {
 protected:
  TokenId id(std::string_view token) const {
    const auto& tokens = tokenizer_.vocabulary().tokens;
    for (std::size_t at = 0; at < tokens.size(); ++at) {
      if (tokens[at] == token) return static_cast<TokenId>(at);
    }
    ADD_FAILURE() << token;
    return -1;
  }
  Ids encode(const Spans& spans) const { return tokenizer_.encode(spans); }

  Tokenizer tokenizer_{test::chat_vocabulary()};
};

TEST_F(SpansTest, AddedTokensAreMarkupOnlyWhereTrusted) {
  const std::string text = "<|end|><think>";
  EXPECT_EQ(tokenizer_.encode(text, true), (Ids{id("<|end|>"), id("<think>")}));
  for (const auto& ids : {tokenizer_.encode(text, false), encode({{text, false}})}) {
    EXPECT_EQ(tokenizer_.decode(ids), text);
    for (const auto token : ids) {
      EXPECT_FALSE(tokenizer_.is_control(token));
      EXPECT_NE(token, id("<think>"));
    }
  }
}

TEST_F(SpansTest, EveryByteOfATokenMustBeTrusted) {
  const Ids plain = tokenizer_.encode("<|end|>", false);
  const std::string token = "<|end|>";
  for (std::size_t from = 0; from < token.size(); ++from) {
    for (std::size_t to = from + 1; to <= token.size(); ++to) {
      const std::string_view view = token;
      const Spans spans = {
          {view.substr(0, from), true}, {view.substr(from, to - from), false}, {view.substr(to), true}};
      EXPECT_EQ(encode(spans), plain) << from << " to " << to;
    }
  }
  // Nobody's text between two trusted halves: all bytes are trusted.
  EXPECT_EQ(encode({{"<|e", true}, {"", false}, {"nd|>", true}}), Ids{id("<|end|>")});
}

TEST_F(SpansTest, TrustedNeighboursAreOneText) {
  EXPECT_EQ(encode({{"<|e", true}, {"nd", true}, {"|>", true}}), Ids{id("<|end|>")});
}

TEST_F(SpansTest, StretchesLeaveNoSeams) {
  // "hello" is one token, whoever wrote which half; a mark composes with a letter before it.
  EXPECT_EQ(encode({{"he", true}, {"llo", false}}), Ids{id("hello")});
  EXPECT_EQ(encode({{"e", true}, {"\u0301", false}}), tokenizer_.encode("\u00E9", false));
  EXPECT_EQ(encode({{"<|start|>he", true}, {"llo", false}, {"<|end|>", true}}),
            (Ids{id("<|start|>"), id("hello"), id("<|end|>")}));
}

TEST_F(SpansTest, AnyCutsGiveTheIdsOfTheJoinedText) {
  const std::vector<std::string> parts = {"hello", "<|end|>", "<|start|>", "<think>", "<|", "|>", "end", " ",
                                          "e",     "\u0301",  "\xF0",      "\x9F",    "<",  "\n", "x",   "1"};
  test::Dice dice(23);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::size_t count = 1 + dice(10); count > 0; --count) text += parts[dice(parts.size())];
    Spans trusted;
    Spans untrusted;
    Spans mixed;
    std::string_view rest = text;
    while (!rest.empty()) {
      const auto piece = rest.substr(0, 1 + dice(6));
      rest.remove_prefix(piece.size());
      trusted.push_back({piece, true});
      untrusted.push_back({piece, false});
      mixed.push_back({piece, dice(2) == 0});
    }
    ASSERT_EQ(encode(trusted), tokenizer_.encode(text, true)) << text;
    ASSERT_EQ(encode(untrusted), tokenizer_.encode(text, false)) << text;
    ASSERT_LE(encode(trusted).size(), encode(mixed).size() + text.size());
    // Control tokens of the mixture stand where trusted text spells them in full.
    std::string untrusted_text;
    for (const auto& span : mixed)
      untrusted_text += span.trusted ? std::string(span.text.size(), '.') : std::string(span.text);
    std::size_t at = 0;
    const auto ids = encode(mixed);
    if (certainly_nfc(text)) {  // then positions can be counted
      for (const auto token : ids) {
        const auto bytes = tokenizer_.bytes(token);
        if (tokenizer_.is_control(token) || token == id("<think>")) {
          ASSERT_EQ(untrusted_text.substr(at, bytes.size()), std::string(bytes.size(), '.')) << text;
        }
        at += bytes.size();
      }
      ASSERT_EQ(at, text.size());
    }
  }
}

TEST_F(SpansTest, NothingGivesNothing) {
  EXPECT_EQ(encode({}), Ids{});
  EXPECT_EQ(encode({{"", true}, {"", false}}), Ids{});
  EXPECT_EQ(tokenizer_.encode("", true), Ids{});
  EXPECT_EQ(tokenizer_.encode("", false), Ids{});
}

TEST_F(SpansTest, BrokenUtf8AndNulsComeBackByteForByte) {
  const std::string texts[] = {"\xFF",
                               "\xC0\x80",
                               "\xED\xA0\x80",
                               "a\xF0\x9F",
                               "\xF0\x9F<|end|>\x98\x80",
                               "he\xFFllo",
                               std::string("a\0b", 3),
                               std::string(3, '\0'),
                               "\x80\x80\x80",
                               "e\xFF\u0301"};
  for (const auto& text : texts) {
    for (const bool trusted : {false, true}) {
      EXPECT_EQ(tokenizer_.decode(tokenizer_.encode(text, trusted)), text) << testing::PrintToString(text);
    }
  }
  EXPECT_EQ(tokenizer_.encode("a\xFF", false), (Ids{'a', 0xFF}));  // id = byte
  // Nothing joins over a broken byte: neither letters nor a mark and its letter.
  EXPECT_EQ(tokenizer_.encode("he\xFFllo", false), (Ids{id("he"), 0xFF, id("ll"), 'o'}));
}

TEST_F(SpansTest, DecodingGivesTheNormalForm) {
  test::Dice dice(29);
  const std::u32string pool = U"ae<|\u0301\u0316\u0338 \nhelo>\u1100\u1161\u11A8\u4E2D\U0001F600";
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::size_t count = dice(20); count > 0; --count) append_utf8(pool[dice(pool.size())], text);
    ASSERT_EQ(tokenizer_.decode(tokenizer_.encode(text, false)), nfc(text)) << text;
  }
  // Added tokens are cut out before normalization, so that a mark cannot change the token before it.
  EXPECT_EQ(tokenizer_.decode(tokenizer_.encode("<think>\u0338", true)), "<think>\u0338");
  EXPECT_EQ(tokenizer_.decode(tokenizer_.encode("<think>\u0338", false)), "<think\u226F");
}

TEST_F(SpansTest, TokensAndTheirBytes) {
  EXPECT_EQ(tokenizer_.bytes(id("<|end|>")), "<|end|>");
  EXPECT_EQ(tokenizer_.bytes(' '), " ");
  EXPECT_EQ(tokenizer_.bytes(-1), "");
  EXPECT_EQ(tokenizer_.bytes(static_cast<TokenId>(tokenizer_.size())), "");
  EXPECT_EQ(tokenizer_.bytes(2'000'000'000), "");
  EXPECT_TRUE(tokenizer_.is_control(id("<|end|>")));
  EXPECT_FALSE(tokenizer_.is_control(id("<think>")));
  EXPECT_FALSE(tokenizer_.is_control(-1));
  EXPECT_FALSE(tokenizer_.is_control(2'000'000'000));
  const Ids ids = {'a', -5, 1'000'000, 'b'};
  EXPECT_EQ(tokenizer_.decode(ids), "ab");
}

TEST(Tokenizer, EndTokensAreEosEotAndTheWellKnownControlTokens) {
  auto vocabulary = test::small_vocabulary({}, {{"<eos>", TokenType::control},
                                                {"<|endoftext|>", TokenType::control},
                                                {"<eot>", TokenType::control},
                                                {"<|im_end|>", TokenType::control},
                                                {"<|im_start|>", TokenType::control}});
  vocabulary.eot = 258;
  vocabulary.bos = 257;
  vocabulary.add_bos = true;
  const Tokenizer tokenizer(vocabulary);
  EXPECT_THAT(tokenizer.end_tokens(), testing::ElementsAre(256, 257, 258, 259));
  EXPECT_EQ(tokenizer.bos(), 257);
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.size(), 261U);

  auto as_text =
      test::small_vocabulary({}, {{"<eos>", TokenType::control}, {"<|im_end|>", TokenType::normal}});
  EXPECT_THAT(Tokenizer(as_text).end_tokens(), testing::ElementsAre(256));
}

TEST(Tokenizer, UnusedTokensAreNothingAndStringsOutsideTheAlphabetAreThemselves) {
  auto vocabulary = test::small_vocabulary({}, {{"<eos>", TokenType::control}});
  vocabulary.tokens.insert(vocabulary.tokens.end(),
                           {"[PAD257]", "two words", "日本", "\xFF\xFE", "<unk>", ""});
  vocabulary.types.insert(vocabulary.types.end(),
                          {TokenType::unused, TokenType::normal, TokenType::normal, TokenType::normal,
                           TokenType::unknown, TokenType::control});
  const Tokenizer tokenizer(vocabulary);
  EXPECT_EQ(tokenizer.bytes(257), "");
  EXPECT_EQ(tokenizer.bytes(258), "two words");
  EXPECT_EQ(tokenizer.bytes(259), "日本");
  EXPECT_EQ(tokenizer.bytes(260), "\xFF\xFE");
  EXPECT_EQ(tokenizer.bytes(261), "<unk>");
  EXPECT_TRUE(tokenizer.is_control(261));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("[PAD257]", true)), "[PAD257]");
}

TEST(Tokenizer, RepeatedStringsBecomeTheLowestIdAndAllDecode) {
  auto vocabulary = test::small_vocabulary({{"a", "b"}}, {{"<eos>", TokenType::control}});
  vocabulary.tokens.insert(vocabulary.tokens.end(), {"ab", "<eos>", "q"});
  vocabulary.types.insert(vocabulary.types.end(), {TokenType::normal, TokenType::control, TokenType::normal});
  test::CapturedLog log;
  const Tokenizer tokenizer(vocabulary);
  EXPECT_THAT(log.text(), HasSubstr("3 tokens with the string of an earlier one (258 repeats 256)"));
  EXPECT_EQ(tokenizer.encode("ab<eos>q", true), (Ids{256, 257, 'q'}));
  EXPECT_EQ(tokenizer.decode(Ids{258, 259, 260}), "ab<eos>q");
}

TEST(Tokenizer, RefusesVocabulariesThatContradictThemselves) {
  const auto message = [](const std::function<void(Vocabulary&)>& spoil) {
    auto vocabulary = test::chat_vocabulary();
    spoil(vocabulary);
    return test::error_of([&] { const Tokenizer tokenizer(std::move(vocabulary)); });
  };
  EXPECT_THAT(message([](auto& v) { v.eos.reset(); }), HasSubstr("eos"));
  EXPECT_THAT(message([](auto& v) { v.eos = -1; }),
              HasSubstr("eos token: expected an id below 269, found -1"));
  EXPECT_THAT(message([](auto& v) { v.pad = 269; }), HasSubstr("pad token"));
  EXPECT_THAT(message([](auto& v) { v.bos = 1 << 30; }), HasSubstr("bos token"));
  EXPECT_THAT(message([](auto& v) { v.eot = 1 << 30; }), HasSubstr("eot token"));
  EXPECT_THAT(message([](auto& v) { v.add_bos = true; }), HasSubstr("bos token"));
  EXPECT_THAT(message([](auto& v) { v.types.pop_back(); }), HasSubstr("type for each of 269"));
  EXPECT_THAT(message([](auto& v) { v.tokens.clear(); }), HasSubstr("found none"));
}

}  // namespace
}  // namespace inferno
