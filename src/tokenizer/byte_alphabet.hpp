#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace inferno {

/// Byte-level BPE spells every byte as one printable character, so that tokens are plain strings in a
/// vocabulary file: printable Latin-1 bytes stand for themselves, the 68 others are U+0100..U+0143 in order
/// (a space is "Ġ").

/// The character of one byte, as UTF-8.
std::string_view alphabet_character(std::uint8_t byte);

/// The bytes that `spelled` stands for; nothing if a character of it is not of the alphabet.
std::optional<std::string> from_alphabet(std::string_view spelled);

/// The spelling of `bytes`.
std::string to_alphabet(std::string_view bytes);

}  // namespace inferno
