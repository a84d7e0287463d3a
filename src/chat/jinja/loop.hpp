#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "chat/jinja/function.hpp"
#include "chat/jinja/value.hpp"

namespace inferno::jinja {

/// The variable `loop` of a for loop.
class LoopObject : public Object {
 public:
  /// Whether the loop's condition holds for an item; empty: for all.
  using Condition = std::function<bool(const Value& item)>;

  LoopObject(Budget& budget, Values items, Condition condition, std::uint32_t depth);

  /// Goes on to the next item; nullptr at the end.
  const Value* advance();
  std::size_t index0() const { return next_ - 1; }
  /// Asks the condition about all that are left.
  std::size_t length();
  std::uint32_t depth() const { return depth_; }
  /// index, first, last, … and the methods cycle and changed.
  std::optional<Value> attribute(std::string_view name);
  /// Frees what it holds: it may have been kept in a namespace.
  void close();

  /// Renders the loop's body over other items; empty if the loop is not marked `recursive`.
  std::function<Value(const Value& items)> recurse;

 private:
  /// Whether so many items come. Asks the condition no further than that, as Jinja does: what it says may
  /// change from one round to the next.
  bool has(std::size_t count);
  Value cycle(const Budget& budget, const Arguments& arguments) const;
  bool changed(Budget& budget, const Arguments& arguments);

  Values items_;
  Condition condition_;
  std::size_t found_ = 0;    ///< these first items are the loop's
  std::size_t untried_ = 0;  ///< and from here on the condition has not been asked
  std::size_t next_ = 0;
  std::uint32_t depth_;
  std::optional<Values> last_seen_;
  Charge charge_;
};

}  // namespace inferno::jinja
