#include "server/api/constraints.hpp"

#include <fmt/format.h>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/grammar.hpp"
#include "server/api/error.hpp"

namespace inferno::api {
namespace {

using GrammarPointer = std::shared_ptr<const grammar::Grammar>;
using VocabularyPointer = std::shared_ptr<const grammar::Vocabulary>;

grammar::Thinking thinking_of(Thoughts thoughts) {
  switch (thoughts) {
    case Thoughts::allowed:
      return grammar::Thinking::allowed;
    case Thoughts::begun:
      return grammar::Thinking::begun;
    default:
      return grammar::Thinking::none;
  }
}

class GrammarForm : public Form {
 public:
  GrammarForm(GrammarPointer the_grammar, VocabularyPointer vocabulary)
      : grammar_(std::move(the_grammar)), vocabulary_(std::move(vocabulary)) {}

  std::shared_ptr<TokenConstraint> constrain(Thoughts thoughts) const override {
    return grammar::constrain(grammar_, vocabulary_, {.thinking = thinking_of(thoughts)});
  }

 private:
  GrammarPointer grammar_;
  VocabularyPointer vocabulary_;
};

/// A schema that cannot be followed: `path` is the field that it stands in.
[[noreturn]] void refuse_schema(const std::string& path, const grammar::SchemaError& error) {
  refuse(error.path().empty() ? path : fmt::format("{}#{}", path, error.path()), error.message(),
         "invalid_json_schema");
}

GrammarPointer make_calls(const std::vector<Tool>& tools, const ToolChoice& choice, bool parallel) {
  std::vector<grammar::ToolSpec> specs;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    if (choice.kind == ToolChoice::Kind::named && tools[i].name != choice.name) continue;
    specs.push_back({tools[i].name, tools[i].parameters});
    places.push_back(i);
  }
  try {
    return grammar::tool_calls(specs, parallel);
  } catch (const grammar::SchemaError& error) {
    refuse_schema(fmt::format("tools[{}].function.parameters", places.at(error.document())), error);
  }
}

}  // namespace

struct Constraints::State {
  const Tokenizer& tokenizer;
  std::uint32_t vocab_size;
  std::once_flag once;
  VocabularyPointer vocabulary;

  State(const Tokenizer& the_tokenizer, std::uint32_t the_vocab_size)
      : tokenizer(the_tokenizer), vocab_size(the_vocab_size) {}

  std::shared_ptr<const Form> form(GrammarPointer the_grammar) {
    // Not at the start: most servers are never asked for a form.
    std::call_once(once, [this] { vocabulary = grammar::make_vocabulary(tokenizer, vocab_size); });
    return std::make_shared<GrammarForm>(std::move(the_grammar), vocabulary);
  }
};

Constraints::Constraints(const Tokenizer& tokenizer, std::uint32_t vocab_size)
    : state_(std::make_unique<State>(tokenizer, vocab_size)) {}
Constraints::~Constraints() = default;

std::shared_ptr<const Form> Constraints::compile(const ResponseFormat& format) const {
  using Kind = ResponseFormat::Kind;
  if (format.kind == Kind::text) return nullptr;
  if (format.kind == Kind::json_object) return state_->form(grammar::json_object());
  try {
    return state_->form(grammar::json_schema(format.schema));
  } catch (const grammar::SchemaError& error) {
    refuse_schema(std::string(kSchemaPath), error);
  }
}

std::shared_ptr<const Form> Constraints::compile(const std::vector<Tool>& tools, const ToolChoice& choice,
                                                 bool parallel) const {
  using Kind = ToolChoice::Kind;
  if (choice.kind != Kind::required && choice.kind != Kind::named) return nullptr;
  return state_->form(make_calls(tools, choice, parallel));
}

}  // namespace inferno::api
