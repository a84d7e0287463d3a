#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sstream>
#include <string>
#include <vector>

#include <inferno/error.hpp>

#include "model/loaded_model.hpp"
#include "platform/log.hpp"
#include "support/random_model.hpp"

namespace inferno::test {

/// Loads the model and returns the message it is refused with; "loaded" if it is not.
inline std::string refusal(const RandomModel& model) {
  const TemporaryFile file(model);
  try {
    const LoadedModel loaded(file.path());
    return "loaded";
  } catch (const Error& error) {
    return error.what();
  }
}

/// The model is refused in one line that names its file and holds all of `parts`.
inline void expect_refused(const RandomModel& model, const std::vector<std::string>& parts) {
  const std::string message = refusal(model);
  for (const auto& part : parts) EXPECT_THAT(message, testing::HasSubstr(part));
  EXPECT_THAT(message, testing::HasSubstr("inferno-test-")) << "no file name";
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
}

/// What is logged while the model is loaded.
inline std::string warnings(const RandomModel& model) {
  const TemporaryFile file(model);
  std::ostringstream text;
  log().sinks().push_back(std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
  const LoadedModel loaded(file.path());
  log().sinks().pop_back();
  return text.str();
}

}  // namespace inferno::test
