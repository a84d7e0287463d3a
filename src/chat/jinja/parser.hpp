#pragma once

#include <string_view>

#include "chat/jinja/ast.hpp"

namespace inferno::jinja {

/// Longest template that is read. Published ones have at most some 30 KiB.
inline constexpr std::size_t kMaxTemplateBytes = std::size_t{256} << 10U;

/// Reads a template. Throws TemplateError for syntax errors, unknown tags, filters and tests, and for
/// templates that are too long or nested too deep.
Body parse_template(std::string_view source);

}  // namespace inferno::jinja
