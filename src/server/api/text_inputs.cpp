#include "server/api/text_inputs.hpp"

#include <fmt/format.h>
#include <utility>

#include "server/api/error.hpp"
#include "server/api/sampling_fields.hpp"

namespace inferno::api {
namespace {

constexpr std::string_view kExpected = "a string, an array of strings or an array of token ids";

TextInput parse_one(const Json& value, const std::string& path, const RequestLimits& limits) {
  if (const auto* text = value.string()) return *text;
  if (value.array() == nullptr) wrong_type(path, "a string or an array of token ids", value);
  if (value.array()->empty())
    refuse(path, "the array is empty; expected at least one token id", "out_of_range");
  return parse_token_ids(*value.array(), path, limits.vocab_size);
}

}  // namespace

std::vector<TextInput> parse_text_inputs(const Fields& fields, std::string_view name,
                                         const RequestLimits& limits) {
  const auto path = fields.path_of(name);
  const auto* value = fields.find(name);
  if (value == nullptr) refuse(path, fmt::format("is missing; expected {}", kExpected), "missing");
  if (value->string() != nullptr) return {*value->string()};
  if (value->array() == nullptr) wrong_type(path, kExpected, *value);
  const auto& values = *value->array();
  if (values.empty()) refuse(path, fmt::format("the array is empty; expected {}", kExpected), "out_of_range");
  // Ids of one input, unless the first is an input of its own.
  if (values.front().string() == nullptr && values.front().array() == nullptr) {
    return {parse_token_ids(values, path, limits.vocab_size)};
  }
  if (values.size() > kMaxSequences) {
    refuse(path, fmt::format("expected at most {} inputs, found {}", kMaxSequences, values.size()),
           "out_of_range");
  }
  std::vector<TextInput> inputs;
  inputs.reserve(values.size());
  for (const auto& one : values) inputs.push_back(parse_one(one, element_path(path, inputs.size()), limits));
  return inputs;
}

}  // namespace inferno::api
