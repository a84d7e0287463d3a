#include "chat/jinja/sequence.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "chat/jinja/operators.hpp"
#include "chat/jinja/text_builder.hpp"
#include "chat/jinja/unicode.hpp"

namespace inferno::jinja {
namespace {

std::int64_t slice_part(const Budget& budget, const Value& part, std::int64_t fallback) {
  if (part.is_none()) return fallback;
  require_defined(budget, part);
  if (!part.is_integral()) {
    budget.fail(fmt::format("a slice has a {} where an integer is expected", type_name(part)));
  }
  return part.integer();
}

/// Python's slice.indices(length).
struct SliceIndices {
  std::int64_t start, step, count;
};

SliceIndices indices_of(const Budget& budget, std::int64_t length, const Value& start, const Value& stop,
                        const Value& step_value) {
  const auto step = slice_part(budget, step_value, 1);
  if (step == 0) budget.fail("a slice has step 0; expected another number");
  const std::int64_t lower = step < 0 ? -1 : 0;
  const std::int64_t upper = step < 0 ? length - 1 : length;
  const auto clamp = [&](const Value& part, std::int64_t fallback) {
    auto value = slice_part(budget, part, fallback);
    if (part.is_none()) return value;
    if (value < 0) value = value < -length ? lower : std::max(value + length, lower);
    return std::min(value, upper);
  };
  const auto first = clamp(start, step < 0 ? upper : lower);
  const auto last = clamp(stop, step < 0 ? lower : upper);
  const auto span = step < 0 ? first - last : last - first;
  if (span <= 0) return {first, step, 0};
  const auto stride =
      step < 0 ? (step == std::numeric_limits<std::int64_t>::min() ? -(step + 1) : -step) : step;
  return {first, step, (span - 1) / stride + 1};
}

Value slice_string(Budget& budget, const Value& string, const SliceIndices& indices) {
  const auto& text = string.text();
  const auto& bytes = text.bytes();
  budget.step_bytes(bytes.size());
  TextBuilder out(budget);
  if (indices.step == 1) {
    const auto first = offset_of(bytes, static_cast<std::size_t>(indices.start));
    const auto rest = std::string_view(bytes).substr(first);
    if (indices.count > 0)
      out.append_slice(text, first, offset_of(rest, static_cast<std::size_t>(indices.count)));
  } else if (indices.count > 0) {
    std::vector<std::size_t> offsets;
    budget.check_memory(string.string().length * sizeof(std::size_t));
    for (std::size_t offset = 0; offset < bytes.size(); offset += character_at(bytes, offset).length) {
      offsets.push_back(offset);
    }
    auto index = indices.start;
    for (std::int64_t i = 0; i < indices.count; ++i, index += indices.step) {
      const auto offset = offsets[static_cast<std::size_t>(index)];
      out.append_slice(text, offset, character_at(bytes, offset).length);
    }
  }
  return make_string(&budget, out.take(), string.string().markup);
}

}  // namespace

Iteration::Iteration(Budget& budget, const Value& value) : budget_(budget), value_(value) {
  if (!is_iterable(value)) {
    budget.fail(
        fmt::format("a {} cannot be gone through; expected a list, string or dict", type_name(value)));
  }
  if (value_.is(Kind::generator)) place_ = value_.list().cursor;
}

std::optional<Value> Iteration::next() {
  budget_.step();
  switch (value_.kind()) {
    case Kind::string: {
      const auto& bytes = value_.text().bytes();
      if (place_ >= bytes.size()) return std::nullopt;
      auto result = character(budget_, value_, place_);
      place_ += character_at(bytes, place_).length;
      return result;
    }
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
    case Kind::generator: {
      const auto& list = value_.list();
      if (place_ >= list.items.size()) return std::nullopt;
      const auto& item = list.items[place_++];
      if (value_.is(Kind::generator)) list.cursor = place_;
      return item;
    }
    case Kind::dict:
      if (place_ >= value_.dict().entries.size()) return std::nullopt;
      return value_.dict().entries[place_++].first;
    case Kind::range:
      if (place_ >= static_cast<std::size_t>(value_.range().length)) return std::nullopt;
      return value_.range().at(static_cast<std::int64_t>(place_++));
    default:
      return std::nullopt;
  }
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
    case Kind::generator:
    case Kind::dict:
    case Kind::range:
      return true;
    default:
      return false;
  }
}

Values collect(Budget& budget, const Value& value) {
  budget.check_memory(static_cast<std::size_t>(length_of(value).value_or(0)) * sizeof(Value));
  Values items;
  Iteration iteration(budget, value);
  while (auto item = iteration.next()) items.push_back(std::move(*item));
  return items;
}

std::optional<Value> element(Budget& budget, const Value& sequence, std::int64_t index) {
  const auto length = length_of(sequence);
  if (!length) return std::nullopt;
  if (index < 0) index += *length;
  if (index < 0 || index >= *length) return std::nullopt;
  switch (sequence.kind()) {
    case Kind::list:
    case Kind::tuple:
      return sequence.list().items[static_cast<std::size_t>(index)];
    case Kind::range:
      return sequence.range().at(index);
    case Kind::string: {
      const auto& bytes = sequence.text().bytes();
      const bool ascii = static_cast<std::size_t>(*length) == bytes.size();
      if (!ascii) budget.step_bytes(bytes.size());
      return character(
          budget, sequence,
          ascii ? static_cast<std::size_t>(index) : offset_of(bytes, static_cast<std::size_t>(index)));
    }
    default:
      return std::nullopt;
  }
}

std::optional<Value> slice(Budget& budget, const Value& sequence, const Value& start, const Value& stop,
                           const Value& step) {
  const bool is_list = sequence.is(Kind::list) || sequence.is(Kind::tuple);
  if (!is_list && !sequence.is_string() && !sequence.is(Kind::range)) return std::nullopt;
  const auto indices = indices_of(budget, *length_of(sequence), start, stop, step);
  if (sequence.is_string()) return slice_string(budget, sequence, indices);
  if (sequence.is(Kind::range)) {
    const auto& range = sequence.range();
    const auto first = range.start + indices.start * range.step;
    const auto stride = range.step * indices.step;
    return make_range(budget, first, first + indices.count * stride, stride);
  }
  budget.step(static_cast<std::uint64_t>(indices.count));
  budget.check_memory(static_cast<std::size_t>(indices.count) * sizeof(Value));
  Values items;
  auto index = indices.start;
  for (std::int64_t i = 0; i < indices.count; ++i, index += indices.step) {
    items.push_back(sequence.list().items[static_cast<std::size_t>(index)]);
  }
  return sequence.is(Kind::list) ? make_list(&budget, std::move(items))
                                 : make_tuple(&budget, std::move(items));
}

Value character(Budget& budget, const Value& string, std::size_t offset) {
  const auto& text = string.text();
  return make_string(&budget, text.slice(offset, character_at(text.bytes(), offset).length),
                     string.string().markup);
}

}  // namespace inferno::jinja
