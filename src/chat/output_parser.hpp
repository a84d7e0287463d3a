#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/prompt.hpp"
#include "chat/tool_call_scanner.hpp"

namespace inferno {

/// News of one tool call. The name comes once, with `begins`; the pieces of `arguments` put together are the
/// arguments' JSON text as the model wrote it.
struct ToolCallDelta {
  std::size_t index = 0;  ///< of the call in the answer
  bool begins = false;
  std::string name;
  std::string arguments;
  bool ends = false;  ///< the call is whole; one that never ends was cut off or is broken
};

/// What a piece of a model's output adds to the answer.
struct OutputDelta {
  std::string reasoning;
  std::string content;
  std::vector<ToolCallDelta> calls;
  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};

struct OutputParserOptions {
  bool reasoning = true;             ///< a <think> block at the beginning is reasoning
  bool begins_in_reasoning = false;  ///< the prompt ends inside of the block (see ends_in_reasoning)
  bool tool_calls = false;           ///< <tool_call> blocks of the answer are calls
};

/// Whether a prompt ends with the template's <think>, so that the model's first words are thoughts.
bool ends_in_reasoning(const Prompt& prompt);

/// Splits a model's output into thoughts, answer and tool calls while it is generated, in Qwen3's form:
/// <think>…</think>, then text and <tool_call>{…}</tool_call> blocks. Neither tags nor parts of them come
/// out, however the output is cut into pieces; joined, what comes out does not depend on the cuts.
///
/// Blank lines around thoughts are left out, also blanks between the answer and the calls. A tool call that
/// is drafted in the thoughts stays there. A block that is no call (no JSON, no name, arguments that are no
/// JSON) comes out as content, without its tags; of a call that had begun by then it does not end.
class OutputParser {
 public:
  explicit OutputParser(const OutputParserOptions& options);

  OutputDelta push(std::string_view text);
  /// The output is over: what was held back.
  /// `cut`: a stop string ended the text, perhaps within a tag; what seems to be the beginning of one (of two
  /// characters at least) then goes with it.
  OutputDelta finish(bool cut = false);

  /// Calls that began.
  std::size_t calls() const { return calls_; }

 private:
  enum class State : unsigned char { beginning, reasoning, content, call, after_call };

  /// Takes what can be decided out of `held_`; false if more must come first.
  void drop_partial_tag();
  bool step(OutputDelta& delta, bool at_end);
  bool step_beginning(bool at_end);
  bool step_reasoning(OutputDelta& delta, bool at_end);
  bool step_content(OutputDelta& delta, bool at_end);
  bool step_call(OutputDelta& delta, bool at_end);
  bool step_after_call(OutputDelta& delta, bool at_end);
  void report_call(OutputDelta& delta, bool ends);
  void drop_blanks();

  OutputParserOptions options_;
  State state_;
  std::string held_;
  bool skip_blanks_;  ///< nothing but blanks has come since a tag
  std::size_t calls_ = 0;
  bool call_began_ = false;
  bool has_whole_call_ = false;
  std::string blanks_before_;  ///< the call that is being read: text again if it turns out to be none
  ToolCallScanner scanner_;
};

}  // namespace inferno
