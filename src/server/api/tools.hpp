#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/api/fields.hpp"

namespace inferno::api {

/// A function that the model may call.
struct Tool {
  std::string name;
  std::string parameters;  ///< JSON text of its schema; empty: none was given
  bool strict = false;     ///< its arguments follow the schema also where a call is not required
};

/// `tools`: checked, in their order. Throws ApiError for other kinds of tools, for names that are none (up to
/// 64 letters, digits, '_', '-', '.') and for names that come twice.
std::vector<Tool> parse_tools(const Fields& fields);

struct ToolChoice {
  enum class Kind : std::uint8_t { none, automatic, required, named };
  Kind kind = Kind::none;
  std::string name;  ///< of the function, if named
};

/// `tool_choice`; without it "auto" if there are tools. Throws ApiError for a function that is not there, and
/// for a call that is required without tools.
ToolChoice parse_tool_choice(const Fields& fields, const std::vector<Tool>& tools);

}  // namespace inferno::api
