#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grammar/json_text.hpp"
#include "grammar/number_machine.hpp"
#include "grammar/pattern_dfa.hpp"

/// What a schema is compiled to. A Program is a list of values; a value is a list of machines, one of which
/// takes its text; machines that are made of values (objects, arrays, sequences) name them by index, so that
/// recursion costs nothing. The automaton runs it.
namespace inferno::grammar {

using ValueId = std::uint32_t;
using MachineId = std::uint32_t;

inline constexpr std::uint32_t kNone = UINT32_MAX;
inline constexpr std::uint32_t kUnlimited = UINT32_MAX;
/// Objects and arrays within each other that a text may have. Most readers take at least that many.
inline constexpr std::uint32_t kMaxNesting = 64;

/// Values that the items of an array with unique items may have.
inline constexpr std::size_t kMaxUniqueItems = 64;

enum class MachineKind : std::uint8_t { object, array, text, number, choice, sequence, marker };

struct ObjectMachine {
  struct Property {
    ValueId value = kNone;
    bool required = false;
  };
  std::vector<Property> properties;  ///< in the order in which they are written
  /// [properties + 1]: the first required one from here on, or the number of properties.
  std::vector<std::uint32_t> next_required;
  std::vector<std::string> keys;            ///< `"name":`, ascending
  std::vector<std::uint32_t> key_property;  ///< of each key, which property
  ValueId additional = kNone;               ///< of every other property; kNone: there is none
  MachineId other_key = kNone;              ///< the text of a key that names none of `properties`
  std::uint32_t least = 0;          ///< properties that must be there: as far as required ones do not say so
  std::uint32_t most = kUnlimited;  ///< the same, that may
  /// [properties + 1]: how many from here on are required.
  std::vector<std::uint32_t> required_left;

  /// Whether properties must be counted.
  bool counts() const { return least > 0 || most != kUnlimited; }
};

struct ArrayMachine {
  std::vector<ValueId> prefix;  ///< of the first items
  /// Other than that: items that may come once each, in any order; at most kMaxUniqueItems.
  std::vector<ValueId> unique = {};
  ValueId items = kNone;  ///< of those behind; kNone: there are none
  std::uint32_t least = 0;
  std::uint32_t most = kUnlimited;
};

struct TextMachine {
  TextForm form = TextForm::json;
  std::uint32_t least = 0;  ///< in code points of what the text stands for
  std::uint32_t most = kUnlimited;
  std::shared_ptr<const PatternDfa> pattern = nullptr;  ///< nullptr: every text
  std::shared_ptr<const std::vector<std::u32string>> except =
      nullptr;  ///< ascending; nullptr: none is excepted
};

/// One of these, byte by byte; ascending, none twice, none empty.
struct ChoiceMachine {
  std::vector<std::string> texts;
};

struct SequenceMachine {
  std::vector<ValueId> items;
  ValueId separator = kNone;  ///< then it may repeat
};

/// An added token of the vocabulary or, if it has none of that name, its text.
struct MarkerMachine {
  std::string text;
};

struct Machine {
  MachineKind kind = MachineKind::choice;
  std::uint32_t index = 0;  ///< among those of its kind
};

struct Value {
  std::vector<MachineId> machines;
};

/// How many objects and arrays within each other the shallowest text has; kNone: there is no finite text.
using Height = std::uint32_t;

struct Program {
  std::vector<Value> values;
  std::vector<Machine> machines;
  std::vector<ObjectMachine> objects;
  std::vector<ArrayMachine> arrays;
  std::vector<TextMachine> texts;
  std::vector<NumberMachine> numbers;
  std::vector<ChoiceMachine> choices;
  std::vector<SequenceMachine> sequences;
  std::vector<MarkerMachine> markers;
  ValueId root = 0;
  ValueId any_json = kNone;    ///< made when first asked for
  ValueId any_object = kNone;  ///< the same

  std::vector<Height> value_heights;
  std::vector<Height> machine_heights;

  ValueId add_value(std::vector<MachineId> value_machines);
  MachineId add(ObjectMachine machine);
  MachineId add(ArrayMachine machine);
  MachineId add(TextMachine machine);
  MachineId add(const NumberMachine& machine);
  MachineId add(ChoiceMachine machine);
  MachineId add(SequenceMachine machine);
  MachineId add(MarkerMachine machine);

  /// Fills in the heights. Afterwards a value without a finite text is never entered.
  void measure();
  /// Bytes, about.
  std::size_t memory() const;
};

}  // namespace inferno::grammar
