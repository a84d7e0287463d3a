#pragma once

#include <string>

#include "chat/jinja/text_builder.hpp"
#include "chat/jinja/value.hpp"

namespace inferno::jinja {

/// Python's str(): what {{ value }} prints. What a number or a container looks like is the template's doing,
/// so it is trusted; strings in it stay what they are.
Text to_text(Budget& budget, const Value& value);
/// Python's repr().
Text to_repr(Budget& budget, const Value& value);
void append_text(TextBuilder& out, Budget& budget, const Value& value);
/// A float as Python prints it: the shortest digits that read back the same, with ".0" if there is no point.
std::string real_to_string(double value);
/// & < > " ' as HTML's escapes; a character's escape belongs to whoever wrote the character.
Text escape_html(Budget& budget, const Text& text);

}  // namespace inferno::jinja
