#include "server/api/embedding_request.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <variant>

#include "platform/quote.hpp"
#include "server/api/error.hpp"

namespace inferno::api {
namespace {

/// One of two words; the first is the default.
bool is_second(const Fields& fields, std::string_view name, std::string_view first, std::string_view second,
               bool otherwise) {
  const auto word = fields.string(name);
  if (!word) return otherwise;
  if (*word == first) return false;
  if (*word == second) return true;
  refuse(fields.path_of(name),
         fmt::format(R"(expected "{}" or "{}", found {})", first, second, quote(*word, 40)), "invalid_value");
}

}  // namespace

EmbeddingRequest parse_embedding_request(const Json& body, const RequestLimits& limits) {
  const Fields fields(body, "");
  check_model(fields, limits);
  EmbeddingRequest request;
  request.inputs = parse_text_inputs(fields, "input", limits);
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const auto* text = std::get_if<std::string>(&request.inputs[i]);
    if (text == nullptr || !text->empty()) continue;
    refuse(fields.find("input")->string() != nullptr ? "input" : element_path("input", i),
           "the text is empty; expected at least one character", "out_of_range");
  }
  request.base64 = is_second(fields, "encoding_format", "float", "base64", false);
  request.kind = is_second(fields, "pooling", "mean", "last", limits.pooling == "last")
                     ? RequestKind::embed_last_token
                     : RequestKind::embed_mean;
  request.normalize = fields.boolean("normalize").value_or(true);
  const auto dimensions = fields.integer("dimensions", 1);
  if (dimensions && *dimensions != static_cast<std::int64_t>(limits.hidden_size)) {
    refuse("dimensions",
           fmt::format("this model's embeddings have {} dimensions and cannot be shortened, found {}",
                       limits.hidden_size, number_text(*fields.find("dimensions"))),
           "unsupported");
  }
  request.scheduling = parse_scheduling(fields, limits);
  return request;
}

}  // namespace inferno::api
