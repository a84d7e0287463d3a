#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chat/jinja/budget.hpp"
#include "chat/jinja/text.hpp"

namespace inferno::jinja {

enum class Kind : std::uint8_t {
  missing,    ///< an argument that was not given; never seen by a template
  undefined,  ///< what a name or attribute that is not there gives
  none,
  boolean,
  integer,
  big_integer,  ///< beyond 64 bits, from JSON: carried and printed, not calculated with
  real,
  string,
  list,
  tuple,
  dict,
  range,
  generator,  ///< what map, select, … give: can be gone through once
  view,       ///< dict.keys(), .values(), .items()
  name_space,
  function,  ///< a macro, a method of a value, a global function
  loop,
};

struct Object {
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
};

struct StringObject;
struct ListObject;
struct DictObject;
struct RangeObject;
struct UndefinedObject;
struct NamespaceObject;
struct FunctionObject;
class LoopObject;

/// One value of the template language: Python's, as far as templates see them. Cheap to copy; immutable but
/// for namespaces and loops, as in Jinja's immutable sandbox.
class Value {
 public:
  Value() = default;  ///< none
  explicit Value(bool value) : kind_(Kind::boolean) { number_.integer = value ? 1 : 0; }
  explicit Value(std::int64_t value) : kind_(Kind::integer) { number_.integer = value; }
  explicit Value(double value) : kind_(Kind::real) { number_.real = value; }
  Value(Kind kind, std::shared_ptr<const Object> object) : kind_(kind), object_(std::move(object)) {}
  static Value missing() { return {Kind::missing, nullptr}; }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_missing() const { return kind_ == Kind::missing; }
  bool is_undefined() const { return kind_ == Kind::undefined; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is_string() const { return kind_ == Kind::string; }
  /// bool counts as a number, as in Python.
  bool is_integral() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  bool is_number() const { return is_integral() || kind_ == Kind::real || kind_ == Kind::big_integer; }

  bool boolean() const { return number_.integer != 0; }
  std::int64_t integer() const { return number_.integer; }  ///< of an integer or a boolean
  double real() const { return number_.real; }
  const StringObject& string() const;
  const Text& text() const;
  const ListObject& list() const;  ///< list, tuple, generator, view
  const DictObject& dict() const;
  const RangeObject& range() const;
  const UndefinedObject& undefined() const;
  NamespaceObject& name_space() const;
  const FunctionObject& function() const;
  LoopObject& loop() const;
  const Object* object() const { return object_.get(); }

 private:
  Kind kind_ = Kind::none;
  union {
    std::int64_t integer;
    double real;
  } number_ = {0};
  std::shared_ptr<const Object> object_;
};

using Values = std::vector<Value>;

struct StringObject : Object {
  StringObject(Budget* budget, Text the_text, bool is_markup);
  Text text;
  std::size_t length;  ///< in code points
  bool markup;         ///< marked by the filters `safe` and `escape`: what is added to it is escaped
  Charge charge;
};

struct ListObject : Object {
  ListObject(Budget* budget, Values the_items, std::string_view type_name);
  Values items;
  std::uint32_t depth;
  std::string_view type;           ///< Python's name of it; a static string
  mutable std::size_t cursor = 0;  ///< generators: what was taken
  Charge charge;
};

/// Keys in the order they were first put in.
struct DictObject : Object {
  using Entries = std::vector<std::pair<Value, Value>>;
  /// Keys must be hashable and differ (see DictBuilder).
  DictObject(Budget* budget, Entries the_entries,
             std::unordered_multimap<std::size_t, std::size_t> the_index);
  /// The value of a key, or nullptr. An unhashable key is nullptr, too.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  Entries entries;
  std::unordered_multimap<std::size_t, std::size_t> index;  ///< hash to place; empty while there are few
  std::uint32_t depth = 0;
  Charge charge;
};

struct RangeObject : Object {
  std::int64_t start = 0, stop = 0, step = 1;
  std::int64_t length = 0;
  Value at(std::int64_t place) const { return Value(start + place * step); }
};

struct UndefinedObject : Object {
  std::string message;  ///< what is wrong with using it
};

struct NamespaceObject : Object {
  std::vector<std::pair<std::string, Value>> attributes;
  Value* find(std::string_view name);
};

/// Keeps a dict's keys apart while it is built: a key that comes again replaces its value and keeps its
/// place.
class DictBuilder {
 public:
  explicit DictBuilder(Budget* budget) : budget_(budget) {}
  /// Throws TemplateError for a key that cannot be hashed.
  void set(const Value& key, Value value);
  /// The same, but a key that comes again changes nothing.
  void add_once(const Value& key, Value value);
  Value finish();

 private:
  /// Where the key stands, put in with an empty value if it is new.
  std::size_t place_for(const Value& key);

  Budget* budget_;
  DictObject::Entries entries_;
  std::unordered_multimap<std::size_t, std::size_t> index_;
};

// Makers. `budget` nullptr: a value of the input or of the template's source.

Value make_string(Budget* budget, Text text, bool markup = false);
/// Text from the caller.
Value make_untrusted(std::string_view bytes);
/// Text of the template, or made by a filter of its own.
Value make_trusted(Budget* budget, std::string_view bytes);
Value make_list(Budget* budget, Values items);
Value make_tuple(Budget* budget, Values items);
Value make_generator(Budget& budget, Values items);
Value make_range(Budget& budget, std::int64_t start, std::int64_t stop, std::int64_t step);
/// Using it fails with "'NAME' is undefined".
Value make_undefined(std::string_view name);
Value make_undefined_because(std::string message);

/// Python's type name: "str", "NoneType", …
std::string_view type_name(const Value& value);
/// Nesting of containers: 0 for a plain value.
std::uint32_t value_depth(const Value& value);

}  // namespace inferno::jinja
