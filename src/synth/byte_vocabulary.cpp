#include "synth/byte_vocabulary.hpp"

#include <fmt/format.h>
#include <string_view>

#include "tokenizer/byte_alphabet.hpp"

namespace inferno {
namespace {

constexpr std::string_view kChatTemplate =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif "
    "%}";

std::int32_t add(Vocabulary& vocabulary, std::string token, TokenType type) {
  vocabulary.tokens.push_back(std::move(token));
  vocabulary.types.push_back(type);
  return static_cast<std::int32_t>(vocabulary.tokens.size() - 1);
}

void add_merge(Vocabulary& vocabulary, std::string_view left, std::string_view right) {
  vocabulary.merges.emplace_back(to_alphabet(left), to_alphabet(right));
  add(vocabulary, to_alphabet(left) + to_alphabet(right), TokenType::normal);
}

}  // namespace

Vocabulary byte_vocabulary() {
  Vocabulary vocabulary;
  for (unsigned byte = 0; byte < 256; ++byte) {
    add(vocabulary, std::string(alphabet_character(static_cast<std::uint8_t>(byte))), TokenType::normal);
  }
  add_merge(vocabulary, "h", "e");
  add_merge(vocabulary, " ", "t");
  add_merge(vocabulary, "i", "n");
  add_merge(vocabulary, " ", "a");
  add_merge(vocabulary, "e", "r");
  add_merge(vocabulary, "o", "n");
  add_merge(vocabulary, " t", "he");
  add_merge(vocabulary, "n", "d");
  add_merge(vocabulary, "in", "g");
  add_merge(vocabulary, " a", "nd");
  vocabulary.bos = vocabulary.pad = add(vocabulary, "<|endoftext|>", TokenType::control);
  add(vocabulary, "<|im_start|>", TokenType::control);
  vocabulary.eos = vocabulary.eot = add(vocabulary, "<|im_end|>", TokenType::control);
  add(vocabulary, "<think>", TokenType::user_defined);
  add(vocabulary, "</think>", TokenType::user_defined);
  vocabulary.chat_template = kChatTemplate;
  return vocabulary;
}

void pad_vocabulary(Vocabulary& vocabulary, std::size_t size) {
  while (vocabulary.tokens.size() < size) {
    add(vocabulary, fmt::format("[PAD{}]", vocabulary.tokens.size()), TokenType::unused);
  }
}

}  // namespace inferno
