#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/serving_request.hpp"
#include "server/api/response_format.hpp"
#include "server/api/think_tags.hpp"
#include "server/api/tools.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno::api {

/// A form that an answer must have, compiled: makes a constraint for each of its choices.
class Form {
 public:
  virtual ~Form() = default;
  virtual std::shared_ptr<TokenConstraint> constrain(Thoughts thoughts) const = 0;
};

/// Whether compiling may take so long that others should not wait for it: seconds, where a schema's patterns
/// or alternatives want it.
bool is_costly(const ResponseFormat& format, const std::vector<Tool>& tools = {},
               const ToolChoice& choice = {});

/// Compiles what requests ask for into grammars (which src/grammar remembers). Safe to use from several
/// threads.
class Constraints {
 public:
  Constraints(const Tokenizer& tokenizer, std::uint32_t vocab_size);
  ~Constraints();
  Constraints(const Constraints&) = delete;
  Constraints& operator=(const Constraints&) = delete;

  /// nullptr: any answer will do. Throws ApiError naming the place in the schema for what cannot be followed
  /// exactly: nothing is ever left out of account.
  std::shared_ptr<const Form> compile(const ResponseFormat& format) const;
  /// The same where tools may be called. A call that is required, or of a named tool, is all there is. One
  /// that may come instead of an answer follows the schemas of strict tools.
  std::shared_ptr<const Form> compile(const ResponseFormat& format, const std::vector<Tool>& tools,
                                      const ToolChoice& choice, bool parallel) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace inferno::api
