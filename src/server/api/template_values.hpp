#pragma once

#include "chat/jinja/value.hpp"
#include "server/api/json.hpp"

namespace inferno::api {

/// A request's value as chat templates see it: not trusted, keys in their order. Takes strings out of `value`
/// as it goes, so that a long conversation is not held twice.
jinja::Value take_template_value(Json& value);

}  // namespace inferno::api
