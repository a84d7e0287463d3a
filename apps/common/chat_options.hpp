#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include <inferno/model.hpp>

#include "chat/chat_template.hpp"

namespace inferno::cli {

/// --chat-template: a template in place of the model's own.
struct ChatTemplateOption {
  std::string path;

  void add_to(CLI::App& command);
  ChatTemplates load(const Model& model) const;
};

}  // namespace inferno::cli
