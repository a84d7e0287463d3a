#include "server/api/response_format.hpp"

#include <fmt/format.h>

#include "platform/quote.hpp"
#include "server/api/error.hpp"

namespace inferno::api {

ResponseFormat parse_response_format(const Fields& fields) {
  using Kind = ResponseFormat::Kind;
  const auto format = fields.object("response_format");
  if (!format) return {};
  const auto path = format->path_of("type");
  const auto type = format->string("type");
  if (!type) refuse(path, R"(is missing; expected "text", "json_object" or "json_schema")", "missing");
  if (*type == "text") return {};
  if (*type == "json_object") return {Kind::json_object, {}};
  if (*type != "json_schema") {
    refuse(path,
           fmt::format(R"(expected "text", "json_object" or "json_schema", found {})", quote(*type, 40)),
           "invalid_value");
  }
  const auto holder = format->object("json_schema");
  if (!holder)
    refuse(format->path_of("json_schema"), "is missing; expected {\"name\": …, \"schema\": …}", "missing");
  holder->string("name");
  holder->boolean("strict");
  const auto* schema = holder->find("schema");
  if (schema == nullptr) refuse(holder->path_of("schema"), "is missing; expected a JSON schema", "missing");
  if (schema->object() == nullptr && schema->boolean() == nullptr) {
    wrong_type(holder->path_of("schema"), "an object", *schema);
  }
  return {Kind::json_schema, dump_json(*schema)};
}

}  // namespace inferno::api
