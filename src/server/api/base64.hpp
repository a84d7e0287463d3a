#pragma once

#include <string>
#include <string_view>

namespace inferno::api {

/// Appends bytes in base64, with padding (RFC 4648, section 4).
void append_base64(std::string& out, std::string_view bytes);

}  // namespace inferno::api
