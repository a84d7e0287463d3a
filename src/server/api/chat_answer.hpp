#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/output_parser.hpp"
#include "server/api/answer.hpp"
#include "server/api/chat_request.hpp"
#include "server/api/sse.hpp"
#include "server/api/text_places.hpp"
#include "server/api/token_gate.hpp"
#include "server/api/usage.hpp"

namespace inferno::api {

/// What a chat's prompt has become: what its choices are made of.
struct ChatPlan {
  std::vector<TokenId> prompt;
  Thoughts thoughts = Thoughts::none;
  GenerationFields generation;
  std::optional<std::uint32_t> logprobs;
  bool parses_calls = false;         ///< <tool_call> blocks are calls
  bool single_call = false;          ///< the answer ends with the first
  bool plain_content = false;        ///< behind the thoughts there are no tags
  std::shared_ptr<const Form> form;  ///< nullptr: any answer will do

  /// An answer in a form has its tags as tokens where the vocabulary has them: the form goes by tokens, so
  /// what spells a tag in letters is no more than text.
  OutputParserOptions parser_options(const TagTokens& tokens) const;
};

/// An answer of /v1/chat/completions: text split into thoughts, content and tool calls, whole or as chunks.
class ChatAnswer : public Answer {
 public:
  ChatAnswer(std::shared_ptr<Service> service, std::shared_ptr<http::Exchange> exchange,
             std::shared_ptr<Presence> presence, ChatPlan plan);

 protected:
  ServingRequest make_request(std::size_t sequence) override;
  void take(std::size_t sequence, StreamUpdate& update) override;
  std::string opening() override;
  std::string closing() override;

 private:
  struct Call {
    std::string id, name, arguments;
    bool is_whole = false;
  };
  struct Choice {
    Choice(const Service& service, const ChatPlan& plan);
    OutputParser parser;
    ThoughtCounter thoughts;
    std::optional<TextPlaces> places;  ///< of tokens, if only tokens are tags
    std::optional<TokenGate> gate;     ///< if log-probabilities are wanted
    std::string logprobs;              ///< certain and (if streamed) not yet sent: items of the list
    std::string reasoning, content;
    std::vector<Call> calls;
    std::string_view finish_reason;
  };

  void tell_tag(Choice& choice, TokenId id) const;
  void parse(Choice& choice, std::string_view text, OutputDelta& news) const;
  void add(Choice& choice, OutputDelta delta, OutputDelta& news) const;
  void append_chunk(std::size_t index, Choice& choice, const OutputDelta& news,
                    std::string_view finish_reason);
  void append_call_news(const Choice& choice, const ToolCallDelta& call);
  void append_logprobs(std::string& out, Choice& choice) const;
  void append_choice(std::string& out, std::size_t index, Choice& choice) const;

  ChatPlan plan_;
  std::string id_;
  std::int64_t created_;
  ChunkFrame frame_;
  std::vector<Choice> choices_;
  std::vector<PlacedToken> ready_;
  Usage usage_;
};

}  // namespace inferno::api
