#pragma once

#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/text.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno {

/// A rendered conversation: the template's markup is trusted, what people and tools wrote is not.
class Prompt {
 public:
  explicit Prompt(jinja::Text text) : text_(std::move(text)) {}

  const std::string& text() const { return text_.bytes(); }
  /// The stretches for Tokenizer::encode; they point into this prompt.
  std::vector<TextSpan> spans() const {
    std::vector<TextSpan> spans;
    std::size_t begin = 0;
    for (const auto& [end, trusted] : text_.stretches()) {
      spans.push_back({std::string_view(text_.bytes()).substr(begin, end - begin), trusted});
      begin = end;
    }
    return spans;
  }

 private:
  jinja::Text text_;
};

}  // namespace inferno
