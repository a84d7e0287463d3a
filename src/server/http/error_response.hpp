#pragma once

#include <string>
#include <string_view>

#include "server/http/exchange.hpp"

namespace inferno::http {

/// An answer in the shape of OpenAI's errors: {"error": {"message", "type", "param", "code"}}. The type
/// follows from the status. `code` empty: null. What is no UTF-8 in the message is replaced.
Response error_response(unsigned status, std::string_view message, std::string_view code = {});

}  // namespace inferno::http
