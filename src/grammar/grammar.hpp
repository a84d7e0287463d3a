#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <inferno/error.hpp>

#include "engine/serving_request.hpp"
#include "tokenizer/tokenizer.hpp"

/// Output that must have a form: JSON, JSON that a schema describes, text that a pattern matches, tool calls.
/// A form is compiled to a Grammar once; for each request `constrain` makes of it a TokenConstraint that
/// says, token by token, which may come. See docs/grammar.md.
namespace inferno::grammar {

/// A schema (or pattern) that cannot be followed exactly, and is refused for it.
class SchemaError : public UsageError {
 public:
  SchemaError(std::string path, const std::string& message, std::size_t document = 0);
  /// JSON pointer of the place in the schema, as it would stand in a URI's fragment: "" is the whole schema,
  /// "/properties/a/pattern" one keyword.
  const std::string& path() const { return path_; }
  /// What is wrong there and what would be accepted: one line, without the path (`what()` has both).
  const std::string& message() const { return message_; }
  /// Of several schemas, which: the tool's index for `tool_calls`; 0 otherwise.
  std::size_t document() const { return document_; }

 private:
  std::string path_;
  std::string message_;
  std::size_t document_;
};

/// The byte strings of a model's tokens, arranged for walking. Built once per model (about 0.2 s for 150,000
/// tokens), immutable to its users, safe to share between threads.
class Vocabulary;
/// `vocabulary_rows`: how many ids the model gives logits for; ids without text are never allowed.
std::shared_ptr<const Vocabulary> make_vocabulary(const Tokenizer& tokenizer, std::uint32_t vocabulary_rows);

/// What a text may be: compiled, immutable to its users, safe to share between threads and requests. It
/// remembers masks, so one Grammar for many requests with the same schema is cheaper than one each.
class Grammar;

/// Any JSON object.
std::shared_ptr<const Grammar> json_object();
/// The values that a JSON schema allows. `schema_json` may come from anyone: size, depth, and work are
/// bounded. Throws SchemaError.
std::shared_ptr<const Grammar> json_schema(std::string_view schema_json);
/// Text that `pattern` (ECMA-262 without assertions and backreferences) matches as a whole. Throws
/// SchemaError.
std::shared_ptr<const Grammar> regex(std::string_view pattern);

struct ToolSpec {
  std::string name;
  /// A JSON schema; empty or "null": the tool takes no arguments. Its values are always objects, also if it
  /// does not say so.
  std::string parameters_json;
};
/// One call (`parallel`: or more, one after the other) in Qwen3's form:
/// <tool_call>\n{"name": "f", "arguments": {...}}\n</tool_call>
/// and nothing else. For a call of one certain tool, give only that. `tools` is not empty (UsageError).
/// Throws SchemaError, its `document` being the tool's index.
std::shared_ptr<const Grammar> tool_calls(std::span<const ToolSpec> tools, bool parallel);

/// The same calls, or instead of them a value that a schema allows (empty: any JSON object). The document of
/// a SchemaError about that schema is the number of tools.
std::shared_ptr<const Grammar> tool_calls_or_json(std::span<const ToolSpec> tools, bool parallel,
                                                  std::string_view schema_json);

/// Where the thoughts are that stand before the constrained text.
enum class Thinking : std::uint8_t {
  none,  ///< there are none: the first token belongs to the grammar (the prompt ends in <think>\n\n</think>)
  allowed,  ///< the model may begin with <think>; if it does, what follows is free up to </think>
  begun     ///< the prompt ends in <think>: free up to </think>
};

struct ConstraintOptions {
  /// Thoughts are free but for end tokens, which may not come before the answer is there. Up to two newlines
  /// may stand between </think> and the answer.
  Thinking thinking = Thinking::none;
};

/// One request's constraint. End tokens are allowed exactly where the text may end; `accept` returns false as
/// soon as nothing but an end could follow. Control and other added tokens (<tool_call>, <think>) are allowed
/// only where the grammar itself asks for them.
std::shared_ptr<TokenConstraint> constrain(std::shared_ptr<const Grammar> grammar,
                                           const std::shared_ptr<const Vocabulary>& vocabulary,
                                           const ConstraintOptions& options = {});

/// Text of any form in which calls have one: every token may come, but from the token <tool_call> to
/// </tool_call>, outside of thoughts, the text is `call` (one of tool_calls, not parallel). `single`: the
/// text ends with the first. Throws UsageError if the vocabulary has no such token.
std::shared_ptr<TokenConstraint> constrain_calls(std::shared_ptr<const Grammar> call,
                                                 std::shared_ptr<const Vocabulary> vocabulary, bool single,
                                                 const ConstraintOptions& options = {});

}  // namespace inferno::grammar
