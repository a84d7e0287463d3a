#include "grammar/program.hpp"

#include <algorithm>
#include <utility>

namespace inferno::grammar {
namespace {

template <typename Specific>
MachineId add_to(Program& program, std::vector<Specific>& list, MachineKind kind, Specific machine) {
  program.machines.push_back({.kind = kind, .index = static_cast<std::uint32_t>(list.size())});
  list.push_back(std::move(machine));
  return static_cast<MachineId>(program.machines.size() - 1);
}

/// The larger one; kNone is larger than every number.
Height object_height(const Program& program, const ObjectMachine& object) {
  Height inside = 0;
  for (const auto& property : object.properties) {
    if (property.required) inside = std::max(inside, program.value_heights[property.value]);
  }
  if (object.least > 0 && object.least > object.required_left.front()) {
    // The shallowest of the others make up for what is missing; names that are not declared count as one.
    std::vector<Height> others;
    for (const auto& property : object.properties) {
      if (!property.required) others.push_back(program.value_heights[property.value]);
    }
    if (object.additional != kNone) others.push_back(program.value_heights[object.additional]);
    const auto missing = object.least - object.required_left.front();
    if (missing > others.size()) return kNone;
    std::nth_element(others.begin(), others.begin() + (missing - 1), others.end());
    inside = std::max(inside, others[missing - 1]);
  }
  return inside == kNone ? kNone : inside + 1;
}

Height array_height(const Program& program, const ArrayMachine& array) {
  Height inside = 0;
  if (!array.unique.empty()) {
    if (array.least == 0) return 1;
    for (const auto item : array.unique) inside = std::max(inside, program.value_heights[item]);
    return inside == kNone ? kNone : inside + 1;
  }
  const auto needed = std::min<std::size_t>(array.least, array.prefix.size());
  for (std::size_t i = 0; i < needed; ++i) inside = std::max(inside, program.value_heights[array.prefix[i]]);
  if (array.least > array.prefix.size())
    inside = std::max(inside, array.items == kNone ? kNone : program.value_heights[array.items]);
  return inside == kNone ? kNone : inside + 1;
}

Height sequence_height(const Program& program, const SequenceMachine& sequence) {
  Height inside = 0;
  for (const auto item : sequence.items) inside = std::max(inside, program.value_heights[item]);
  return inside;
}

Height height_of(const Program& program, const Machine& machine) {
  switch (machine.kind) {
    case MachineKind::object:
      return object_height(program, program.objects[machine.index]);
    case MachineKind::array:
      return array_height(program, program.arrays[machine.index]);
    case MachineKind::sequence:
      return sequence_height(program, program.sequences[machine.index]);
    default:
      return 0;
  }
}

}  // namespace

ValueId Program::add_value(std::vector<MachineId> value_machines) {
  values.push_back({.machines = std::move(value_machines)});
  return static_cast<ValueId>(values.size() - 1);
}

MachineId Program::add(ObjectMachine machine) {
  return add_to(*this, objects, MachineKind::object, std::move(machine));
}
MachineId Program::add(ArrayMachine machine) {
  return add_to(*this, arrays, MachineKind::array, std::move(machine));
}
MachineId Program::add(TextMachine machine) {
  return add_to(*this, texts, MachineKind::text, std::move(machine));
}
MachineId Program::add(const NumberMachine& machine) {
  return add_to(*this, numbers, MachineKind::number, machine);
}
MachineId Program::add(ChoiceMachine machine) {
  return add_to(*this, choices, MachineKind::choice, std::move(machine));
}
MachineId Program::add(SequenceMachine machine) {
  return add_to(*this, sequences, MachineKind::sequence, std::move(machine));
}
MachineId Program::add(MarkerMachine machine) {
  return add_to(*this, markers, MachineKind::marker, std::move(machine));
}

/// From below: a pass that changes nothing is the last, and a height above the nesting that is allowed is as
/// good as none.
void Program::measure() {
  value_heights.assign(values.size(), kNone);
  machine_heights.assign(machines.size(), kNone);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < machines.size(); ++i) {
      auto height = height_of(*this, machines[i]);
      if (height > kMaxNesting) height = kNone;
      changed = changed || height != machine_heights[i];
      machine_heights[i] = height;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto height = kNone;
      for (const auto machine : values[i].machines) height = std::min(height, machine_heights[machine]);
      changed = changed || height != value_heights[i];
      value_heights[i] = height;
    }
  }
}

std::size_t Program::memory() const {
  constexpr std::size_t kText = sizeof(std::string) + 16;
  auto bytes =
      values.size() * (sizeof(Value) + 16) + machines.size() * (sizeof(Machine) + sizeof(NumberMachine));
  for (const auto& object : objects) {
    bytes += sizeof(object) + object.properties.size() * (sizeof(ObjectMachine::Property) + 8 + kText);
    for (const auto& key : object.keys) bytes += key.size();
  }
  for (const auto& array : arrays)
    bytes += sizeof(array) + (array.prefix.size() + array.unique.size()) * sizeof(ValueId);
  for (const auto& text : texts) {
    bytes += sizeof(text) + (text.pattern ? text.pattern->memory() : 0);
    if (!text.except) continue;
    for (const auto& name : *text.except) bytes += kText + name.size() * sizeof(char32_t);
  }
  for (const auto& choice : choices) {
    for (const auto& text : choice.texts) bytes += kText + text.size();
  }
  return bytes;
}

}  // namespace inferno::grammar
