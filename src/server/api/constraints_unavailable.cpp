// In place of constraints.cpp in a build without src/grammar: what it would have to follow is refused.

#include "server/api/constraints.hpp"
#include "server/api/error.hpp"

namespace inferno::api {

struct Constraints::State {};

Constraints::Constraints(const Tokenizer& /*tokenizer*/, std::uint32_t /*vocab_size*/)
    : state_(std::make_unique<State>()) {}
Constraints::~Constraints() = default;

std::shared_ptr<const Form> Constraints::compile(const ResponseFormat& format) const {
  if (format.kind == ResponseFormat::Kind::text) return nullptr;
  refuse("response_format", "forms other than \"text\" are not available in this build", "unsupported");
}

std::shared_ptr<const Form> Constraints::compile(const std::vector<Tool>& /*tools*/, const ToolChoice& choice,
                                                 bool /*parallel*/) const {
  using Kind = ToolChoice::Kind;
  if (choice.kind != Kind::required && choice.kind != Kind::named) return nullptr;
  refuse("tool_choice", "a required call is not available in this build; expected \"auto\" or \"none\"",
         "unsupported");
}

}  // namespace inferno::api
