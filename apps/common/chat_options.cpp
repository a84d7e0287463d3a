#include "common/chat_options.hpp"

#include <cstdio>

#include "engine/model_parts.hpp"
#include "platform/mapped_file.hpp"

namespace inferno::cli {

void ChatTemplateOption::add_to(CLI::App& command) {
  command.add_option("--chat-template", path, "file with a Jinja template, in place of the model's own");
}

ChatTemplates ChatTemplateOption::load(const Model& model) const {
  const auto& parts = model.parts();
  return path.empty() ? ChatTemplates::from_model(parts.loaded.file, parts.tokenizer)
                      : ChatTemplates::from_file(path, parts.tokenizer);
}

std::string read_text(const std::string& path) {
  if (path != "-") {
    const auto file = MappedFile::open(path, false);
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }
  std::string text;
  char buffer[1U << 16U];
  std::size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof buffer, stdin)) > 0) text.append(buffer, count);
  if (std::ferror(stdin) != 0) throw Error("cannot read stdin");
  return text;
}

}  // namespace inferno::cli
