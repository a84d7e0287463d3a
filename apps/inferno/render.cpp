#include <cstdio>
#include <memory>
#include <string>

#include "chat/chat_template.hpp"
#include "command.hpp"
#include "common/chat_options.hpp"
#include "common/options.hpp"
#include "common/text_file.hpp"
#include "engine/model_parts.hpp"
#include "platform/log.hpp"
#include "tokenizer/report.hpp"

namespace inferno::cli {
namespace {

struct RenderOptions {
  ModelOption model;
  ChatTemplateOption chat_template;
  std::string file;
  bool tokens = false;
};

int render(const RenderOptions& options) {
  const auto model = options.model.load();
  const auto templates = options.chat_template.load(model);
  const auto conversation = parse_conversation(read_text(options.file));
  const auto prompt = templates.render(conversation);
  if (const auto warning = templates.tools_warning(conversation); !warning.empty()) log().warn("{}", warning);
  if (options.tokens) {
    const auto& tokenizer = model.parts().tokenizer;
    const auto listing = tokens_as_text(tokenizer, tokenizer.encode(prompt.spans()));
    std::fwrite(listing.data(), 1, listing.size(), stdout);
    return 0;
  }
  std::fwrite(prompt.text().data(), 1, prompt.text().size(), stdout);
  return 0;
}

}  // namespace

void add_render(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("render", "a conversation to the prompt that the chat template makes of it");
  const auto options = std::make_shared<RenderOptions>();
  options->model.add_to(*command);
  options->chat_template.add_to(*command);
  command
      ->add_option("--json", options->file,
                   "file with {messages, tools?, add_generation_prompt?, enable_thinking?}; - is stdin")
      ->required();
  command->add_flag("--tokens", options->tokens,
                    "list the prompt's tokens instead: what was typed never becomes a control token");
  set_examples(
      *command,
      "  inferno render --json conversation.json\n"
      "  inferno render --tokens --json conversation.json\n"
      "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}' | inferno render --json -");
  command->callback([&action, options] { action = [options] { return render(*options); }; });
}

}  // namespace inferno::cli
