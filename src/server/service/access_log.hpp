#pragma once

#include <string>

#include "server/http/options.hpp"

namespace inferno::service {

/// One line about a request: who, what, status, how long, how much, and what the handler noted of it. Never
/// headers, queries or bodies; a path of unknown origin is quoted.
std::string access_line(const http::Answered& answered);

}  // namespace inferno::service
