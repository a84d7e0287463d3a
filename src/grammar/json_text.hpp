#pragma once

#include <cstdint>

namespace inferno::grammar {

/// Where the bytes of a text stand: between characters, inside of one, at its end. Fits a number, so that it
/// can be part of a larger state.
class TextScan {
 public:
  enum class Phase : std::uint8_t {
    open,        ///< the opening quote comes
    content,     ///< between two characters
    utf8,        ///< in a character of several bytes: `count` bytes are missing of `length`
    escape,      ///< behind a backslash
    hex,         ///< behind \u and `count` digits
    low_escape,  ///< a high surrogate was escaped: now a backslash, ...
    low_u,       ///< ... a u, ...
    low_hex,     ///< ... and digits
    closed
  };

  constexpr TextScan() = default;
  constexpr explicit TextScan(Phase phase, std::uint32_t value = 0, std::uint32_t count = 0,
                              std::uint32_t length = 0)
      : bits_(static_cast<std::uint32_t>(phase) << 28U | length << 26U | count << 23U | value) {}
  static constexpr TextScan from_bits(std::uint32_t bits) {
    TextScan scan;
    scan.bits_ = bits;
    return scan;
  }

  constexpr std::uint32_t bits() const { return bits_; }
  constexpr Phase phase() const { return static_cast<Phase>(bits_ >> 28U); }
  constexpr std::uint32_t length() const { return bits_ >> 26U & 3U; }
  constexpr std::uint32_t count() const { return bits_ >> 23U & 7U; }
  constexpr std::uint32_t value() const { return bits_ & 0x7FFFFFU; }
  constexpr bool operator==(const TextScan&) const = default;

 private:
  std::uint32_t bits_ = 0;
};

/// How characters are written.
enum class TextForm : std::uint8_t {
  json,            ///< a JSON string with any escapes
  json_canonical,  ///< a JSON string; escapes only where they are needed
  raw              ///< UTF-8 without quotes
};

struct TextStep {
  enum class Kind : std::uint8_t {
    fail,       ///< not valid
    partial,    ///< in a character, which will lie from `first` to `last`
    escape,     ///< behind a backslash (json_canonical: a quote, a backslash or a control character follows)
    character,  ///< `first` is complete
    opened,
    closed
  };
  Kind kind = Kind::fail;
  TextScan next = {};
  char32_t first = 0;
  char32_t last = 0;
};

/// Takes one byte of a text.
TextStep scan_text(TextForm form, TextScan at, std::uint8_t byte);

}  // namespace inferno::grammar
