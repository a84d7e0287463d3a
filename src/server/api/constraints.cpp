#include "server/api/constraints.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/grammar.hpp"
#include "server/api/error.hpp"

namespace inferno::api {
namespace {

/// A schema up to here is compiled in a few milliseconds, whatever it says; most are far shorter, or known.
constexpr std::size_t kSmallSchema = 1024;

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

/// Calls among other text.
class CallsForm : public Form {
 public:
  CallsForm(GrammarPointer call, VocabularyPointer vocabulary, bool single)
      : call_(std::move(call)), vocabulary_(std::move(vocabulary)), single_(single) {}

  std::shared_ptr<TokenConstraint> constrain(Thoughts thoughts) const override {
    return grammar::constrain_calls(call_, vocabulary_, single_, {.thinking = thinking_of(thoughts)});
  }

 private:
  GrammarPointer call_;
  VocabularyPointer vocabulary_;
  bool single_;
};

/// A schema that cannot be followed: `path` is the field that it stands in.
[[noreturn]] void refuse_schema(const std::string& path, const grammar::SchemaError& error) {
  refuse(error.path().empty() ? path : fmt::format("{}#{}", path, error.path()), error.message(),
         "invalid_json_schema");
}

bool must_call(const ToolChoice& choice) {
  return choice.kind == ToolChoice::Kind::required || choice.kind == ToolChoice::Kind::named;
}

/// The tools that may be called, and the grammar that `make` makes of them.
template <typename Make>
GrammarPointer grammar_of(const std::vector<Tool>& tools, const ToolChoice& choice,
                          const std::string& schema_path, const Make& make) {
  constexpr std::string_view kAnyObject = R"({"type": "object"})";
  std::vector<grammar::ToolSpec> specs;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const auto& tool = tools[i];
    if (choice.kind == ToolChoice::Kind::named && tool.name != choice.name) continue;
    const bool follows = tool.strict || must_call(choice);
    specs.push_back({tool.name, follows ? tool.parameters : std::string(kAnyObject)});
    places.push_back(i);
  }
  try {
    return make(specs);
  } catch (const grammar::SchemaError& error) {
    const bool is_of_tool = error.document() < places.size();
    refuse_schema(
        is_of_tool ? fmt::format("tools[{}].function.parameters", places[error.document()]) : schema_path,
        error);
  }
}

}  // namespace

bool is_costly(const ResponseFormat& format, const std::vector<Tool>& tools, const ToolChoice& choice) {
  std::size_t bytes = format.schema.size();
  for (const auto& tool : tools) {
    if (tool.strict || must_call(choice)) bytes += tool.parameters.size();
  }
  return bytes > kSmallSchema;
}

struct Constraints::State {
  const Tokenizer& tokenizer;
  std::uint32_t vocab_size;
  std::once_flag once;
  VocabularyPointer vocabulary;

  State(const Tokenizer& the_tokenizer, std::uint32_t the_vocab_size)
      : tokenizer(the_tokenizer), vocab_size(the_vocab_size) {}

  VocabularyPointer get_vocabulary() {
    // Not at the start: most servers are never asked for a form.
    std::call_once(once, [this] { vocabulary = grammar::make_vocabulary(tokenizer, vocab_size); });
    return vocabulary;
  }

  std::shared_ptr<const Form> form(GrammarPointer the_grammar) {
    return std::make_shared<GrammarForm>(std::move(the_grammar), get_vocabulary());
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
    refuse_schema(format.schema_path, error);
  }
}

std::shared_ptr<const Form> Constraints::compile(const ResponseFormat& format, const std::vector<Tool>& tools,
                                                 const ToolChoice& choice, bool parallel) const {
  if (choice.kind == ToolChoice::Kind::none) return compile(format);
  const auto make = [&](const auto& maker) { return grammar_of(tools, choice, format.schema_path, maker); };
  const bool is_free = format.kind == ResponseFormat::Kind::text;
  if (must_call(choice)) {
    // There will be no answer that could have the form; one that has none is a mistake all the same.
    if (!is_free) (void)compile(format);
    return state_->form(make([&](const auto& specs) { return grammar::tool_calls(specs, parallel); }));
  }
  if (!is_free) {
    return state_->form(
        make([&](const auto& specs) { return grammar::tool_calls_or_json(specs, parallel, format.schema); }));
  }
  const auto strict = std::find_if(tools.begin(), tools.end(), [](const Tool& tool) { return tool.strict; });
  if (strict == tools.end()) return nullptr;
  auto form =
      std::make_shared<CallsForm>(make([](const auto& specs) { return grammar::tool_calls(specs, false); }),
                                  state_->get_vocabulary(), !parallel);
  try {
    (void)form->constrain(Thoughts::none);
  } catch (const UsageError& error) {
    refuse(fmt::format("tools[{}].function.strict", strict - tools.begin()), error.what(), "unsupported");
  }
  return form;
}

}  // namespace inferno::api
