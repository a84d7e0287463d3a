#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace inferno::api {

/// 64 bits that nobody can foretell from those before (seeds of requests without one, ids).
std::uint64_t random_number();
/// `prefix` and 24 letters and digits at random: "chatcmpl-…", "call_…".
std::string random_id(std::string_view prefix);

}  // namespace inferno::api
