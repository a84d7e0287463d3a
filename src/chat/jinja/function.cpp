#include "chat/jinja/function.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "chat/jinja/operators.hpp"
#include "platform/quote.hpp"

namespace inferno::jinja {

Value make_function(std::string name, FunctionObject::Body body) {
  return {Kind::function, std::make_shared<FunctionObject>(std::move(name), std::move(body))};
}

Bound::Bound(const Budget& budget, std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> parameters, std::size_t required)
    : budget_(budget),
      function_(function),
      parameters_(parameters),
      values_(parameters.size(), Value::missing()) {
  if (arguments.positional.size() > parameters_.size()) {
    budget_.fail(fmt::format("{}() takes at most {} arguments, {} were given", function_, parameters_.size(),
                             arguments.positional.size()));
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), values_.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters_.begin(), parameters_.end(), name);
    if (found == parameters_.end() || name.empty()) {
      budget_.fail(fmt::format("{}() has no argument named {}", function_, quote(name)));
    }
    auto& slot = values_[static_cast<std::size_t>(found - parameters_.begin())];
    if (!slot.is_missing())
      budget_.fail(fmt::format("{}() got the argument {} twice", function_, quote(name)));
    slot = value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values_[i].is_missing()) {
      budget_.fail(fmt::format("{}() needs the argument {}", function_, quote(parameters_[i])));
    }
  }
}

std::int64_t Bound::integer(std::size_t index, std::int64_t fallback) const {
  if (!has(index)) return fallback;
  require_defined(budget_, values_[index]);
  if (!values_[index].is_integral()) {
    budget_.fail(fmt::format("{}(): {} is a {}; expected an integer", function_, parameters_[index],
                             type_name(values_[index])));
  }
  return values_[index].integer();
}

bool Bound::boolean(std::size_t index, bool fallback) const {
  return has(index) ? truth(values_[index]) : fallback;
}

const Text& Bound::text(std::size_t index) const {
  require_defined(budget_, values_[index]);
  if (!values_[index].is_string()) {
    budget_.fail(fmt::format("{}(): {} is a {}; expected a string", function_, parameters_[index],
                             type_name(values_[index])));
  }
  return values_[index].text();
}

}  // namespace inferno::jinja
