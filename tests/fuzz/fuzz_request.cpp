// Bodies of any kind for every route that reads one: a route's digit, then the body. Whatever it is, it
// becomes a request or a refusal whose own body is valid JSON and UTF-8.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "chat/conversation.hpp"
#include "server/api/chat_request.hpp"
#include "server/api/completion_request.hpp"
#include "server/api/embedding_request.hpp"
#include "server/api/error.hpp"
#include "server/api/token_requests.hpp"
#include "tokenizer/utf8.hpp"

namespace {

using namespace inferno;

void check(bool holds) {
  if (!holds) std::abort();
}

api::RequestLimits limits() {
  api::RequestLimits limits;
  limits.models = {"model"};
  limits.vocab_size = 151936;
  limits.hidden_size = 64;
  return limits;
}

void check_dump(std::string_view body) {
  const auto text = api::dump_json(api::parse_json(body));
  check(utf8_valid_prefix(text) == text.size());
  check(api::dump_json(api::parse_json(text)) == text);
}

void read(char route, std::string_view body) {
  check_dump(body);
  switch (route) {
    case '0': {
      const auto request = api::parse_chat_request(api::parse_json(body), limits());
      check(request.generation.n >= 1 && request.generation.sampling.temperature >= 0);
      normalized_messages(request.conversation.messages, ArgumentForm::object);
      normalized_tools(request.conversation.tools);
      break;
    }
    case '1': {
      const auto request = api::parse_completion_request(api::parse_json(body), limits());
      check(!request.prompts.empty() && request.best_of >= request.generation.n);
      break;
    }
    case '2':
      check(!api::parse_embedding_request(api::parse_json(body), limits()).inputs.empty());
      break;
    case '3':
      api::parse_tokenize_request(api::parse_json(body), limits());
      break;
    default:
      api::parse_detokenize_request(api::parse_json(body), limits());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string answer;
  try {
    read(bytes.front(), bytes.substr(1));
    return 0;
  } catch (const api::ApiError& error) {
    answer = error.body();
  } catch (const UsageError& error) {
    answer = api::from_usage_error(error, "messages").body();
  }
  check(utf8_valid_prefix(answer) == answer.size());
  check(nlohmann::json::accept(answer));
  return 0;
}
