#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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

}  // namespace inferno::test
