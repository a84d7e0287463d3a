#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace inferno {

/// Cuts text into the words that BPE merges within, by Qwen2's pattern:
/// contractions | letters with at most one other character before | one digit | other characters with a
/// space before and line ends after | white space up to a line end | white space before a word | white space.
/// Immutable; safe to use from several threads.
class Pretokenizer {
 public:
  struct Options {
    bool jit = true;  ///< compile the pattern to machine code where PCRE2 can
  };

  Pretokenizer();
  explicit Pretokenizer(const Options& options);
  ~Pretokenizer();
  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;

  /// Sets `ends` to the offset past each word of `text` (valid UTF-8); the last is the text's size.
  void split(std::string_view text, std::vector<std::size_t>& ends) const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace inferno
