#include "grammar/json_values.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "grammar/json_document.hpp"

namespace inferno::grammar {

ValueId any_json(Program& program) {
  if (program.any_json != kNone) return program.any_json;
  program.any_json = program.add_value({});
  ObjectMachine object;
  object.additional = program.any_json;
  index_properties(program, object, {});
  const auto object_id = program.add(std::move(object));
  const auto array = program.add(ArrayMachine{.prefix = {}, .items = program.any_json});
  const auto text = program.add(TextMachine{});
  const auto number = program.add(NumberMachine(false, {}));
  const auto names = program.add(ChoiceMachine{{"false", "null", "true"}});
  program.values[program.any_json].machines = {object_id, array, text, number, names};
  program.any_object = program.add_value({object_id});
  return program.any_json;
}

ValueId any_object(Program& program) {
  any_json(program);
  return program.any_object;
}

ValueId literal(Program& program, std::string text) {
  const auto machine = program.add(ChoiceMachine{{std::move(text)}});
  return program.add_value({machine});
}

void index_properties(Program& program, ObjectMachine& machine, const std::vector<std::string>& names) {
  const auto count = static_cast<std::uint32_t>(names.size());
  machine.next_required.assign(count + 1, count);
  machine.required_left.assign(count + 1, 0);
  for (auto i = count; i-- > 0;) {
    const bool required = machine.properties[i].required;
    machine.next_required[i] = required ? i : machine.next_required[i + 1];
    machine.required_left[i] = machine.required_left[i + 1] + (required ? 1 : 0);
  }
  std::vector<std::string> keys;
  keys.reserve(count);
  for (const auto& name : names) keys.push_back(json_string(name) + ":");
  machine.key_property.resize(count);
  std::iota(machine.key_property.begin(), machine.key_property.end(), 0U);
  std::sort(machine.key_property.begin(), machine.key_property.end(),
            [&](std::uint32_t a, std::uint32_t b) { return keys[a] < keys[b]; });
  machine.keys.clear();
  for (const auto property : machine.key_property) machine.keys.push_back(std::move(keys[property]));
  if (machine.additional == kNone || machine.other_key != kNone) return;
  // Escapes only where they must be: a name has one spelling, and nobody spells a property's otherwise.
  TextMachine text{.form = TextForm::json_canonical};
  if (!names.empty()) {
    auto except = std::make_shared<std::vector<std::u32string>>();
    for (const auto& name : names) except->push_back(code_points(name));
    std::sort(except->begin(), except->end());
    text.except = std::move(except);
  }
  machine.other_key = program.add(std::move(text));
}

}  // namespace inferno::grammar
