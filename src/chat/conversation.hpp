#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <inferno/error.hpp>

#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/value.hpp"

namespace inferno {

/// A conversation that is not well-formed: the message begins with the path of what is wrong.
class ConversationError : public UsageError {
 public:
  enum class Fault : std::uint8_t { type, missing, value, unsupported };
  ConversationError(Fault fault, std::string path, std::string_view what);
  Fault fault() const { return fault_; }
  const std::string& path() const { return path_; }

 private:
  Fault fault_;
  std::string path_;
};

/// What a template is rendered from, as a request states it.
struct Conversation {
  jinja::Value messages;              ///< a list of {role, content, …}
  jinja::Value tools;                 ///< a list of tools, or none
  bool add_generation_prompt = true;  ///< end with the beginning of the assistant's turn
  /// What else a template may ask for: enable_thinking, …
  jinja::Variables variables;
};

/// In which form a template prints the arguments of a tool call from the history.
enum class ArgumentForm : std::uint8_t {
  as_given,  ///< it takes JSON text and objects
  object,    ///< it calls tojson on them: text would be quoted twice
  text,      ///< it puts them between other text: an object would fail or be printed as Python prints it
};

/// `{messages, tools?, add_generation_prompt?, enable_thinking?, …}`: further members, and those of
/// `chat_template_kwargs`, become variables of the template. Throws UsageError naming the member that is
/// wrong.
Conversation parse_conversation(std::string_view json);

/// Sets a template's variable from a request. Throws UsageError for names that a request may not set (the
/// messages, the template, special tokens, functions that templates call) and for values of the wrong type.
void set_variable(Conversation& conversation, std::string_view name, jinja::Value value);

/// Messages as templates expect them. Roles are checked, `developer` becomes `system` and `function` `tool`;
/// parts of a content that are text (a refusal is) are joined as they are, others are refused by name; the
/// content of an assistant's or a tool's message may be null or missing and is then the refusal or empty;
/// other members that are null are left out; a `function_call` becomes `tool_calls`; arguments of tool calls
/// get the template's form. Throws ConversationError with the path of what is wrong
/// ("messages[2].content[0].type").
jinja::Value normalized_messages(const jinja::Value& messages, ArgumentForm form);

/// Tools as a list of objects; none if there are none. Throws ConversationError with the path.
jinja::Value normalized_tools(const jinja::Value& tools);

}  // namespace inferno
