#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "chat/jinja/budget.hpp"
#include "chat/jinja/text.hpp"

namespace inferno::jinja {

/// A text that grows within the budget.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(budget) {}

  void append(std::string_view bytes, bool trusted) {
    room_for(bytes.size());
    text_.append(bytes, trusted);
  }
  void append(const Text& text) { append_slice(text, 0, text.size()); }
  void append_slice(const Text& text, std::size_t first, std::size_t count) {
    room_for(count);
    text_.append_slice(text, first, count);
  }
  void append_repeated(const Text& text, std::size_t times) {
    for (std::size_t i = 0; i < times && !text.empty(); ++i) append(text);
  }
  const Text& text() const { return text_; }
  std::size_t size() const { return text_.size(); }
  Text take() { return std::move(text_); }

 private:
  void room_for(std::size_t bytes) {
    budget_.check_memory(text_.size() + bytes);
    budget_.step_copied(bytes + 64);
  }

  Budget& budget_;
  Text text_;
};

}  // namespace inferno::jinja
