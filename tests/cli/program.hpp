#pragma once

#include <nlohmann/json.hpp>
#include <string>
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

/// Runs `inferno` (or `model-generate`) with these arguments and `input` on stdin.
Ran run_inferno(const std::vector<std::string>& arguments, const std::string& input = "");
Ran run_model_generate(const std::vector<std::string>& arguments);

/// Waits up to a minute for more of what a running program writes; false if nothing comes or it is the end.
bool read_more(const FileDescriptor& output, std::string& text);

}  // namespace inferno::test
