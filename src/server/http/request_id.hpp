#pragma once

#include <string>
#include <string_view>

namespace inferno::http {

/// What an answer says in X-Request-Id: the client's own id, if it has one of up to 128 letters, digits and
/// "-_.:", or a new one.
std::string request_id(std::string_view of_client);

}  // namespace inferno::http
