#pragma once

#include <cstddef>
#include <deque>
#include <span>
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
  bool reasoning = true;             ///< <think> blocks are reasoning
  bool begins_in_reasoning = false;  ///< the prompt ends inside of a block (see ends_in_reasoning)
  /// The answer behind the first thoughts is JSON, or calls instead of it: what spells a tag in JSON is text.
  bool plain_content = false;
  bool tool_calls = false;  ///< <tool_call> blocks of the answer are calls
  /// Tags stand only where `tag_at` says so; what merely spells one is text. False: both count.
  bool tags_are_told = false;
};

/// Whether a prompt ends with the template's <think>, so that the model's first words are thoughts.
bool ends_in_reasoning(const Prompt& prompt);

/// Splits a model's output into thoughts, answer and tool calls while it is generated, in Qwen3's form:
/// <think>…</think>, then text and <tool_call>{…}</tool_call> blocks. Neither tags nor parts of them come
/// out, however the output is cut into pieces; joined, what comes out does not depend on the cuts.
///
/// Thoughts that begin again later are thoughts, too, joined by a blank line. Tags that stand where they mean
/// nothing (an opening one within thoughts, a closing one in the answer) are dropped. What merely spells a
/// tag is told from one only with `tags_are_told`.
///
/// Blank lines around thoughts are left out, also blanks between the answer and the calls. A tool call that
/// is drafted in the thoughts stays there, as text. A block that is no call (no JSON, no name, arguments that
/// are no object or stand under another name) comes out as content, without its tags; a call that had begun
/// by then does not end, and lacks the last brace of its arguments.
class OutputParser {
 public:
  explicit OutputParser(const OutputParserOptions& options);

  /// A tag begins at this byte of all the text together. Before the text is pushed, in ascending order.
  void tag_at(std::size_t byte) { told_.push_back(byte); }
  /// Takes time in proportion to `text`.
  OutputDelta push(std::string_view text);
  /// The output is over: what was held back.
  /// `cut`: not the model ended the text, and perhaps within a tag; what seems to be the beginning of one (of
  /// two characters at least) then goes with it.
  OutputDelta finish(bool cut = false);

  /// Calls that began.
  std::size_t calls() const { return calls_; }
  /// One of those that began turned out to be none.
  bool has_false_call() const { return has_false_call_; }
  /// The output ended within a call, perhaps before anything of it could be told.
  bool ended_in_call() const { return ended_in_call_; }

 private:
  enum class State : unsigned char { beginning, reasoning, content, call, after_call };

  /// The first place in `held_` where a tag stands, or could stand with more text; its end if there is none.
  struct TagPlace {
    std::size_t begin = 0;
    std::string_view tag;  ///< empty: it is not complete
  };

  std::span<const std::string_view> tags() const;
  TagPlace find_tag() const;
  /// Whether a tag may begin at this byte of `held_`.
  bool may_begin(std::size_t at) const;
  void drop(std::size_t size);
  void drop_blanks();
  void drop_partial_tag();
  /// Takes what can be decided out of `held_`; false if more must come first.
  bool step(OutputDelta& delta, bool at_end);
  bool step_beginning(bool at_end);
  bool step_reasoning(OutputDelta& delta, bool at_end);
  bool step_content(OutputDelta& delta, bool at_end);
  void take_content_tag(std::string_view tag);
  bool step_call(OutputDelta& delta, bool at_end);
  bool step_after_call(bool at_end);
  void give_up_call(OutputDelta& delta);
  void report_call(OutputDelta& delta, bool ends);
  /// Text goes out with the blanks before it; those at its end wait for what follows them.
  void pass_on(std::string& out, std::string_view text);
  void enter_reasoning();
  void leave_reasoning();

  OutputParserOptions options_;
  State state_ = State::content;
  std::string held_;              ///< not decided: between pushes no more than the beginning of a tag
  std::size_t dropped_ = 0;       ///< bytes of the text before it
  std::deque<std::size_t> told_;  ///< bytes of the text where tags begin, from `held_` on
  std::string blanks_;        ///< stand before it, and may turn out to stand around thoughts or before a call
  bool skip_blanks_ = false;  ///< nothing but blanks has come since a tag
  bool has_thoughts_ = false;    ///< some have come out
  bool thoughts_anew_ = false;   ///< none of a later block have
  bool in_broken_call_ = false;  ///< its closing tag is still to come
  bool is_plain_ = false;        ///< the content has begun, and has no tags
  std::size_t calls_ = 0;
  bool call_began_ = false;
  bool has_false_call_ = false;
  bool ended_in_call_ = false;
  bool has_whole_call_ = false;
  std::string blanks_before_;  ///< the call or the thoughts that are being read, in the answer
  ToolCallScanner scanner_;
};

}  // namespace inferno
