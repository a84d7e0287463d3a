#include "tokenizer/report.hpp"

#include <fmt/core.h>
#include <iterator>
#include <nlohmann/json.hpp>

namespace inferno {
namespace {

/// JSON's quoting shows line ends and control characters. DEL and the C1 controls, which JSON lets stand and
/// some terminals obey, it shows only if everything beyond ASCII is spelled out.
std::string quote(const std::string& text) {
  bool spell_out = text.find('\x7F') != std::string::npos;
  for (auto at = text.find('\xC2'); at != std::string::npos; at = text.find('\xC2', at + 1)) {
    spell_out = spell_out || static_cast<unsigned char>(text[at + 1]) < 0xA0;  // U+0080 to U+009F
  }
  return nlohmann::json(text).dump(-1, ' ', spell_out);
}

}  // namespace

std::string tokens_as_json(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  auto tokens = nlohmann::ordered_json::array();
  for (const TokenId id : ids) tokens.push_back(to_valid_utf8(tokenizer.bytes(id)));
  nlohmann::ordered_json report;
  report["ids"] = std::vector<TokenId>(ids.begin(), ids.end());
  report["tokens"] = std::move(tokens);
  return report.dump();
}

std::string tokens_as_text(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  std::string text;
  for (const TokenId id : ids) {
    const std::string quoted = quote(to_valid_utf8(tokenizer.bytes(id)));
    fmt::format_to(std::back_inserter(text), "{:>8}  {}{}\n", id, quoted,
                   tokenizer.is_control(id) ? "  control" : "");
  }
  fmt::format_to(std::back_inserter(text), "{} token{}\n", ids.size(), ids.size() == 1 ? "" : "s");
  return text;
}

}  // namespace inferno
