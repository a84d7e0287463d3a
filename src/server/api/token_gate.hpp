#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/serving_request.hpp"
#include "server/api/text_places.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno::api {

/// A token and where its text begins, in characters.
struct PlacedToken {
  TokenEvent event;
  std::size_t offset = 0;
};

/// Holds tokens, and what is known of them, until their text is certain: the beginning of a stop string must
/// not show in the list of log-probabilities either. Tokens put together are the answer's text; the last may
/// reach beyond it where a stop string cut it. The token that ends a text is not part of the list.
class TokenGate {
 public:
  /// `first_offset`: characters that stand before the first token's text.
  TokenGate(const Tokenizer& tokenizer, std::size_t first_offset);

  void push(TokenEvent event);
  /// So many more bytes of text are certain; tokens whose text begins before them are appended to `ready`.
  void release(std::size_t bytes, std::vector<PlacedToken>& ready);
  /// The request is over.
  void finish(const RequestOutcome& outcome, std::vector<PlacedToken>& ready);

 private:
  struct Held {
    PlacedToken token;
    std::size_t begin = 0;  ///< byte of the text
  };

  const Tokenizer& tokenizer_;
  TextPlaces places_;
  std::size_t first_offset_;
  std::size_t released_ = 0;
  std::deque<Held> held_;
};

/// Characters of valid UTF-8.
std::size_t count_characters(std::string_view text);

}  // namespace inferno::api
