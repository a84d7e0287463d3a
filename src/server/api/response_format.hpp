#pragma once

#include <cstdint>
#include <string>

#include "server/api/fields.hpp"

namespace inferno::api {

/// What form the answer must have.
struct ResponseFormat {
  enum class Kind : std::uint8_t { text, json_object, json_schema };
  Kind kind = Kind::text;
  std::string schema;       ///< JSON text
  std::string schema_path;  ///< where in the request it stands, for messages about it
};

/// `response_format`. A `schema` beside "json_object", as other servers take it, is followed, too. Throws
/// ApiError for kinds that are not known, and for a schema where none is followed; the schema itself is read
/// by whoever compiles it (constraints.hpp).
ResponseFormat parse_response_format(const Fields& fields);

}  // namespace inferno::api
