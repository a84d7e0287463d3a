#pragma once

#include <cstddef>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "chat/conversation.hpp"
#include "chat/jinja/budget.hpp"
#include "chat/prompt.hpp"
#include "gguf/reader.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno {

/// A chat template, read and ready to render; rendered as Hugging Face's chat environment renders it. What a
/// template costs is limited (jinja::Limits), in proportion to its input. Immutable; safe to use from several
/// threads.
class ChatTemplate {
 public:
  /// Reads a template. `name` says in messages where it comes from. Throws jinja::TemplateError naming line
  /// and construct.
  ChatTemplate(std::string_view source, std::string name, jinja::Variables special_tokens = {});
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// Throws UsageError if the conversation is not well-formed, or if the template refuses it with
  /// raise_exception; jinja::TemplateError if the template fails.
  Prompt render(const Conversation& conversation, std::time_t now = std::time(nullptr)) const;

  /// In which form it takes arguments of calls, as far as short conversations show; where they do not,
  /// `render` tries with the conversation at hand.
  ArgumentForm argument_form() const;
  /// Whether a short prompt with a tool is another than without; true where it cannot be rendered.
  bool shows_tools() const;
  const std::string& name() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

/// The templates of a model: one for all conversations, and maybe one for conversations with tools.
class ChatTemplates {
 public:
  /// `tokenizer.chat_template` and the named ones beside it. A model without any is no error: `find` says so
  /// when one is needed.
  static ChatTemplates from_model(const gguf::File& file, const Tokenizer& tokenizer);
  /// The template in a file, in place of the model's own.
  static ChatTemplates from_file(const std::filesystem::path& path, const Tokenizer& tokenizer);

  bool empty() const { return templates_.empty(); }
  /// The template for a conversation: with tools the one named tool_use if there is one, else the default.
  /// Throws Error saying what to do if the model has none.
  const ChatTemplate& find(bool with_tools) const;
  Prompt render(const Conversation& conversation, std::time_t now = std::time(nullptr)) const;
  /// What is to be said if the conversation has tools and its template does not show them to the model; else
  /// empty.
  std::string tools_warning(const Conversation& conversation) const;

 private:
  std::map<std::string, ChatTemplate, std::less<>> templates_;
  std::string model_;
};

}  // namespace inferno
