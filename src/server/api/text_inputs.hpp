#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/api/request_limits.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno::api {

/// One prompt or input as a request states it.
using TextInput = std::variant<std::string, std::vector<TokenId>>;

/// A field that is a string, an array of strings, an array of token ids, or an array of such arrays. At least
/// one input, at most kMaxSequences; no array of ids is empty. Throws ApiError naming the place.
std::vector<TextInput> parse_text_inputs(const Fields& fields, std::string_view name,
                                         const RequestLimits& limits);

}  // namespace inferno::api
