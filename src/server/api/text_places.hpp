#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace inferno::api {

/// Follows tokens, and says where in their text each begins. The text is what a StreamDecoder makes of them:
/// bytes that are no character are U+FFFD.
class TextPlaces {
 public:
  struct Place {
    std::size_t bytes = 0;       ///< of the text before it
    std::size_t characters = 0;  ///< the same in characters
  };

  /// Where the text of a token with these bytes begins: behind what it ends without going on with, such as a
  /// character that breaks off. A token that goes on with a character begins where that does.
  Place push(std::string_view bytes);
  /// Where the next one would begin if it went on with an unfinished character.
  const Place& place() const { return place_; }

 private:
  Place place_;          // of what is certain
  std::string pending_;  // the beginning of a character; at most 3 bytes between calls
};

}  // namespace inferno::api
