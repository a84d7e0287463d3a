#include "tokenizer/byte_alphabet.hpp"

#include <array>

#include "tokenizer/utf8.hpp"

namespace inferno {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;
constexpr std::size_t kSubstitutes = 68;

constexpr bool stands_for_itself(std::size_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<std::string, 256> spelled;
  std::array<std::int16_t, kFirstSubstitute + kSubstitutes>
      byte_of{};  ///< by code point, -1: not of the alphabet

  Alphabet() {
    byte_of.fill(-1);
    char32_t substitute = kFirstSubstitute;
    for (std::size_t byte = 0; byte < spelled.size(); ++byte) {
      const char32_t character = stands_for_itself(byte) ? static_cast<char32_t>(byte) : substitute++;
      append_utf8(character, spelled[byte]);
      byte_of[character] = static_cast<std::int16_t>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

}  // namespace

std::string_view alphabet_character(std::uint8_t byte) {
  return alphabet().spelled[byte];
}

std::optional<std::string> from_alphabet(std::string_view spelled) {
  const auto& byte_of = alphabet().byte_of;
  std::string bytes;
  while (!spelled.empty()) {
    const Utf8Step step = utf8_step(spelled);
    if (!step.valid || step.code_point >= byte_of.size() || byte_of[step.code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte_of[step.code_point]));
    spelled.remove_prefix(step.length);
  }
  return bytes;
}

std::string to_alphabet(std::string_view bytes) {
  std::string spelled;
  for (const char byte : bytes) spelled += alphabet_character(static_cast<std::uint8_t>(byte));
  return spelled;
}

}  // namespace inferno
