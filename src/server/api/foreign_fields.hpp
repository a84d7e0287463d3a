#pragma once

#include "server/api/fields.hpp"

namespace inferno::api {

/// Unknown fields are ignored, but not those by which other servers' clients say what an answer must or must
/// not be: an answer that does not heed them would be taken for one that does. Throws ApiError for the first
/// that asks for anything.
void refuse_foreign_fields(const Fields& fields);

}  // namespace inferno::api
