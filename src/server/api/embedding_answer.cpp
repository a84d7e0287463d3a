#include "server/api/embedding_answer.hpp"

#include <bit>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <span>
#include <utility>

#include "server/api/base64.hpp"
#include "server/api/json_text.hpp"

namespace inferno::api {
namespace {

std::string as_json(std::span<const float> values, bool base64) {
  std::string out;
  if (base64) {
    std::string bytes;
    bytes.reserve(values.size() * sizeof(float));
    for (const auto value : values) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift & 0xFFU);
    }
    out += '"';
    append_base64(out, bytes);
    out += '"';
    return out;
  }
  out += '[';
  for (const auto& value : values) {
    if (&value != values.data()) out += ',';
    append_json_float(out, value, "null");
  }
  out += ']';
  return out;
}

}  // namespace

EmbeddingAnswer::EmbeddingAnswer(std::shared_ptr<Service> service, std::shared_ptr<http::Exchange> exchange,
                                 std::shared_ptr<Presence> presence, EmbeddingPlan plan)
    : Answer(std::move(service), std::move(exchange), std::move(presence), plan.inputs.size(), false),
      plan_(std::move(plan)),
      vectors_(plan_.inputs.size()),
      usage_(plan_.inputs.size()) {}

ServingRequest EmbeddingAnswer::make_request(std::size_t sequence) {
  ServingRequest request;
  request.kind = plan_.request.kind;
  request.prompt_ids = plan_.inputs[sequence];
  request.normalize = plan_.request.normalize;
  request.priority = plan_.request.scheduling.priority;
  request.cache_namespace = plan_.request.scheduling.cache_namespace;
  return request;
}

void EmbeddingAnswer::take(std::size_t sequence, StreamUpdate& update) {
  if (!update.embedding.empty()) vectors_[sequence] = as_json(update.embedding, plan_.request.base64);
  if (update.outcome) usage_.add(sequence, update.outcome->usage, 0);
}

std::string EmbeddingAnswer::closing() {
  std::string text = R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < vectors_.size(); ++i) {
    if (i > 0) text += ',';
    text += R"({"object":"embedding","index":)";
    append_json_integer(text, static_cast<std::int64_t>(i));
    text.append(R"(,"embedding":)").append(vectors_[i]).append("}");
  }
  text += R"(],"model":)";
  append_json_string(text, service().options.model_name);
  fmt::format_to(std::back_inserter(text), R"(,"usage":{{"prompt_tokens":{0},"total_tokens":{0}}}}})",
                 usage_.prompt_tokens());
  return text;
}

}  // namespace inferno::api
