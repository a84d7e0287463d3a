#include <memory>
#include <string>
#include <utility>

#include "chat_session.hpp"
#include "command.hpp"
#include "common/chat_options.hpp"
#include "common/options.hpp"

namespace inferno::cli {
namespace {

struct ChatCommandOptions {
  ModelOption model;
  EngineOptionGroup engine;
  SamplingOptionGroup sampling;
  ChatTemplateOption chat_template;
  ChatSettings settings;
  bool no_thinking = false;
};

}  // namespace

void add_chat(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("chat", "talk with the model in the terminal");
  const auto options = std::make_shared<ChatCommandOptions>();
  // What Qwen3's authors advise; greedy answers of small models repeat themselves.
  options->sampling.settings.temperature = 0.6F;
  options->sampling.settings.top_k = 20;
  options->sampling.settings.top_p = 0.95F;
  options->model.add_to(*command);
  options->chat_template.add_to(*command);
  command->add_option("--system", options->settings.system,
                      "a system message that every conversation begins with");
  command->add_flag("--no-thinking", options->no_thinking, "tell the template that no thoughts are wanted");
  command->add_option("-n,--max-tokens", options->settings.max_tokens, "tokens of an answer at most")
      ->capture_default_str();
  command
      ->add_option("--stop", options->settings.stop, "end an answer right before this text; may be repeated")
      ->allow_extra_args(false);
  options->engine.add_to(*command);
  options->sampling.add_to(*command);
  set_examples(*command,
               "  inferno chat\n"
               "  inferno chat -m Qwen3-0.6B-Q8_0.gguf --system \"Answer in one sentence.\" --no-thinking\n"
               "  echo \"Tell me a story about a frog.\" | inferno chat --temp 0");
  command->callback([&action, options] {
    action = [options] {
      options->settings.sampling = options->sampling.resolved();
      options->settings.thinking = !options->no_thinking;
      const auto model = options->model.load();
      auto templates = options->chat_template.load(model);
      templates.find(false);  // a model without a template is refused before anything is typed
      return ChatSession(model, options->engine.options, std::move(templates), options->settings).run();
    };
  });
}

}  // namespace inferno::cli
