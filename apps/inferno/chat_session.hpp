#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include <inferno/engine.hpp>

#include "chat/chat_template.hpp"
#include "chat/output_parser.hpp"
#include "line_input.hpp"

namespace inferno::cli {

struct ChatSettings {
  std::string system;    ///< first message; empty: none
  bool thinking = true;  ///< what the template is told
  std::uint32_t max_tokens = 4096;
  SamplingSettings sampling;
  std::vector<std::string> stop;
};

/// A conversation in a terminal or through pipes. Answers go to stdout, everything else to stderr. On a
/// terminal thoughts are shown dimmed; elsewhere they are left out.
class ChatSession {
 public:
  ChatSession(const Model& model, const EngineOptions& options, ChatTemplates templates,
              ChatSettings settings);

  /// Reads lines until /quit or the end of stdin, or, where nobody is asked for them, until Ctrl-C; returns
  /// the exit code.
  int run();

 private:
  /// The next line, with those that it goes on in; false at the end.
  bool read_message(std::string& message);
  /// What a line that begins with '/' asks for; false ends the session.
  bool command(const std::string& line);
  void save(const std::string& arguments);
  void reset();
  void answer(const std::string& text);
  bool show(const OutputDelta& delta);

  ChatTemplates templates_;
  ChatSettings settings_;
  Engine engine_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
  TypedBytes bytes_;
  std::unique_ptr<LineInput> lines_;
  bool asks_;         ///< stdin is a terminal: lines are asked for
  bool is_terminal_;  ///< stdout is one
  bool interrupted_ = false;
  std::set<std::string> saved_;  ///< files that this conversation is in
  bool dimmed_ = false;
  std::string content_;
  std::string reasoning_;
};

}  // namespace inferno::cli
