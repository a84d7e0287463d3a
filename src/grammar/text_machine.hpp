#pragma once

#include <cstdint>

#include "grammar/program.hpp"

namespace inferno::grammar {

/// Where a text stands: where its bytes are (`scan`), where its pattern is or which excepted texts it could
/// still become, and how many characters it has.
struct TextState {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  bool operator==(const TextState&) const = default;
};

struct TextMachineStep {
  enum class Kind : std::uint8_t { fail, inside, closed };
  Kind kind = Kind::fail;
  TextState next = {};
};

TextState text_start(const TextMachine& machine);
/// Takes one byte; fails if no text of the machine begins so. `closed`: the closing quote was taken.
TextMachineStep text_step(const TextMachine& machine, const TextState& at, std::uint8_t byte);
/// Whether a raw text may end here.
bool raw_text_accepts(const TextMachine& machine, const TextState& at);
/// The state as far as the next `horizon` characters can tell: states that come out equal allow the same
/// texts of that many characters.
TextState text_seen_from(const TextMachine& machine, const TextState& at, std::uint32_t horizon);
/// In a text, not before its opening quote: what goes on is worth remembering.
bool text_is_open(const TextState& at);
/// Whether the text can no longer become one that is excepted (false without exceptions): then it is free.
bool text_is_past_exceptions(const TextMachine& machine, const TextState& at);
/// Every text without pattern and exceptions: what goes on depends on the machine's form and bounds alone.
bool text_is_free(const TextMachine& machine);

}  // namespace inferno::grammar
