#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/lexer.hpp"

namespace inferno::jinja {

/// Tokens one after the other. The last is TokenType::end, which is never passed.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[position_]; }
  const Token& look() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  std::uint32_t line() const { return current().line; }
  Token next() {
    Token token = current();
    if (position_ + 1 < tokens_.size()) ++position_;
    return token;
  }

  bool is(TokenType type) const { return current().type == type; }
  bool is_op(std::string_view op) const { return current().type == TokenType::op && current().text == op; }
  bool is_name(std::string_view name) const { return is_name(current(), name); }
  static bool is_name(const Token& token, std::string_view name) {
    return token.type == TokenType::name && token.text == name;
  }
  bool is_any_name(std::initializer_list<std::string_view> names) const {
    return std::any_of(names.begin(), names.end(), [this](std::string_view name) { return is_name(name); });
  }
  bool skip_name(std::string_view name) {
    const bool found = is_name(name);
    if (found) next();
    return found;
  }
  bool skip_op(std::string_view op) {
    const bool found = is_op(op);
    if (found) next();
    return found;
  }

 private:
  std::vector<Token> tokens_;
  std::size_t position_ = 0;
};

}  // namespace inferno::jinja
