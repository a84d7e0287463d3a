#include "chat/jinja/value.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "chat/jinja/function.hpp"
#include "chat/jinja/loop.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/unicode.hpp"

namespace inferno::jinja {
namespace {

/// With fewer entries than this a dict is searched from the front.
constexpr std::size_t kIndexedFrom = 9;

std::uint32_t checked_depth(Budget* budget, std::uint32_t depth) {
  if (depth > kMaxValueDepth) {
    const auto message =
        fmt::format("values are nested deeper than {} levels; expected flatter ones", kMaxValueDepth);
    if (budget != nullptr) budget->fail(message);
    throw UsageError(message);
  }
  return depth;
}

std::uint32_t depth_around(Budget* budget, const Values& items) {
  std::uint32_t depth = 0;
  for (const auto& item : items) depth = std::max(depth, value_depth(item));
  return checked_depth(budget, depth + 1);
}

Value make_sequence(Kind kind, Budget* budget, Values items, std::string_view type) {
  return {kind, std::make_shared<ListObject>(budget, std::move(items), type)};
}

/// Where `key` stands among `entries`, or their number.
std::size_t place_of(const DictObject::Entries& entries,
                     const std::unordered_multimap<std::size_t, std::size_t>& index, const Value& key) {
  if (index.empty()) {
    std::size_t place = 0;
    while (place < entries.size() && !equals(nullptr, entries[place].first, key)) ++place;
    return place;
  }
  const auto hash = hash_of(key);
  if (!hash) return entries.size();
  const auto [first, last] = index.equal_range(*hash);
  for (auto candidate = first; candidate != last; ++candidate) {
    if (equals(nullptr, entries[candidate->second].first, key)) return candidate->second;
  }
  return entries.size();
}

}  // namespace

StringObject::StringObject(Budget* budget, Text the_text, bool is_markup)
    : text(std::move(the_text)),
      length(count_code_points(text.bytes())),
      markup(is_markup),
      charge(budget, sizeof(StringObject) + text.size() + text.stretches().size() * sizeof(Text::Stretch)) {
  if (budget != nullptr) budget->step_copied(text.size());
}

ListObject::ListObject(Budget* budget, Values the_items, std::string_view type_name)
    : items(std::move(the_items)),
      depth(depth_around(budget, items)),
      type(type_name),
      charge(budget, sizeof(ListObject) + items.size() * sizeof(Value)) {
  if (budget != nullptr) budget->step(items.size() / 8);
}

DictObject::DictObject(Budget* budget, Entries the_entries,
                       std::unordered_multimap<std::size_t, std::size_t> the_index)
    : entries(std::move(the_entries)),
      index(std::move(the_index)),
      charge(budget, sizeof(DictObject) + entries.size() * (2 * sizeof(Value) + 4 * sizeof(std::size_t))) {
  for (const auto& [key, value] : entries) depth = std::max({depth, value_depth(key), value_depth(value)});
  depth = checked_depth(budget, depth + 1);
}

const Value* DictObject::find(const Value& key) const {
  const auto place = place_of(entries, index, key);
  return place < entries.size() ? &entries[place].second : nullptr;
}

const Value* DictObject::find(std::string_view key) const {
  if (!index.empty()) return find(make_untrusted(key));
  for (const auto& [name, value] : entries) {
    if (name.is_string() && name.text().bytes() == key) return &value;
  }
  return nullptr;
}

Value* NamespaceObject::find(std::string_view name) {
  for (auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::size_t DictBuilder::place_for(const Value& key) {
  const auto hash = hash_of(key);
  if (!hash) {
    const auto message =
        fmt::format("a {} cannot be a key of a dict; expected a string, number or tuple", type_name(key));
    if (budget_ != nullptr) budget_->fail(message);
    throw UsageError(message);
  }
  const auto place = place_of(entries_, index_, key);
  if (place < entries_.size()) return place;
  if (budget_ != nullptr) budget_->step();
  entries_.emplace_back(key, Value::missing());
  if (entries_.size() < kIndexedFrom) return place;
  if (index_.empty()) {
    for (std::size_t i = 0; i < place; ++i) index_.emplace(*hash_of(entries_[i].first), i);
  }
  index_.emplace(*hash, place);
  return place;
}

void DictBuilder::set(const Value& key, Value value) {
  entries_[place_for(key)].second = std::move(value);
}

void DictBuilder::add_once(const Value& key, Value value) {
  auto& slot = entries_[place_for(key)].second;
  if (slot.is_missing()) slot = std::move(value);
}

Value DictBuilder::finish() {
  return {Kind::dict, std::make_shared<DictObject>(budget_, std::move(entries_), std::move(index_))};
}

const StringObject& Value::string() const {
  return static_cast<const StringObject&>(*object_);
}
const Text& Value::text() const {
  return string().text;
}
const ListObject& Value::list() const {
  return static_cast<const ListObject&>(*object_);
}
const DictObject& Value::dict() const {
  return static_cast<const DictObject&>(*object_);
}
const RangeObject& Value::range() const {
  return static_cast<const RangeObject&>(*object_);
}
const UndefinedObject& Value::undefined() const {
  return static_cast<const UndefinedObject&>(*object_);
}
NamespaceObject& Value::name_space() const {
  // The one kind that templates may change; nothing else does.
  return const_cast<NamespaceObject&>(static_cast<const NamespaceObject&>(*object_));
}
const FunctionObject& Value::function() const {
  return static_cast<const FunctionObject&>(*object_);
}
LoopObject& Value::loop() const {
  return const_cast<LoopObject&>(static_cast<const LoopObject&>(*object_));
}

Value make_string(Budget* budget, Text text, bool markup) {
  return {Kind::string, std::make_shared<StringObject>(budget, std::move(text), markup)};
}

Value make_untrusted(std::string_view bytes) {
  return make_string(nullptr, Text(std::string(bytes), false));
}

Value make_trusted(Budget* budget, std::string_view bytes) {
  return make_string(budget, Text(std::string(bytes), true));
}

Value make_list(Budget* budget, Values items) {
  return make_sequence(Kind::list, budget, std::move(items), "list");
}

Value make_tuple(Budget* budget, Values items) {
  return make_sequence(Kind::tuple, budget, std::move(items), "tuple");
}

Value make_generator(Budget& budget, Values items) {
  return make_sequence(Kind::generator, &budget, std::move(items), "generator");
}

Value make_range(Budget& budget, std::int64_t start, std::int64_t stop, std::int64_t step) {
  if (step == 0) budget.fail("range() got step 0; expected another number");
  auto range = std::make_shared<RangeObject>();
  range->start = start;
  range->stop = stop;
  range->step = step;
  // Unsigned: the ends may be further apart than a signed number holds.
  const auto distance = [](std::int64_t low, std::int64_t high) {
    return high <= low ? 0 : static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  };
  const auto span = step > 0 ? distance(start, stop) : distance(stop, start);
  const auto size = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const auto length = span == 0 ? 0 : (span - 1) / size + 1;
  range->length = static_cast<std::int64_t>(std::min<std::uint64_t>(length, INT64_MAX));
  return {Kind::range, std::move(range)};
}

Value make_undefined_because(std::string message) {
  auto object = std::make_shared<UndefinedObject>();
  object->message = std::move(message);
  return {Kind::undefined, std::move(object)};
}

Value make_undefined(std::string_view name) {
  return make_undefined_because(fmt::format("'{}' is undefined", name));
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
      return "missing argument";
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
    case Kind::big_integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return "str";
    case Kind::list:
    case Kind::tuple:
    case Kind::generator:
    case Kind::view:
      return value.list().type;
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::name_space:
      return "Namespace";
    case Kind::function:
      return "function";
    case Kind::loop:
      return "LoopContext";
  }
  return "unknown";
}

std::uint32_t value_depth(const Value& value) {
  switch (value.kind()) {
    case Kind::list:
    case Kind::tuple:
    case Kind::generator:
    case Kind::view:
      return value.list().depth;
    case Kind::dict:
      return value.dict().depth;
    case Kind::function:
      return value.function().depth;
    default:
      return 0;
  }
}

}  // namespace inferno::jinja
