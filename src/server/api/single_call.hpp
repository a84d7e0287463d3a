#pragma once

#include <memory>

#include "chat/output_parser.hpp"
#include "engine/serving_request.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno::api {

/// "parallel_tool_calls": false, where the model may call or answer: lets every token come and ends the text
/// with its first whole tool call. `tokenizer` must outlive it.
std::shared_ptr<TokenConstraint> end_after_first_call(const Tokenizer& tokenizer,
                                                      const OutputParserOptions& options);

}  // namespace inferno::api
