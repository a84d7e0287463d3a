#include "server/api/tools.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unordered_set>
#include <utility>

#include "platform/quote.hpp"
#include "server/api/error.hpp"

namespace inferno::api {
namespace {

constexpr std::size_t kMaxName = 64;

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

void expect_function(const Fields& fields) {
  const auto path = fields.path_of("type");
  const auto type = fields.string("type");
  if (!type) refuse(path, "is missing; expected \"function\"", "missing");
  if (*type == "function") return;
  refuse(path, fmt::format("expected \"function\", found {}", quote(*type, 40)), "unsupported");
}

std::string function_name(const Fields& function) {
  const auto path = function.path_of("name");
  auto name = function.string("name");
  if (!name) refuse(path, "is missing; expected the function's name", "missing");
  return std::move(*name);
}

Tool parse_tool(const Json& value, const std::string& path) {
  const Fields fields(value, path);
  expect_function(fields);
  const auto function = fields.object("function");
  if (!function)
    refuse(fields.path_of("function"), "is missing; expected {\"name\": …, \"parameters\": …}", "missing");
  Tool tool;
  tool.name = function_name(*function);
  if (!is_name(tool.name)) {
    refuse(function->path_of("name"),
           fmt::format("expected up to {} letters, digits, '_', '-' and '.', found {}", kMaxName,
                       quote(tool.name, 80)),
           "invalid_value");
  }
  function->string("description");
  tool.strict = function->boolean("strict").value_or(false);
  if (function->object("parameters")) tool.parameters = dump_json(*function->find("parameters"));
  return tool;
}

}  // namespace

std::vector<Tool> parse_tools(const Fields& fields) {
  for (const auto* old : {"functions", "function_call"}) {
    if (fields.find(old) == nullptr) continue;
    refuse(fields.path_of(old), "is not supported; use tools and tool_choice", "unsupported");
  }
  std::vector<Tool> tools;
  const auto* values = fields.array("tools");
  if (values == nullptr) return tools;
  std::unordered_set<std::string> names;
  for (const auto& value : *values) {
    const auto path = element_path(fields.path_of("tools"), tools.size());
    tools.push_back(parse_tool(value, path));
    if (names.insert(tools.back().name).second) continue;
    refuse(path + ".function.name",
           fmt::format("{} is the name of an earlier tool", quote(tools.back().name)), "invalid_value");
  }
  return tools;
}

ToolChoice parse_tool_choice(const Fields& fields, const std::vector<Tool>& tools) {
  using Kind = ToolChoice::Kind;
  const auto path = fields.path_of("tool_choice");
  const auto* value = fields.find("tool_choice");
  if (value == nullptr) return {tools.empty() ? Kind::none : Kind::automatic, {}};
  ToolChoice choice;
  if (const auto* word = value->string()) {
    if (*word == "none") return {Kind::none, {}};
    if (*word == "auto") return {tools.empty() ? Kind::none : Kind::automatic, {}};
    if (*word != "required") {
      refuse(path,
             fmt::format(R"(expected "none", "auto", "required" or a function, found {})", quote(*word, 40)),
             "invalid_value");
    }
    choice.kind = Kind::required;
  } else if (value->object() != nullptr) {
    const Fields named(*value, path);
    expect_function(named);
    const auto function = named.object("function");
    if (!function) refuse(named.path_of("function"), "is missing; expected {\"name\": …}", "missing");
    choice = {Kind::named, function_name(*function)};
    const auto is_it = [&](const Tool& tool) { return tool.name == choice.name; };
    if (std::none_of(tools.begin(), tools.end(), is_it)) {
      refuse(function->path_of("name"), fmt::format("there is no tool {}", quote(choice.name, 80)),
             "invalid_value");
    }
  } else {
    wrong_type(path, "a string or an object", *value);
  }
  if (tools.empty()) refuse(path, "a call is required, but there are no tools", "invalid_value");
  return choice;
}

}  // namespace inferno::api
