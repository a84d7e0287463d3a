#include "chat/jinja/budget.hpp"

#include <fmt/format.h>

namespace inferno::jinja {

void template_error(std::uint32_t line, const std::string& message) {
  throw TemplateError(fmt::format("chat template, line {}: {}", line, message), line);
}

void Budget::out_of_steps() const {
  fail(
      fmt::format("rendering takes more than {} steps; expected a template that ends: look for nested loops, "
                  "or use another with --chat-template FILE",
                  limits_.steps));
}

void Budget::out_of_memory(std::size_t bytes) const {
  fail(fmt::format(
      "rendering needs {} bytes more than the {} it may use ({} are in use); shorten the messages "
      "or use another template with --chat-template FILE",
      bytes, limits_.memory, used_memory_));
}

void Budget::out_of_depth() const {
  fail(fmt::format(
      "evaluation is nested deeper than {} levels; expected a recursion that ends: look for a macro "
      "or loop that calls itself",
      limits_.depth));
}

}  // namespace inferno::jinja
