#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "platform/file_descriptor.hpp"

namespace inferno::test {

/// What a program left.
struct Ran {
  int code = -1;  ///< exit code; 128 + signal if it was killed
  std::string out, err;

  /// stdout as JSON; a failed expectation and null if it is none.
  nlohmann::json json() const;
};

/// What a shell does around a program.
struct ShellWords {
  std::string before;        ///< "ulimit -n 40;"
  std::string redirections;  ///< "<&-"; done after those of input, stdout and stderr
};

/// Runs `inferno` (or `model-generate`) with these arguments and `input` on stdin.
Ran run_inferno(const std::vector<std::string>& arguments, const std::string& input = "",
                const ShellWords& shell = {});
Ran run_model_generate(const std::vector<std::string>& arguments);

/// `inferno` while it runs. What is left of it at the end is killed.
class Running {
 public:
  /// `stream`: STDOUT_FILENO or STDERR_FILENO, which can be read; the other goes where the test's own goes.
  /// `input`: a descriptor for stdin; the test's own if there is none.
  Running(std::vector<std::string> arguments, int stream, int input = -1);
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running();

  void signal(int number) const;
  /// Nobody reads what it writes any more.
  void stop_reading() { output_ = FileDescriptor(); }
  /// Reads until `text` has come; false if it does not.
  bool read_until(std::string_view text, std::size_t from = 0);
  /// Reads all that is left. Its exit code, or 128 + what ended it.
  int wait();
  /// What has been read.
  const std::string& output() const { return text_; }

 private:
  pid_t child_ = 0;
  FileDescriptor output_;
  std::string text_;
};

/// Waits up to a minute for more of what a running program writes; false if nothing comes or it is the end.
bool read_more(const FileDescriptor& output, std::string& text);

}  // namespace inferno::test
