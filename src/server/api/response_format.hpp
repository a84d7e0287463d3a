#pragma once

#include <cstdint>
#include <string>

#include "server/api/fields.hpp"

namespace inferno::api {

/// What form the answer must have.
struct ResponseFormat {
  enum class Kind : std::uint8_t { text, json_object, json_schema };
  Kind kind = Kind::text;
  std::string schema;  ///< JSON text
};

/// `response_format`. Throws ApiError for kinds that are not known; the schema itself is read by whoever
/// compiles it (constraints.hpp).
ResponseFormat parse_response_format(const Fields& fields);

/// Where the schema stands, for messages about it.
inline constexpr std::string_view kSchemaPath = "response_format.json_schema.schema";

}  // namespace inferno::api
