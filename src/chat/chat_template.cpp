#include "chat/chat_template.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <inferno/error.hpp>

#include "chat/argument_form.hpp"
#include "chat/jinja/parser.hpp"
#include "platform/mapped_file.hpp"
#include "platform/quote.hpp"

namespace inferno {
namespace {

using jinja::Kind;
using jinja::Value;

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";
/// Enough for any template with three short messages; a hostile one is not run to its full budget at load.
constexpr std::uint64_t kProbeSteps = 200'000;
constexpr std::string_view kDefault = "default";
constexpr std::string_view kToolUse = "tool_use";

/// How much there is to render.
struct InputSize {
  std::uint64_t values = 0;
  std::uint64_t bytes = 0;
  std::uint64_t longest_list = 0;

  void add(const Value& value) {
    ++values;
    switch (value.kind()) {
      case Kind::string:
        bytes += value.text().size();
        break;
      case Kind::list:
        longest_list = std::max<std::uint64_t>(longest_list, value.list().items.size());
        for (const auto& item : value.list().items) add(item);
        break;
      case Kind::dict:
        for (const auto& [key, item] : value.dict().entries) {
          add(key);
          add(item);
        }
        break;
      default:
        break;
    }
  }
};

/// The limits of a short conversation, and what each value and byte of a longer one may cost on top. Some
/// templates look at all other messages for each one, which thousands of messages may still do.
jinja::Limits limits_for(const InputSize& size) {
  constexpr std::uint64_t kMostForPairs = 80'000'000;
  jinja::Limits limits;
  limits.steps += size.values * 300 + size.bytes / 4;
  limits.steps += std::min(size.longest_list * size.longest_list * 16, kMostForPairs);
  limits.memory += size.values * 1024 + size.bytes * 8;
  limits.output += size.bytes * 4;
  return limits;
}

jinja::Variables special_tokens(const Tokenizer& tokenizer) {
  const auto& vocabulary = tokenizer.vocabulary();
  jinja::Variables variables;
  const auto add = [&](const char* name, const std::optional<std::int32_t>& id) {
    if (id) variables.emplace(name, jinja::make_trusted(nullptr, tokenizer.bytes(*id)));
  };
  add("bos_token", vocabulary.bos);
  add("eos_token", vocabulary.eos);
  add("pad_token", vocabulary.pad);
  return variables;
}

}  // namespace

struct ChatTemplate::State {
  std::string name;
  jinja::Body body;
  jinja::Variables special_tokens;
  std::optional<ArgumentForm>
      form;  // of what stands above; nullopt: it cannot be seen without a conversation

  State(std::string_view source, std::string the_name, jinja::Variables tokens)
      : name(std::move(the_name)),
        body(jinja::parse_template(source)),
        special_tokens(std::move(tokens)),
        form(probe_argument_form(trying(0, kProbeSteps))) {}

  Prompt render(const Conversation& conversation, ArgumentForm argument_form, std::time_t now,
                std::uint64_t most_steps = UINT64_MAX) const {
    auto variables = special_tokens;
    for (const auto& [key, value] : conversation.variables) variables.insert_or_assign(key, value);
    variables["messages"] = normalized_messages(conversation.messages, argument_form);
    variables["tools"] = normalized_tools(conversation.tools);
    variables["documents"];  // none unless given, as Hugging Face passes it
    variables["add_generation_prompt"] = Value(conversation.add_generation_prompt);
    InputSize size;
    for (const auto& [key, value] : variables) size.add(value);
    auto limits = limits_for(size);
    limits.steps = std::min(limits.steps, most_steps);
    jinja::Interpreter interpreter(limits, variables, now);
    return Prompt(interpreter.run(body));
  }

  TryRender trying(std::time_t now, std::uint64_t most_steps) const {
    return [this, now, most_steps](const Conversation& conversation) -> std::optional<std::string> {
      try {
        return std::string(render(conversation, ArgumentForm::as_given, now, most_steps).text());
      } catch (const Error&) {
        return std::nullopt;
      }
    };
  }

  ArgumentForm form_for(const Conversation& conversation, std::time_t now) const {
    if (form) return *form;
    if (!has_tool_calls(conversation.messages)) return ArgumentForm::as_given;
    return probe_argument_form(conversation, trying(now, UINT64_MAX)).value_or(ArgumentForm::as_given);
  }
};

ChatTemplate::ChatTemplate(std::string_view source, std::string name, jinja::Variables special_tokens)
    : state_(std::make_unique<const State>(source, std::move(name), std::move(special_tokens))) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

Prompt ChatTemplate::render(const Conversation& conversation, std::time_t now) const {
  return state_->render(conversation, state_->form_for(conversation, now), now);
}

ArgumentForm ChatTemplate::argument_form() const {
  return state_->form.value_or(ArgumentForm::as_given);
}

bool ChatTemplate::shows_tools() const {
  constexpr std::string_view kWithTool =
      R"({"messages": [{"role": "user", "content": "Hi"}], "tools": [{"type": "function", "function": {"name": "look",)"
      R"( "description": "Looks", "parameters": {"type": "object", "properties": {}}}}]})";
  auto conversation = parse_conversation(kWithTool);
  try {
    const auto with = render(conversation, 0);
    conversation.tools = {};
    return with.text() != render(conversation, 0).text();
  } catch (const Error&) {
    return true;
  }
}

const std::string& ChatTemplate::name() const {
  return state_->name;
}

ChatTemplates ChatTemplates::from_model(const gguf::File& file, const Tokenizer& tokenizer) {
  ChatTemplates result;
  result.model_ = file.path().string();
  const auto tokens = special_tokens(tokenizer);
  const auto prefix = fmt::format("{}.", kTemplateKey);
  for (const auto& [key, value] : file.metadata()) {
    const bool is_named = key.compare(0, prefix.size(), prefix) == 0;
    const auto* source = value.as_string();
    if ((key != kTemplateKey && !is_named) || source == nullptr || source->empty()) continue;
    auto name = is_named ? key.substr(prefix.size()) : std::string(kDefault);
    result.templates_.emplace(std::move(name), ChatTemplate(*source, key, tokens));
  }
  return result;
}

ChatTemplates ChatTemplates::from_file(const std::filesystem::path& path, const Tokenizer& tokenizer) {
  const auto file = MappedFile::open(path, false);
  const auto bytes = file.bytes();
  const std::string_view source(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ChatTemplates result;
  result.model_ = path.string();
  result.templates_.emplace(kDefault, ChatTemplate(source, path.string(), special_tokens(tokenizer)));
  return result;
}

const ChatTemplate& ChatTemplates::find(bool with_tools) const {
  for (const auto name : with_tools ? std::array{kToolUse, kDefault} : std::array{kDefault, kToolUse}) {
    if (const auto found = templates_.find(name); found != templates_.end()) return found->second;
  }
  if (!templates_.empty()) return templates_.begin()->second;
  throw Error(
      fmt::format("{} has no chat template ({} is missing); give one with --chat-template FILE, or use "
                  "generate, which needs none",
                  quote(model_, 200), kTemplateKey));
}

std::string ChatTemplates::tools_warning(const Conversation& conversation) const {
  if (normalized_tools(conversation.tools).is_none() || find(true).shows_tools()) return {};
  return "this model's chat template does not show tools to the model: it cannot know them";
}

Prompt ChatTemplates::render(const Conversation& conversation, std::time_t now) const {
  return find(!normalized_tools(conversation.tools).is_none()).render(conversation, now);
}

}  // namespace inferno
