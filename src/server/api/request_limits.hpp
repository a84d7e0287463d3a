#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <inferno/sampling.hpp>

#include "server/api/error.hpp"
#include "server/api/fields.hpp"

namespace inferno::api {

/// What requests are checked against before anything is run.
struct RequestLimits {
  std::vector<std::string> models = {};  ///< names that a request may ask for; the first is the model's own
  std::uint32_t vocab_size = 0;
  std::uint32_t hidden_size = 0;
  SamplingSettings sampling = {};  ///< where a request says nothing
  std::int32_t max_priority = 100;
  std::string pooling = "mean";
};

/// Choices of one prompt.
inline constexpr std::int64_t kMaxChoices = 128;
/// Prompts, inputs and choices of one request, multiplied.
inline constexpr std::size_t kMaxSequences = 2048;

/// `model`: one of the names, or none. Throws ApiError (404, model_not_found).
void check_model(const Fields& fields, const RequestLimits& limits);
/// What is said of one that it has not, with all that it has.
ApiError unknown_model(const std::string& name, const RequestLimits& limits);

}  // namespace inferno::api
