// `inferno chat` as a process, with a model whose words are known: through pipes, and on a terminal.

#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <pty.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

#include "cli/program.hpp"
#include "platform/file_descriptor.hpp"
#include "server/support/scripted_text.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::json;

class Chat : public testing::Test {
 protected:
  /// The command for a model that writes these pieces.
  std::vector<std::string> command(const std::vector<std::string>& pieces,
                                   const std::vector<std::string>& more = {},
                                   const std::string& context = "2000") {
    write_model_that_writes(folder / "scripted.gguf", pieces);
    std::vector<std::string> words = {"chat",  "-m",    path("scripted.gguf"), "--temp", "0",
                                      "--ctx", context, "--backend",           "pool",   "--threads",
                                      "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Json saved(const std::string& name) { return Json::parse(read_file(folder / name)); }
  std::string path(const std::string& name) { return (folder / name).string(); }

  TemporaryFolder folder;
};

/// A program on a terminal of its own.
class OnTerminal {
 public:
  explicit OnTerminal(std::vector<std::string> words, const char* kind = "xterm") {
    words.insert(words.begin(), INFERNO_PROGRAM);
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int terminal = -1;
    child_ = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child_ == 0) {
      ::setenv("TERM", kind, 1);
      ::setenv("EDITRC", "/dev/null", 1);
      ::execv(INFERNO_PROGRAM, arguments.data());
      ::_exit(127);
    }
    terminal_ = FileDescriptor(terminal);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;
  ~OnTerminal() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  void type(std::string_view text) {
    EXPECT_EQ(::write(terminal_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// Reads until `text` has come since the last call; what came until then.
  std::string read_until(std::string_view text) {
    while (screen_.find(text) == std::string::npos) {
      if (!read_more(terminal_, screen_)) {
        ADD_FAILURE() << "not \"" << text << "\" but \"" << screen_ << "\"";
        return {};
      }
    }
    const auto end = screen_.find(text) + text.size();
    auto seen = screen_.substr(0, end);
    screen_.erase(0, end);
    return seen;
  }
  void signal(int number) const { ::kill(child_, number); }
  void resize(unsigned short columns) const {
    const winsize size = {.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(::ioctl(terminal_.get(), TIOCSWINSZ, &size), 0);
  }
  int wait() {
    while (read_more(terminal_, screen_)) {
    }
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t child_ = -1;
  FileDescriptor terminal_;
  std::string screen_;
};

Json message(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

const std::vector<std::string> kThinks = {"<think>", "h", "m", "</think>", "o", "k", "<end>"};
const std::vector<std::string> kSays = {"Hel", "lo", "<end>"};
const std::vector<std::string> kEndless = {"a", "b", "a"};

TEST_F(Chat, AnswersLinesAndKeepsTheConversation) {
  const auto ran = run_inferno(command(kSays), "One\n\n  \nTwo\n/save " + path("all.json") + "\n");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "Hello\nHello\n");
  EXPECT_THAT(ran.err, HasSubstr("Saved 4 messages in"));
  EXPECT_EQ(saved("all.json")["messages"],
            Json::array({message("user", "One"), message("assistant", "Hello"), message("user", "Two"),
                         message("assistant", "Hello")}));
  // What was saved can be rendered, with the whole history.
  const auto rendered = run_inferno({"render", "-m", path("scripted.gguf"), "--json", path("all.json")});
  EXPECT_EQ(rendered.code, 0) << rendered.err;
  EXPECT_THAT(rendered.out, HasSubstr("One<|im_end|>\n<|im_start|>assistant\n"));
}

TEST(Render, SaysThatATemplateShowsNoTools) {
  const std::string messages = R"({"messages": [{"role": "user", "content": "Hi"}])";
  const std::string tools = R"(, "tools": [{"type": "function", "function": {"name": "look"}}])";
  constexpr const char* kWarning = "does not show tools to the model";
  EXPECT_THAT(run_inferno({"render", "--json", "-"}, messages + tools + "}").err, HasSubstr(kWarning));
  EXPECT_THAT(run_inferno({"render", "--json", "-"}, messages + R"(, "tools": []})").err,
              Not(HasSubstr(kWarning)));
  EXPECT_THAT(run_inferno({"render", "--json", "-"}, messages + "}").err, Not(HasSubstr(kWarning)));
}

TEST_F(Chat, ThoughtsAreLeftOutOfPipesAndSavedApart) {
  const auto ran = run_inferno(command(kThinks), "Hi\n/save " + path("thought.json") + "\n");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "ok\n");
  const auto reply = saved("thought.json")["messages"][1];
  EXPECT_EQ(reply["reasoning_content"], "hm");
  EXPECT_EQ(reply["content"], "ok");
  EXPECT_EQ(saved("thought.json")["enable_thinking"], true);
}

TEST_F(Chat, Commands) {
  const auto ran = run_inferno(command(kSays, {"--system", "Be brief."}),
                               "/help\nOne\n/reset\n/save " + path("reset.json") + "\nTwo\n/save " +
                                   path("later.json") + "\n/quit\nThree\n");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "Hello\nHello\n");
  for (const auto* const text :
       {"/help  ", "/reset  ", "/save FILE", "/quit", "The conversation is forgotten."})
    EXPECT_THAT(ran.err, HasSubstr(text));
  EXPECT_EQ(saved("reset.json")["messages"], Json::array({message("system", "Be brief.")}));
  EXPECT_EQ(
      saved("later.json")["messages"],
      Json::array({message("system", "Be brief."), message("user", "Two"), message("assistant", "Hello")}));
}

TEST_F(Chat, CommandsThatFailEndAScript) {
  const std::vector<std::tuple<std::string, int, std::string>> fail = {
      {"/what is this", 2, "there is no command \"/what\""},
      {"/etc/hosts is what?", 2, "typed with two of them"},
      {"/save", 2, "/save needs a file"},
      {"/save -f ", 2, "/save needs a file"},
      {"/save " + path("no/such/folder.json"), 1, "folder.json"}};
  for (const auto& [line, code, error] : fail) {
    const auto ran = run_inferno(command(kSays), "One\n" + line + "\nTwo\n");
    EXPECT_EQ(ran.code, code) << line;
    EXPECT_EQ(ran.out, "Hello\n") << line;
    EXPECT_THAT(ran.err, HasSubstr("error: ")) << line;
    EXPECT_THAT(ran.err, HasSubstr(error)) << line;
  }
}

TEST_F(Chat, MessagesMayBeginWithASlash) {
  const auto ran = run_inferno(
      command(kSays), "//etc/hosts\n  ///\n/save " + path("slash.json") + "\n/save " + path("slash.json"));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(saved("slash.json")["messages"][0]["content"], "/etc/hosts");
  EXPECT_EQ(saved("slash.json")["messages"][2]["content"], "  //");
}

TEST_F(Chat, CtrlCEndsAScript) {
  // While it answers the first of two lines, and while it waits for one.
  for (const bool answers : {true, false}) {
    const auto words = answers ? command(kEndless, {"-n", "29000"}, "30000") : command(kSays);
    std::array<int, 2> input{};
    ASSERT_EQ(::pipe2(input.data(), O_CLOEXEC), 0);
    const FileDescriptor reads(input[0]);
    const FileDescriptor writes(input[1]);
    ASSERT_EQ(::write(writes.get(), "One\nTwo\n", 8), 8);
    Running chat(words, STDOUT_FILENO, reads.get());
    ASSERT_TRUE(chat.read_until(answers ? "abababababab" : "Hello\nHello\n"));
    chat.signal(SIGINT);
    EXPECT_EQ(chat.wait(), 130);
    EXPECT_EQ(std::count(chat.output().begin(), chat.output().end(), '\n'), answers ? 1 : 2);
  }
}

TEST_F(Chat, WithoutStdinThereIsNothingToAnswer) {
  const auto ran = run_inferno(command(kSays), "", {.before = "", .redirections = "<&-"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("cannot read stdin"));
}

TEST_F(Chat, OnATerminalAFileIsNotReplacedUnasked) {
  folder.write("precious.json", "precious");
  OnTerminal chat(command(kSays));
  const auto says = [&chat](const std::string& typed, const std::string& text) {
    chat.read_until("> ");
    chat.type(typed + "\r");
    chat.read_until(text);
  };
  says("/save " + path("precious.json"), "is there already; /save -f");
  EXPECT_EQ(read_file(folder / "precious.json"), "precious");
  says("/nothing", "there is no command");
  says("Hi", "Hello\r\n");
  says("/save -f " + path("precious.json"), "Saved 2 messages");
  says("/save " + path("precious.json"), "Saved 2 messages");  // its own
  EXPECT_EQ(saved("precious.json")["messages"][0], message("user", "Hi"));
  says("/quit", "");
  EXPECT_EQ(chat.wait(), 0);
}

TEST_F(Chat, LinesThatGoOnEndOrAreNoText) {
  const auto ran = run_inferno(command(kSays), "One\\\nmore\n/save " + path("lines.json") +
                                                   "\nbad \xFF\n/save " + path("bad.json") + "\nno end");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "Hello\nHello\nHello\n");
  EXPECT_EQ(saved("lines.json")["messages"][0], message("user", "One\nmore"));
  EXPECT_EQ(saved("bad.json")["messages"][2], message("user", "bad \xEF\xBF\xBD"));
  const auto nothing = run_inferno(command(kSays), "");
  EXPECT_EQ(nothing.code, 0);
  EXPECT_EQ(nothing.out, "");
}

TEST_F(Chat, MarkupThatSomebodyTypesStaysText) {
  const auto ran = run_inferno(command(kSays), "<|im_end|> <think>\n/save " + path("typed.json") + "\n");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(saved("typed.json")["messages"][0]["content"], "<|im_end|> <think>");
}

TEST_F(Chat, AnswersAreCutOffAndStopped) {
  auto ran = run_inferno(command(kEndless, {"-n", "5"}), "Hi\n");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "ababa\n");
  EXPECT_THAT(ran.err, HasSubstr("5 generated"));
  ran = run_inferno(command(kEndless, {"--stop", "ba"}), "Hi\n");
  EXPECT_EQ(ran.out, "a\n");
}

TEST_F(Chat, WhatDoesNotFitEndsAScript) {
  const auto ran = run_inferno(command(kSays), "One\n" + std::string(5000, 'x') + "\nTwo\n");
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.out, "Hello\n");
  EXPECT_THAT(ran.err, HasSubstr("2000"));
}

TEST_F(Chat, ShowsThoughtsDimmedOnATerminal) {
  OnTerminal chat(command(kThinks));
  EXPECT_THAT(chat.read_until("> "), HasSubstr("/help lists commands"));
  chat.type("Hi\n");
  chat.read_until("\033[2mhm\033[0m\r\n\r\nok\r\n");
  chat.read_until("> ");
  chat.type("One\\\n");
  chat.read_until(". ");
  chat.type("more\n");
  chat.read_until("ok\r\n");
  chat.read_until("> ");
  chat.type("\x04");
  EXPECT_EQ(chat.wait(), 0);
}

TEST_F(Chat, StreamsAndCtrlCStopsTheAnswerAlone) {
  OnTerminal chat(command(kEndless, {"-n", "29000"}, "30000"));
  chat.read_until("> ");
  for (int i = 0; i < 2; ++i) {
    chat.type("Hi\n");
    // Comes while there is much more to come.
    chat.read_until("abababababab");
    chat.type("\x03");
    chat.read_until("(stopped)");
    chat.read_until("> ");
  }
  // At the prompt it ends nothing, and what was typed is dropped.
  chat.type("some");
  chat.type("\x03");
  chat.read_until("(/quit or Ctrl-D ends)");
  chat.read_until("> ");
  chat.type("/save " + path("stopped.json") + "\n");
  chat.read_until("Saved 4 messages");
  chat.type("/quit\n");
  EXPECT_EQ(chat.wait(), 0);
  const auto messages = saved("stopped.json")["messages"];
  EXPECT_EQ(messages[0], message("user", "Hi"));
  EXPECT_THAT(messages[1]["content"].get<std::string>(), StartsWith("abababababab"));
}

TEST_F(Chat, LinesAreEditedOnATerminal) {
  OnTerminal chat(command(kSays));
  chat.read_until("> ");
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"Helo\033[Dl", "Hello"},        // left, insert
      {"xfrog\033[H\033[3~", "frog"},  // Home, Delete
      {"gr\xC3\xBC\xC3\x9F\x7F\xF0\x9F\x90\xB8!",
       "gr\xC3\xBC\xF0\x9F\x90\xB8!"},  // a character is deleted, not a byte
      {"a\tb", "a\tb"},
      {"c\xFF"
       "d",
       "c\xEF\xBF\xBD"
       "d"},
      {"e\xC3"
       "f",
       "e\xEF\xBF\xBD"
       "f"},
      {"\033[A\033[A\033[A s", "a\tb s"},               // three lines back
      {"\x12gr\033\r", "gr\xC3\xBC\xF0\x9F\x90\xB8!"},  // looked for
      {std::string(200, 'w'), std::string(200, 'w')},   // more than fits a row
  };
  for (const auto& [keys, text] : lines) {
    chat.type(keys + (keys.ends_with('\r') ? "" : "\r"));
    chat.read_until("Hello\r\n");
    chat.read_until("> ");
  }
  chat.type("/save " + path("edited.json") + "\r");
  chat.read_until("Saved 18 messages");
  chat.type("/quit\r");
  EXPECT_EQ(chat.wait(), 0);
  const auto messages = saved("edited.json")["messages"];
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(messages[2 * i]["content"], lines[i].second) << i;
}

TEST_F(Chat, ALineOutlivesAnotherSizeAndAPause) {
  OnTerminal chat(command(kSays));
  chat.read_until("> ");
  chat.type("some ");
  chat.read_until("some ");
  chat.resize(40);
  chat.type("more ");
  chat.read_until("more ");
  chat.signal(SIGSTOP);
  chat.signal(SIGCONT);
  chat.type("words\r");
  chat.read_until("Hello\r\n");
  chat.read_until("> ");
  chat.type("/save " + path("paused.json") + "\r");
  chat.read_until("Saved 2 messages");
  chat.read_until("> ");
  chat.type("\x04");
  EXPECT_EQ(chat.wait(), 0);
  EXPECT_EQ(saved("paused.json")["messages"][0], message("user", "some more words"));
}

TEST_F(Chat, ATerminalThatCanOnlyPrintIsAskedWithoutEditing) {
  OnTerminal chat(command(kSays), "dumb");
  chat.read_until("> ");
  chat.type("Hi\n");
  chat.read_until("Hello\r\n> ");
  chat.type("\x03");
  chat.read_until("(/quit or Ctrl-D ends)");
  chat.type("\x04");
  EXPECT_EQ(chat.wait(), 0);
}

TEST_F(Chat, ErrorsDoNotEndItOnATerminal) {
  OnTerminal chat(command(kSays, {}, "100"));
  chat.read_until("> ");
  chat.type(std::string(300, 'x') + "\n");
  chat.read_until("error: ");
  chat.read_until("> ");
  chat.type("Hi\n");
  chat.read_until("Hello\r\n");
  chat.read_until("> ");
  chat.type("/exit\n");
  EXPECT_EQ(chat.wait(), 0);
}

}  // namespace
}  // namespace inferno::test
