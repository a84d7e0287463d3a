#include "common/chat_options.hpp"

#include "engine/model_parts.hpp"

namespace inferno::cli {

void ChatTemplateOption::add_to(CLI::App& command) {
  command.add_option("--chat-template", path, "file with a Jinja template, in place of the model's own");
}

ChatTemplates ChatTemplateOption::load(const Model& model) const {
  const auto& parts = model.parts();
  return path.empty() ? ChatTemplates::from_model(parts.loaded.file, parts.tokenizer)
                      : ChatTemplates::from_file(path, parts.tokenizer);
}

}  // namespace inferno::cli
