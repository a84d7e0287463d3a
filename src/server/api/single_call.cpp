#include "server/api/single_call.hpp"

#include <algorithm>

namespace inferno::api {
namespace {

class SingleCall : public TokenConstraint {
 public:
  SingleCall(const Tokenizer& tokenizer, const OutputParserOptions& options)
      : tokenizer_(tokenizer), parser_(options) {}

  bool allow(std::span<std::uint32_t> /*allowed*/, ConstraintTurn& /*turn*/) override { return false; }
  bool accept(TokenId id, ConstraintTurn& /*turn*/) override {
    if (tokenizer_.is_control(id)) return true;
    const auto delta = parser_.push(tokenizer_.bytes(id));
    return std::none_of(delta.calls.begin(), delta.calls.end(),
                        [](const ToolCallDelta& call) { return call.ends; });
  }

 private:
  const Tokenizer& tokenizer_;
  OutputParser parser_;
};

}  // namespace

std::shared_ptr<TokenConstraint> end_after_first_call(const Tokenizer& tokenizer,
                                                      const OutputParserOptions& options) {
  return std::make_shared<SingleCall>(tokenizer, options);
}

}  // namespace inferno::api
