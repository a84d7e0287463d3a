#include "cli/program.hpp"

#include <array>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/temporary_folder.hpp"

extern char** environ;

namespace inferno::test {
namespace {

std::string quoted(const std::string& word) {
  // A quote inside quotes: end them, an escaped quote, begin them again.
  std::string text(1, '\'');
  for (const char c : word) {
    if (c == '\'') text.append("'\\'");
    text.push_back(c);
  }
  text.push_back('\'');
  return text;
}

Ran run(const std::string& program, const std::vector<std::string>& arguments, const std::string& input,
        const ShellWords& shell = {}) {
  const TemporaryFolder folder;
  const auto in = folder.write("in", input);
  auto command = fmt::format("{} {}", shell.before, quoted(program));
  for (const auto& argument : arguments) command += fmt::format(" {}", quoted(argument));
  command += fmt::format(" <{} >{} 2>{}", in.string(), (folder / "out").string(), (folder / "err").string());
  command += fmt::format(" {}", shell.redirections);
  const int status =
      std::system(command.c_str());  // NOLINT(cert-env33-c,concurrency-mt-unsafe): words are quoted
  Ran ran;
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.out = read_file(folder / "out");
  ran.err = read_file(folder / "err");
  return ran;
}

}  // namespace

nlohmann::json Ran::json() const {
  auto parsed = nlohmann::json::parse(out, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << "no JSON on stdout: " << out << err;
  return parsed.is_discarded() ? nlohmann::json() : parsed;
}

Ran run_inferno(const std::vector<std::string>& arguments, const std::string& input,
                const ShellWords& shell) {
  return run(INFERNO_PROGRAM, arguments, input, shell);
}

Ran run_model_generate(const std::vector<std::string>& arguments) {
  return run(MODEL_GENERATE_PROGRAM, arguments, "");
}

Running::Running(std::vector<std::string> arguments, int stream, int input) {
  arguments.insert(arguments.begin(), INFERNO_PROGRAM);
  std::vector<char*> words;
  words.reserve(arguments.size() + 1);
  for (auto& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  std::array<int, 2> pipe = {-1, -1};
  EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  output_ = FileDescriptor(pipe[0]);
  const FileDescriptor end(pipe[1]);
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, end.get(), stream);
  if (input >= 0) posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  EXPECT_EQ(::posix_spawn(&child_, INFERNO_PROGRAM, &actions, nullptr, words.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
}

Running::~Running() {
  if (child_ == 0) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

void Running::signal(int number) const {
  ::kill(child_, number);
}

bool Running::read_until(std::string_view text, std::size_t from) {
  while (text_.find(text, from) == std::string::npos) {
    if (!read_more(output_, text_)) return false;
  }
  return true;
}

int Running::wait() {
  while (read_more(output_, text_)) {
  }
  int status = 0;
  ::waitpid(child_, &status, 0);
  child_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool read_more(const FileDescriptor& output, std::string& text) {
  pollfd state{.fd = output.get(), .events = POLLIN, .revents = 0};
  if (::poll(&state, 1, 60'000) <= 0) return false;
  std::array<char, 4096> buffer{};
  const auto count = ::read(output.get(), buffer.data(), buffer.size());
  if (count <= 0) return false;
  text.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

}  // namespace inferno::test
