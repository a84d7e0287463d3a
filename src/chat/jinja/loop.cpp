#include "chat/jinja/loop.hpp"

#include <algorithm>
#include <utility>

#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/operators.hpp"

namespace inferno::jinja {

LoopObject::LoopObject(Budget& budget, Values items, Condition condition, std::uint32_t depth)
    : items_(std::move(items)),
      condition_(std::move(condition)),
      found_(condition_ ? 0 : items_.size()),
      untried_(found_),
      depth_(depth),
      charge_(&budget, sizeof(LoopObject) + items_.size() * sizeof(Value)) {}

bool LoopObject::has(std::size_t count) {
  while (found_ < count && untried_ < items_.size()) {
    const bool holds = condition_(items_[untried_]);
    auto& item = items_[untried_++];
    if (holds) std::swap(items_[found_++], item);
  }
  return found_ >= count;
}

std::size_t LoopObject::length() {
  has(items_.size());
  return found_;
}

const Value* LoopObject::advance() {
  if (next_ > found_) return nullptr;
  const auto place = next_++;
  return has(next_) ? &items_[place] : nullptr;
}

void LoopObject::close() {
  recurse = nullptr;
  condition_ = nullptr;
  found_ = untried_ = 0;
  items_.clear();
  next_ = 1;
  last_seen_.reset();
}

std::optional<Value> LoopObject::attribute(std::string_view name) {
  const auto number = [](std::size_t value) { return Value(static_cast<std::int64_t>(value)); };
  if (name == "index") return number(next_);
  if (name == "index0") return number(index0());
  if (name == "revindex") return number(length() - index0());
  if (name == "revindex0") return number(length() - next_);
  if (name == "first") return Value(index0() == 0);
  if (name == "last") return Value(!has(next_ + 1));
  if (name == "length") return number(length());
  if (name == "depth") return number(depth_ + 1);
  if (name == "depth0") return number(depth_);
  if (name == "previtem") {
    return index0() == 0 ? make_undefined_because("there is no previous item") : items_[index0() - 1];
  }
  if (name == "nextitem") {
    return has(next_ + 1) ? items_[next_] : make_undefined_because("there is no next item");
  }
  // Methods hold the loop by its address: it lives at least as long as the rendering's statements.
  if (name == "cycle") {
    return make_function("cycle", [this](Interpreter& interpreter, Arguments& arguments) {
      return cycle(interpreter.budget(), arguments);
    });
  }
  if (name == "changed") {
    return make_function("changed", [this](Interpreter& interpreter, Arguments& arguments) {
      return Value(changed(interpreter.budget(), arguments));
    });
  }
  return std::nullopt;
}

Value LoopObject::cycle(const Budget& budget, const Arguments& arguments) const {
  if (arguments.positional.empty()) budget.fail("loop.cycle() needs values to choose from");
  return arguments.positional[index0() % arguments.positional.size()];
}

bool LoopObject::changed(Budget& budget, const Arguments& arguments) {
  const auto& now = arguments.positional;
  const bool same = last_seen_ && last_seen_->size() == now.size() &&
                    std::equal(now.begin(), now.end(), last_seen_->begin(),
                               [&budget](const Value& a, const Value& b) { return equals(&budget, a, b); });
  if (!same) last_seen_ = now;
  return !same;
}

}  // namespace inferno::jinja
