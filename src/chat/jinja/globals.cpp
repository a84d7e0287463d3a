#include "chat/jinja/globals.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <utility>

#include "chat/jinja/operators.hpp"
#include "chat/jinja/print.hpp"
#include "chat/jinja/sequence.hpp"

namespace inferno::jinja {
namespace {

/// The sandbox's largest range.
constexpr std::int64_t kMaxRange = 100'000;

Value make_range_of(Interpreter& interpreter, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "range", arguments, {"", "", ""}, 1);
  const bool has_start = bound.has(1);
  auto range = make_range(budget, has_start ? bound.integer(0, 0) : 0, bound.integer(has_start ? 1 : 0, 0),
                          bound.integer(2, 1));
  if (range.range().length > kMaxRange) {
    budget.fail(fmt::format("range() has {} numbers; expected at most {}", range.range().length, kMaxRange));
  }
  return range;
}

/// dict(...), namespace(...): pairs or a mapping, then names.
DictObject::Entries entries_of(Interpreter& interpreter, std::string_view name, Arguments& arguments) {
  auto& budget = interpreter.budget();
  if (arguments.positional.size() > 1) {
    budget.fail(
        fmt::format("{}() takes one mapping and names, {} were given", name, arguments.positional.size()));
  }
  DictObject::Entries entries;
  if (!arguments.positional.empty()) {
    const auto& source = arguments.positional.front();
    if (source.is(Kind::dict)) {
      entries = source.dict().entries;
    } else {
      for (const auto& pair : collect(budget, source)) {
        auto items = collect(budget, pair);
        if (items.size() != 2)
          budget.fail(fmt::format("{}() needs pairs, found {} values", name, items.size()));
        entries.emplace_back(items[0], items[1]);
      }
    }
  }
  for (auto& [key, value] : arguments.named)
    entries.emplace_back(make_trusted(&budget, key), std::move(value));
  return entries;
}

Value make_dict(Interpreter& interpreter, Arguments& arguments) {
  DictBuilder builder(&interpreter.budget());
  for (auto& [key, value] : entries_of(interpreter, "dict", arguments)) builder.set(key, std::move(value));
  return builder.finish();
}

Value make_namespace(Interpreter& interpreter, Arguments& arguments) {
  auto& budget = interpreter.budget();
  auto result = interpreter.make_namespace();
  auto& attributes = result.name_space();
  for (auto& [key, value] : entries_of(interpreter, "namespace", arguments)) {
    if (!key.is_string()) budget.fail("namespace() needs strings as names");
    if (auto* place = attributes.find(key.text().bytes())) {
      *place = std::move(value);
    } else {
      budget.take_memory(sizeof(Value) + key.text().size());
      attributes.attributes.emplace_back(key.text().bytes(), std::move(value));
    }
  }
  return result;
}

/// cycler(a, b, …): next(), reset(), current. A namespace whose functions count.
Value make_cycler(Interpreter& interpreter, Arguments& arguments) {
  auto& budget = interpreter.budget();
  if (arguments.positional.empty()) budget.fail("cycler() needs values to go through");
  auto result = interpreter.make_namespace();
  auto& self = result.name_space();
  const auto place = std::make_shared<std::size_t>(0);
  const auto items = make_tuple(&budget, arguments.positional);
  self.attributes.emplace_back("current", arguments.positional.front());
  // The namespace lives as long as the rendering.
  const auto show = [&self, place, items] { self.attributes.front().second = items.list().items[*place]; };
  self.attributes.emplace_back("next", make_function("next", [items, place, show](Interpreter&, Arguments&) {
                                 auto now = items.list().items[*place];
                                 *place = (*place + 1) % items.list().items.size();
                                 show();
                                 return now;
                               }));
  self.attributes.emplace_back("reset", make_function("reset", [place, show](Interpreter&, Arguments&) {
                                 *place = 0;
                                 show();
                                 return Value();
                               }));
  return result;
}

/// joiner(sep): nothing the first time it is called, then the separator.
Value make_joiner(Interpreter& interpreter, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "joiner", arguments, {"sep"});
  const auto separator = bound.has(0) ? bound[0] : make_trusted(&budget, ", ");
  const auto used = std::make_shared<bool>(false);
  return make_function("joiner", [separator, used](Interpreter& caller, Arguments&) {
    return std::exchange(*used, true) ? separator : make_trusted(&caller.budget(), "");
  });
}

Value raise_exception(Interpreter& interpreter, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "raise_exception", arguments, {"message"}, 1);
  throw TemplateRefusal(to_text(budget, bound[0]).bytes());
}

Value strftime_now(Interpreter& interpreter, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "strftime_now", arguments, {"format"}, 1);
  const auto& format = bound.text(0);
  if (format.size() > 1000) budget.fail("strftime_now() has a format of more than 1000 bytes");
  return make_string(&budget, Text(format_time(interpreter.now(), format.bytes()), format.all_trusted()));
}

}  // namespace

std::string format_time(std::time_t now, std::string_view format) {
  std::string own;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      own += format[i] == '\0' ? ' ' : format[i];
      continue;
    }
    const char letter = format[++i];
    if (letter == 'f') {
      own += "000000";
    } else if (letter != 'z' && letter != 'Z') {
      own += {'%', letter};
    }
  }
  own += ' ';  // an empty result would look like a failure
  std::tm local{};
  localtime_r(&now, &local);
  std::string result(own.size() * 16 + 256, '\0');
  result.resize(std::strftime(result.data(), result.size(), own.c_str(), &local));
  if (!result.empty()) result.pop_back();
  return result;
}

Variables make_globals() {
  Variables globals;
  const auto add = [&globals](const char* name, FunctionObject::Body body) {
    globals.emplace(name, make_function(name, std::move(body)));
  };
  add("range", make_range_of);
  add("dict", make_dict);
  add("namespace", make_namespace);
  add("cycler", make_cycler);
  add("joiner", make_joiner);
  add("raise_exception", raise_exception);
  add("strftime_now", strftime_now);
  return globals;
}

bool is_global(std::string_view name) {
  static const auto kGlobals = make_globals();
  return std::any_of(kGlobals.begin(), kGlobals.end(),
                     [&](const auto& global) { return global.first == name; });
}

}  // namespace inferno::jinja
