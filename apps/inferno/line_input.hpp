#pragma once

#include <memory>
#include <string>

#include "typed_bytes.hpp"

namespace inferno::cli {

/// Lines of stdin, whoever writes them.
class LineInput {
 public:
  enum class Came { line, end, interrupt };

  virtual ~LineInput() = default;
  /// Shows `prompt` to whoever types and waits for a line, which comes as UTF-8 without its end. `line` is
  /// what came of it if Ctrl-C came first.
  virtual Came next(const std::string& prompt, std::string& line) = 0;
};

/// Lines as they are: of a pipe or a file, or (`asks`: prompts are shown) of a terminal that can only print.
std::unique_ptr<LineInput> plain_lines(TypedBytes& bytes, bool asks);

/// Lines that somebody edits on a terminal, with the keys of Emacs or those of their ~/.editrc; the arrows
/// bring back earlier ones. Nothing of it is kept in a file. What is drawn goes to stderr.
std::unique_ptr<LineInput> edited_lines(TypedBytes& bytes);

}  // namespace inferno::cli
