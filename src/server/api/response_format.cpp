#include "server/api/response_format.hpp"

#include <fmt/format.h>

#include "platform/quote.hpp"
#include "server/api/error.hpp"

namespace inferno::api {
namespace {

using Kind = ResponseFormat::Kind;

/// The schema in a member of `holder`.
ResponseFormat format_of_schema(const Fields& holder, std::string_view name) {
  const auto path = holder.path_of(name);
  const auto* schema = holder.find(name);
  if (schema == nullptr) refuse(path, "is missing; expected a JSON schema", "missing");
  if (schema->object() == nullptr && schema->boolean() == nullptr) wrong_type(path, "an object", *schema);
  return {Kind::json_schema, dump_json(*schema), path};
}

/// Nothing that states a form is left out of account.
void refuse_beside(const Fields& format, std::string_view name, std::string_view type) {
  if (format.find(name) == nullptr) return;
  refuse(format.path_of(name), fmt::format("is not followed with the type \"{}\"", type), "invalid_value");
}

}  // namespace

ResponseFormat parse_response_format(const Fields& fields) {
  const auto format = fields.object("response_format");
  if (!format) return {};
  const auto path = format->path_of("type");
  const auto type = format->string("type");
  if (!type) refuse(path, R"(is missing; expected "text", "json_object" or "json_schema")", "missing");
  if (*type == "json_schema") {
    refuse_beside(*format, "schema", *type);
    const auto holder = format->object("json_schema");
    if (!holder)
      refuse(format->path_of("json_schema"), "is missing; expected {\"name\": …, \"schema\": …}", "missing");
    for (const auto* name : {"name", "description"}) holder->string(name);
    holder->boolean("strict");
    return format_of_schema(*holder, "schema");
  }
  if (*type != "text" && *type != "json_object") {
    refuse(path,
           fmt::format(R"(expected "text", "json_object" or "json_schema", found {})", quote(*type, 40)),
           "invalid_value");
  }
  refuse_beside(*format, "json_schema", *type);
  if (*type == "json_object") {
    if (format->find("schema") != nullptr) return format_of_schema(*format, "schema");
    return {Kind::json_object, {}, {}};
  }
  refuse_beside(*format, "schema", *type);
  return {};
}

}  // namespace inferno::api
