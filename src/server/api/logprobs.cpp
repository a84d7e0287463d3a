#include "server/api/logprobs.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/api/json_text.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno::api {
namespace {

/// What OpenAI writes where a probability is 0, whose logarithm JSON cannot say.
constexpr std::string_view kNever = "-9999.0";
constexpr std::string_view kHex = "0123456789abcdef";
constexpr std::string_view kBytes = "bytes:";

/// Tokens that are no text are told apart by their bytes, which OpenAI spells differently in chats and in
/// completions, where `prefix` is "bytes:".
std::string token_name(TokenId id, const Tokenizer& tokenizer, std::string_view prefix) {
  const auto bytes = tokenizer.bytes(id);
  if (utf8_valid_prefix(bytes) == bytes.size()) return std::string(bytes);
  std::string name(prefix);
  for (const char c : bytes) {
    name += "\\x";
    name += kHex[static_cast<unsigned char>(c) >> 4U];
    name += kHex[static_cast<unsigned char>(c) & 15U];
  }
  return name;
}

void append_token(std::string& out, TokenId id, float logprob, const Tokenizer& tokenizer) {
  const auto bytes = tokenizer.bytes(id);
  out += R"({"token":)";
  append_json_string(out, token_name(id, tokenizer, ""));
  out += R"(,"logprob":)";
  append_json_float(out, logprob, kNever);
  out += R"(,"bytes":)";
  if (tokenizer.is_control(id)) {
    out += "null";
  } else {
    append_json_bytes(out, bytes);
  }
}

void append_comma(std::string& list) {
  if (!list.empty()) list += ',';
}

}  // namespace

void append_chat_logprob(std::string& out, const TokenEvent& event, const Tokenizer& tokenizer) {
  append_comma(out);
  append_token(out, event.id, event.logprob, tokenizer);
  out += R"(,"top_logprobs":[)";
  for (const auto& top : event.top) {
    if (&top != event.top.data()) out += ',';
    append_token(out, top.id, top.logprob, tokenizer);
    out += '}';
  }
  out += "]}";
}

void CompletionLogprobs::add(const PlacedToken& token, bool is_first, const Tokenizer& tokenizer) {
  const auto& event = token.event;
  for (auto* list : {&tokens_, &token_logprobs_, &top_logprobs_, &offsets_}) append_comma(*list);
  append_json_string(tokens_, token_name(event.id, tokenizer, kBytes));
  append_json_integer(offsets_, static_cast<std::int64_t>(token.offset));
  if (is_first) {
    token_logprobs_ += "null";
    top_logprobs_ += "null";
    return;
  }
  append_json_float(token_logprobs_, event.logprob, kNever);
  std::vector<std::string> names;
  const auto add_top = [&](TokenId id, float logprob) {
    auto name = token_name(id, tokenizer, kBytes);
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    if (!names.empty()) top_logprobs_ += ',';
    append_json_string(top_logprobs_, name);
    top_logprobs_ += ':';
    append_json_float(top_logprobs_, logprob, kNever);
    names.push_back(std::move(name));
  };
  top_logprobs_ += '{';
  for (const auto& top : event.top) add_top(top.id, top.logprob);
  // The chosen one is there even if it is none of the most likely.
  add_top(event.id, event.logprob);
  top_logprobs_ += '}';
}

void CompletionLogprobs::append_to(std::string& out) const {
  out.append(R"({"text_offset":[)").append(offsets_);
  out.append(R"(],"token_logprobs":[)").append(token_logprobs_);
  out.append(R"(],"tokens":[)").append(tokens_);
  out.append(R"(],"top_logprobs":[)").append(top_logprobs_);
  out += "]}";
}

void CompletionLogprobs::clear() {
  for (auto* list : {&tokens_, &token_logprobs_, &top_logprobs_, &offsets_}) list->clear();
}

}  // namespace inferno::api
