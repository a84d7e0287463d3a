#include "line_input.hpp"

#include <cstdio>
#include <fmt/format.h>

namespace inferno::cli {
namespace {

class PlainLines final : public LineInput {
 public:
  PlainLines(TypedBytes& bytes, bool asks) : bytes_(bytes), asks_(asks) {}

  Came next(const std::string& prompt, std::string& line) override {
    if (asks_) fmt::print(stderr, "{}", prompt);
    line.clear();
    while (true) {
      switch (const int byte = bytes_.next()) {
        case '\n':
          return Came::line;
        case TypedBytes::kEnd:
          return line.empty() ? Came::end : Came::line;
        case TypedBytes::kInterrupted:
          return Came::interrupt;
        case TypedBytes::kResized:
        case TypedBytes::kContinued:
          break;
        default:
          line += static_cast<char>(byte);
      }
    }
  }

 private:
  TypedBytes& bytes_;
  bool asks_;
};

}  // namespace

std::unique_ptr<LineInput> plain_lines(TypedBytes& bytes, bool asks) {
  return std::make_unique<PlainLines>(bytes, asks);
}

}  // namespace inferno::cli
