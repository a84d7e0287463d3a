#include "chat_session.hpp"

#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <span>
#include <string_view>
#include <unistd.h>
#include <utility>

#include <inferno/error.hpp>

#include "chat/jinja/json.hpp"
#include "common/program.hpp"
#include "engine/model_parts.hpp"
#include "platform/atomic_file.hpp"
#include "platform/quote.hpp"
#include "platform/terminal.hpp"
#include "sampling/sampler.hpp"

namespace inferno::cli {
namespace {

constexpr const char* kHelp =
    "/help         this list\n"
    "/reset        forget the conversation\n"
    "/save FILE    write the conversation as JSON, as `inferno render --json` reads it;\n"
    "              on a terminal /save -f FILE replaces one that is there\n"
    "/quit         end (also Ctrl-D)\n"
    "Ctrl-C stops an answer. A line that ends with \\ goes on in the next one.\n"
    "A message that begins with / is typed with two of them: //etc/hosts\n"
    "The arrows bring back earlier lines, Ctrl-R looks for one.\n";

constexpr std::string_view kDim = "\033[2m";
constexpr std::string_view kPlain = "\033[0m";

bool print(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  return text;
}

}  // namespace

ChatSession::ChatSession(const Model& model, const EngineOptions& options, ChatTemplates templates,
                         ChatSettings settings)
    : templates_(std::move(templates)),
      settings_(std::move(settings)),
      engine_(model, options),
      asks_(isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0),
      is_terminal_(stdout_is_terminal() && stderr_is_terminal()) {
  // Before anything is typed, not with the first answer.
  check_settings(settings_.sampling, model.vocab_size());
  lines_ = asks_ && stderr_is_terminal() ? edited_lines(bytes_) : plain_lines(bytes_, asks_);
  reset();
}

void ChatSession::reset() {
  messages_ = nlohmann::ordered_json::array();
  if (!settings_.system.empty()) messages_.push_back({{"role", "system"}, {"content", settings_.system}});
}

int ChatSession::run() {
  if (asks_)
    fmt::print(stderr, "{} on {}. /help lists commands.\n", engine_.model().name(), engine_.backend());
  std::string message;
  while (!interrupted_ && read_message(message)) {
    const auto text = trimmed(message);
    if (text.empty()) continue;
    try {
      if (text.starts_with("//")) {
        answer(message.erase(message.find('/'), 1));
      } else if (!text.starts_with('/')) {
        answer(message);
      } else if (!command(std::string(text))) {
        break;
      }
    } catch (const Error& error) {
      // The conversation can go on, for example after /reset if it became too long.
      if (!asks_) throw;
      fmt::print(stderr, "error: {}\n", error.what());
    }
  }
  if (asks_) fmt::print(stderr, "\n");
  return interrupted_ ? kInterrupted : 0;
}

bool ChatSession::read_message(std::string& message) {
  message.clear();
  std::string line;
  while (true) {
    switch (lines_->next(message.empty() ? "> " : ". ", line)) {
      case LineInput::Came::interrupt:
        if (!asks_) {
          interrupted_ = true;
          return false;
        }
        message.clear();
        fmt::print(stderr, "\n(/quit or Ctrl-D ends)\n");
        continue;
      case LineInput::Came::end:
        return !message.empty();
      case LineInput::Came::line:
        break;
    }
    message += line;
    if (!message.ends_with('\\')) return true;
    message.back() = '\n';
  }
}

bool ChatSession::command(const std::string& line) {
  const auto blank = std::min(line.find(' '), line.size());
  const auto name = line.substr(0, blank);
  const std::string argument(trimmed(std::string_view(line).substr(blank)));
  if (name == "/quit" || name == "/exit") return false;
  if (name == "/help") {
    fmt::print(stderr, "{}", kHelp);
  } else if (name == "/reset") {
    reset();
    fmt::print(stderr, "The conversation is forgotten.\n");
  } else if (name == "/save") {
    save(argument);
  } else {
    throw UsageError(
        fmt::format("there is no command {}; /help lists them, and a message that begins with / is "
                    "typed with two of them",
                    quote(name, 40)));
  }
  return true;
}

void ChatSession::save(const std::string& arguments) {
  const bool replaces = arguments == "-f" || arguments.starts_with("-f ");
  const std::string path(trimmed(std::string_view(arguments).substr(replaces ? 2 : 0)));
  if (path.empty()) throw UsageError("/save needs a file: /save conversation.json");
  // Nobody can answer in a script, which is expected to know its files.
  if (asks_ && !replaces && !saved_.contains(path) && std::filesystem::exists(path)) {
    throw UsageError(fmt::format("{} is there already; /save -f {} replaces it", path, path));
  }
  const nlohmann::ordered_json conversation = {{"messages", messages_},
                                               {"enable_thinking", settings_.thinking}};
  const auto text =
      fmt::format("{}\n", conversation.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  saved_.insert(path);
  fmt::print(stderr, "Saved {} {} in {}.\n", messages_.size(), messages_.size() == 1 ? "message" : "messages",
             path);
}

bool ChatSession::show(const OutputDelta& delta) {
  reasoning_ += delta.reasoning;
  content_ += delta.content;
  if (is_terminal_ && !delta.reasoning.empty()) {
    if (!std::exchange(dimmed_, true)) print(kDim);
    print(delta.reasoning);
  }
  if (!delta.content.empty()) {
    if (std::exchange(dimmed_, false)) {
      print(kPlain);
      print("\n\n");
    }
    print(delta.content);
  }
  return std::fflush(stdout) == 0;
}

void ChatSession::answer(const std::string& text) {
  auto messages = messages_;
  messages.push_back({{"role", "user"}, {"content", to_valid_utf8(text)}});
  Conversation conversation;
  conversation.messages = jinja::parse_json(messages.dump(), "the conversation");
  conversation.variables.emplace("enable_thinking", jinja::Value(settings_.thinking));
  const auto prompt = templates_.render(conversation);

  Request request;
  request.prompt_ids = engine_.model().parts().tokenizer.encode(prompt.spans());
  request.max_tokens = settings_.max_tokens;
  request.sampling = settings_.sampling;
  request.stop = settings_.stop;
  OutputParser parser({.begins_in_reasoning = ends_in_reasoning(prompt)});
  content_.clear();
  reasoning_.clear();
  const auto generation = [&] {
    const CancelledByInterrupt cancelled(engine_);
    return engine_.generate(request, [&](std::string_view piece) { return show(parser.push(piece)); });
  }();
  show(parser.finish());
  if (std::exchange(dimmed_, false)) print(kPlain);
  print("\n");
  std::fflush(stdout);
  if (generation.finish_reason == FinishReason::length) {
    const bool is_full = generation.ids.size() < settings_.max_tokens;
    fmt::print(stderr, "(cut off: {} tokens of prompt, {} generated{})\n", generation.prompt_ids.size(),
               generation.ids.size(),
               is_full ? " fill the context; /reset begins anew, --ctx may give more" : "; raise -n");
  } else if (generation.finish_reason == FinishReason::cancelled) {
    fmt::print(stderr, "(stopped)\n");
    interrupted_ = !asks_;
  }
  nlohmann::ordered_json reply = {{"role", "assistant"}, {"content", content_}};
  if (!reasoning_.empty()) reply["reasoning_content"] = reasoning_;
  messages.push_back(std::move(reply));
  messages_ = std::move(messages);
}

}  // namespace inferno::cli
