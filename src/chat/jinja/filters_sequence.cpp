// Filters over what a for loop can go through.

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "chat/jinja/filters.hpp"
#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/sequence.hpp"
#include "chat/jinja/unicode.hpp"

namespace inferno::jinja {
namespace {

Value length(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "length", arguments, {});
  const auto count = length_of(subject);
  if (!count)
    budget.fail(fmt::format("a {} has no length; expected a string, list or dict", type_name(subject)));
  return Value(*count);
}

Value first(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "first", arguments, {});
  auto item = Iteration(budget, subject).next();
  return item ? std::move(*item) : make_undefined_because("no first item, the sequence was empty");
}

Value last(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "last", arguments, {});
  if (subject.is(Kind::generator)) {
    budget.fail("last does not take what map, select and the like give; put |list before it");
  }
  if (subject.is_string() || subject.is(Kind::list) || subject.is(Kind::tuple) || subject.is(Kind::range)) {
    auto item = element(budget, subject, -1);
    return item ? std::move(*item) : make_undefined_because("no last item, the sequence was empty");
  }
  auto items = collect(budget, subject);
  return items.empty() ? make_undefined_because("no last item, the sequence was empty")
                       : std::move(items.back());
}

Value reverse(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "reverse", arguments, {});
  if (subject.is_string()) return *slice(budget, subject, Value(), Value(), Value(std::int64_t{-1}));
  auto items = collect(budget, subject);
  std::reverse(items.begin(), items.end());
  return subject.is(Kind::generator) ? make_list(&budget, std::move(items))
                                     : make_generator(budget, std::move(items));
}

Value list(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "list", arguments, {});
  return make_list(&budget, collect(budget, subject));
}

Value items(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "items", arguments, {});
  if (subject.is_undefined()) return make_generator(budget, {});
  if (!subject.is(Kind::dict)) budget.fail(fmt::format("items takes a dict, found a {}", type_name(subject)));
  Values pairs;
  for (const auto& [key, value] : subject.dict().entries) pairs.push_back(make_tuple(&budget, {key, value}));
  return make_generator(budget, std::move(pairs));
}

Value sum(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "sum", arguments, {"attribute", "start"});
  auto total = bound.has(1) ? bound[1] : Value(std::int64_t{0});
  if (total.is_string()) budget.fail("sum does not take strings; join them");
  Iteration iteration(budget, subject);
  while (const auto item = iteration.next()) {
    total = binary(budget, Operator::add, total,
                   bound.is_set(0) ? attribute_path(interpreter, *item, bound[0]) : *item);
  }
  return total;
}

/// What a filter compares items by: an attribute, or the item, in lower case unless case counts.
class Key {
 public:
  Key(Interpreter& interpreter, const Value& attribute, bool case_sensitive, Value fallback = Value())
      : interpreter_(interpreter),
        attribute_(attribute),
        case_sensitive_(case_sensitive),
        fallback_(std::move(fallback)) {}

  Value operator()(const Value& item) const {
    auto& budget = interpreter_.budget();
    auto key = attribute_.is_missing() || attribute_.is_none()
                   ? item
                   : attribute_path(interpreter_, item, attribute_, fallback_);
    if (case_sensitive_ || !key.is_string()) return key;
    return make_string(&budget, in_case(key.text(), Case::lower), key.string().markup);
  }

 private:
  Interpreter& interpreter_;
  const Value& attribute_;
  bool case_sensitive_;
  Value fallback_;
};

/// Sorted by their keys, as Python sorts: equal ones keep their order, also in reverse.
void sort_by_keys(Budget& budget, std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& left, const auto& right) {
    return reverse ? order(budget, right.first, left.first) < 0 : order(budget, left.first, right.first) < 0;
  });
}

Values values_of(std::vector<std::pair<Value, Value>>& keyed) {
  Values values;
  for (auto& [key, value] : keyed) values.push_back(std::move(value));
  return values;
}

Value sort(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> attributes = {bound[2]};
  if (bound.has(2) && bound[2].is_string()) {
    attributes.clear();
    const auto& names = bound[2].text().bytes();
    for (std::size_t start = 0; start <= names.size();) {
      const auto end = std::min(names.find(',', start), names.size());
      attributes.push_back(make_trusted(&budget, std::string_view(names).substr(start, end - start)));
      start = end + 1;
    }
  }
  std::vector<std::pair<Value, Value>> keyed;
  for (auto& item : collect(budget, subject)) {
    Values keys;
    for (const auto& attribute : attributes) {
      keys.push_back(Key(interpreter, attribute, bound.boolean(1, false))(item));
    }
    keyed.emplace_back(make_list(&budget, std::move(keys)), std::move(item));
  }
  sort_by_keys(budget, keyed, bound.boolean(0, false));
  return make_list(&budget, values_of(keyed));
}

