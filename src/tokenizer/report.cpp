#include "tokenizer/report.hpp"

#include <fmt/core.h>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "platform/quote.hpp"

namespace inferno {

std::string tokens_as_json(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  auto tokens = nlohmann::ordered_json::array();
  for (const TokenId id : ids) tokens.push_back(to_valid_utf8(tokenizer.bytes(id)));
  nlohmann::ordered_json report;
  report["ids"] = std::vector<TokenId>(ids.begin(), ids.end());
  report["tokens"] = std::move(tokens);
  return report.dump();
}

std::string tokens_as_text(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();
  std::string text;
  for (const TokenId id : ids) {
    const std::string quoted = quote(to_valid_utf8(tokenizer.bytes(id)), kWhole);
    fmt::format_to(std::back_inserter(text), "{:>8}  {}{}\n", id, quoted,
                   tokenizer.is_control(id) ? "  control" : "");
  }
  fmt::format_to(std::back_inserter(text), "{} token{}\n", ids.size(), ids.size() == 1 ? "" : "s");
  return text;
}

}  // namespace inferno
