#include "server/api/foreign_fields.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "server/api/error.hpp"

namespace inferno::api {
namespace {

struct Foreign {
  std::string_view name;
  std::string_view advice;
};

constexpr std::string_view kForm =
    "use response_format with {\"type\": \"json_schema\", …}, the only way here to give an answer a form";
constexpr std::string_view kBias = "use logit_bias, where -100 bans a token";

// llama.cpp, vLLM, SGLang and TensorRT-LLM.
constexpr Foreign kForeign[] = {
    {"json_schema", kForm},
    {"grammar", kForm},
    {"guided_json", kForm},
    {"guided_regex", kForm},
    {"guided_choice", kForm},
    {"guided_grammar", kForm},
    {"guided_decoding", kForm},
    {"structured_outputs", kForm},
    {"structural_tag", kForm},
    {"regex", kForm},
    {"ebnf", kForm},
    {"min_tokens", "answers have no least length here"},
    {"min_completion_tokens", "answers have no least length here"},
    {"bad_words", kBias},
    {"allowed_token_ids", kBias},
    {"logits_processors", kBias},
    {"stop_regex", "use stop, which takes strings"},
    {"include_stop_str_in_output", "an answer ends before its stop string"},
    {"use_beam_search", "tokens are drawn one by one here"},
    {"documents", "put them into messages, or into chat_template_kwargs if the model's template reads them"},
};

/// Whether a value asks for nothing: false, 0, an empty string or array, an object of such members.
bool is_empty(const Json& value) {
  if (value.is_null()) return true;
  if (const auto* text = value.string()) return text->empty();
  if (const auto* list = value.array()) return list->empty();
  if (const auto* object = value.object()) {
    return std::all_of(object->members().begin(), object->members().end(),
                       [](const Json::Member& member) { return is_empty(member.second); });
  }
  if (const auto number = real(value)) return *number == 0;
  const auto* truth = value.boolean();
  return truth != nullptr && !*truth;
}

}  // namespace

void refuse_foreign_fields(const Fields& fields) {
  for (const auto& [name, advice] : kForeign) {
    const auto* value = fields.find(name);
    if (value == nullptr || is_empty(*value)) continue;
    refuse(fields.path_of(name), fmt::format("is not supported; {}", advice), "unsupported");
  }
}

}  // namespace inferno::api