Value dictsort(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "dictsort", arguments, {"case_sensitive", "by", "reverse"});
  require_defined(budget, subject);
  if (!subject.is(Kind::dict))
    budget.fail(fmt::format("dictsort takes a dict, found a {}", type_name(subject)));
  const auto by = bound.has(1) ? bound.text(1).bytes() : "key";
  if (by != "key" && by != "value") budget.fail("dictsort sorts by 'key' or by 'value'");
  const auto no_attribute = Value::missing();
  const Key key_of(interpreter, no_attribute, bound.boolean(0, false));
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : subject.dict().entries) {
    keyed.emplace_back(key_of(by == "key" ? key : value), make_tuple(&budget, {key, value}));
  }
  sort_by_keys(budget, keyed, bound.boolean(2, false));
  return make_list(&budget, values_of(keyed));
}

Value unique(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "unique", arguments, {"case_sensitive", "attribute"});
  const Key key_of(interpreter, bound[1], bound.boolean(0, false));
  DictBuilder seen(&budget);
  for (auto& item : collect(budget, subject)) {
    const auto key = key_of(item);
    seen.add_once(key, std::move(item));
  }
  Values values;
  const auto dict = seen.finish();
  for (const auto& [key, value] : dict.dict().entries) values.push_back(value);
  return make_generator(budget, std::move(values));
}

template <bool Largest>
Value extreme(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, Largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const Key key_of(interpreter, bound[1], bound.boolean(0, false));
  Iteration iteration(budget, subject);
  auto best = iteration.next();
  if (!best) return make_undefined_because("no aggregated item, the sequence was empty");
  auto best_key = key_of(*best);
  while (auto item = iteration.next()) {
    auto key = key_of(*item);
    const int difference = order(budget, key, best_key);
    if (difference == 2 || (Largest ? difference <= 0 : difference >= 0)) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return *best;
}

Value groupby(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const auto fallback = bound.has(1) ? bound[1] : Value();
  const bool case_sensitive = bound.boolean(2, false);
  const Key key_of(interpreter, bound[0], case_sensitive, fallback);
  std::vector<std::pair<Value, Value>> keyed;
  for (auto& item : collect(budget, subject)) {
    auto key = key_of(item);
    keyed.emplace_back(std::move(key), std::move(item));
  }
  sort_by_keys(budget, keyed, false);
  Values groups;
  for (std::size_t first = 0; first < keyed.size();) {
    auto end = first;
    Values members;
    while (end < keyed.size() && equals(&budget, keyed[first].first, keyed[end].first)) {
      members.push_back(keyed[end++].second);
    }
    // The key as the first member has it, not in lower case.
    const auto grouper = case_sensitive ? keyed[first].first
                                        : attribute_path(interpreter, members.front(), bound[0], fallback);
    groups.emplace_back(Kind::tuple,
                        std::make_shared<ListObject>(
                            &budget, Values{grouper, make_list(&budget, std::move(members))}, "_GroupTuple"));
    first = end;
  }
  return make_list(&budget, std::move(groups));
}

Value batch(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "batch", arguments, {"linecount", "fill_with"}, 1);
  const auto size = bound.integer(0, 1);
  Values rows;
  Values row;
  const auto finish_row = [&] {
    rows.push_back(make_list(&budget, std::move(row)));
    row.clear();
  };
  for (auto& item : collect(budget, subject)) {
    if (static_cast<std::int64_t>(row.size()) == size) finish_row();
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (bound.is_set(1) && static_cast<std::int64_t>(row.size()) < size) {
      budget.check_memory(static_cast<std::size_t>(std::min<std::int64_t>(size, INT32_MAX)) * sizeof(Value));
      row.resize(static_cast<std::size_t>(size), bound[1]);
    }
    finish_row();
  }
  return make_generator(budget, std::move(rows));
}

Value slices(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "slice", arguments, {"slices", "fill_with"}, 1);
  const auto count = bound.integer(0, 1);
  if (count == 0) budget.fail("division by zero");
  if (count > 1'000'000) budget.fail("slice makes at most 1000000 lists");
  const auto all = collect(budget, subject);
  const auto total = static_cast<std::int64_t>(all.size());
  Values rows;
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto size = total / count + (i < total % count ? 1 : 0);
    Values row(all.begin() + next, all.begin() + next + size);
    next += size;
    if (bound.is_set(1) && i >= total % count) row.push_back(bound[1]);
    rows.push_back(make_list(&budget, std::move(row)));
  }
  return make_generator(budget, std::move(rows));
}

constexpr NamedFilter kFilters[] = {
    {"length", length},     {"count", length},      {"first", first},   {"last", last},
    {"reverse", reverse},   {"list", list},         {"items", items},   {"sum", sum},
    {"sort", sort},         {"dictsort", dictsort}, {"unique", unique}, {"min", extreme<false>},
    {"max", extreme<true>}, {"groupby", groupby},   {"batch", batch},   {"slice", slices},
};

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  return find_in(kFilters, name);
}

}  // namespace inferno::jinja
