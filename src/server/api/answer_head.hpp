#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/api/api.hpp"

namespace inferno::api {

/// The members that an answer and all its chunks have in common, with a comma at the end:
/// "id", "object", "created" (seconds since 1970), "model", "system_fingerprint".
std::string answer_head(std::string_view id, std::string_view object, std::int64_t created,
                        const ApiOptions& options);

}  // namespace inferno::api
