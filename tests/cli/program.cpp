#include "cli/program.hpp"

#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/temporary_folder.hpp"

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

Ran run(const std::string& program, const std::vector<std::string>& arguments, const std::string& input) {
  const TemporaryFolder folder;
  const auto in = folder.write("in", input);
  auto command = quoted(program);
  for (const auto& argument : arguments) command += fmt::format(" {}", quoted(argument));
  command += fmt::format(" <{} >{} 2>{}", in.string(), (folder / "out").string(), (folder / "err").string());
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

Ran run_inferno(const std::vector<std::string>& arguments, const std::string& input) {
  return run(INFERNO_PROGRAM, arguments, input);
}

Ran run_model_generate(const std::vector<std::string>& arguments) {
  return run(MODEL_GENERATE_PROGRAM, arguments, "");
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
