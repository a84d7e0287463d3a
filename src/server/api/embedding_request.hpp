#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/serving_request.hpp"
#include "server/api/sampling_fields.hpp"
#include "server/api/text_inputs.hpp"

namespace inferno::api {

/// A body of /v1/embeddings.
struct EmbeddingRequest {
  std::vector<TextInput> inputs;  ///< none is empty
  bool base64 = false;            ///< little-endian float32 in base64 instead of numbers
  RequestKind kind = RequestKind::embed_mean;
  bool normalize = true;
  Scheduling scheduling;
};

/// Throws ApiError naming the field.
EmbeddingRequest parse_embedding_request(const Json& body, const RequestLimits& limits);

}  // namespace inferno::api
