// Templates and inputs of any kind: a template line, a NUL byte, JSON variables. Whatever happens ends in
// text or in an error of the project's own, within the budget, and text from the input is never trusted.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <inferno/error.hpp>

#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/json.hpp"
#include "chat/jinja/parser.hpp"
#include "chat/output_parser.hpp"
#include "tokenizer/utf8.hpp"

namespace {

using namespace inferno;

/// A character that no operation makes out of others: where it stands, the input put it there.
constexpr std::string_view kMark = "\xEE\x80\x80";  // U+E000

void check(bool holds) {
  if (!holds) std::abort();
}

void check_text(const jinja::Text& text, bool mark_is_inputs) {
  std::size_t end = 0;
  for (const auto& stretch : text.stretches()) {
    check(stretch.end > end);
    end = stretch.end;
  }
  check(end == text.size());
  check(utf8_valid_prefix(text.bytes()) == text.size());
  if (!mark_is_inputs) return;
  for (auto at = text.bytes().find(kMark); at != std::string::npos; at = text.bytes().find(kMark, at + 1)) {
    check(!text.trusted_at(at));
  }
}

void render(std::string_view source, std::string_view json) {
  const auto body = jinja::parse_template(source);
  jinja::Variables variables;
  const auto mark = std::string(kMark);
  variables.emplace("mark", jinja::make_untrusted("<" + mark + " x>"));
  const auto input = jinja::parse_json(json.empty() ? "{}" : json, "input");
  if (input.is(jinja::Kind::dict)) {
    for (const auto& [key, value] : input.dict().entries)
      variables.insert_or_assign(key.text().bytes(), value);
  }
  jinja::Limits limits;
  limits.steps = 100'000;
  limits.memory = std::size_t{4} << 20U;
  limits.output = std::size_t{1} << 20U;
  // An escape could write the character, too.
  const bool mark_is_inputs =
      source.find(kMark) == std::string_view::npos && source.find('\\') == std::string_view::npos;
  jinja::Interpreter interpreter(limits, variables, 0);
  check_text(interpreter.run(body), mark_is_inputs);
}

void parse_output(std::string_view text) {
  OutputParser whole({.tool_calls = true});
  OutputParser pieces({.tool_calls = true});
  const auto half = text.size() / 2;
  OutputDelta expected;
  OutputDelta found;
  const auto add = [](OutputDelta& out, const OutputDelta& delta) {
    out.reasoning += delta.reasoning;
    out.content += delta.content;
  };
  add(expected, whole.push(text));
  add(expected, whole.finish());
  add(found, pieces.push(text.substr(0, half)));
  add(found, pieces.push(text.substr(half)));
  add(found, pieces.finish());
  check(expected.reasoning == found.reasoning);
  check(expected.content == found.content);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto nul = std::min(bytes.find('\0'), bytes.size());
  parse_output(bytes);
  try {
    render(bytes.substr(0, nul), bytes.substr(std::min(nul + 1, bytes.size())));
  } catch (const Error&) {
    // What cannot be rendered says so.
  }
  return 0;
}
