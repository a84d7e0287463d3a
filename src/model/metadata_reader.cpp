#include "model/metadata_reader.hpp"

#include <cmath>
#include <concepts>
#include <fmt/format.h>
#include <variant>

#include <inferno/error.hpp>

#include "platform/quote.hpp"

namespace inferno {
namespace {

constexpr std::size_t kPathLimit = 1024;

/// The one value of an array whose entries are all the same whole number.
std::optional<std::uint64_t> uniform_entry(const gguf::Array& array) {
  if (array.element_type == gguf::ValueType::boolean) return std::nullopt;  // stored as bytes
  return std::visit(
      [](const auto& list) -> std::optional<std::uint64_t> {
        using Entry = typename std::decay_t<decltype(list)>::value_type;
        if constexpr (std::integral<Entry>) {
          if (list.empty() || !std::in_range<std::uint64_t>(list.front())) return std::nullopt;
          for (const auto& entry : list) {
            if (entry != list.front()) return std::nullopt;
          }
          return static_cast<std::uint64_t>(list.front());
        } else {
          return std::nullopt;
        }
      },
      array.elements);
}

}  // namespace

std::string file_name_for_messages(const gguf::File& file) {
  return quote(file.path().native(), kPathLimit);
}

std::string describe(const gguf::Value& value) {
  if (const auto* text = value.as_string()) return quote(*text);
  if (const auto* array = value.as_array()) {
    return fmt::format("an array of {} {}", array->size(), gguf::value_type_name(array->element_type));
  }
  if (const auto flag = value.as_bool()) return *flag ? "true" : "false";
  if (const auto whole = value.as_signed()) return fmt::format("{}", *whole);
  if (const auto whole = value.as_unsigned()) return fmt::format("{}", *whole);
  return fmt::format("{}", value.as_number().value_or(0.0));
}

const gguf::Value* MetadataReader::find(std::string_view key) const {
  auto full = full_key(key);
  const gguf::Value* value = file_.find(full);
  read_.insert(std::move(full));
  return value;
}

std::vector<std::string> MetadataReader::unread_keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : file_.metadata()) {
    if (key.compare(0, prefix_.size(), prefix_) == 0 && !read_.contains(key)) keys.push_back(key);
  }
  return keys;
}

void MetadataReader::fail(std::string_view message) const {
  throw Error(fmt::format("{}: {}", file_name_for_messages(file_), message));
}

std::uint32_t MetadataReader::count(std::string_view key, std::uint32_t max) const {
  const auto value = optional_count(key, max);
  if (!value) fail(fmt::format("metadata {} is missing; expected a whole number", full_key(key)));
  return *value;
}

std::optional<std::uint32_t> MetadataReader::optional_count(std::string_view key, std::uint32_t max) const {
  const gguf::Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* array = value->as_array();
  const auto number = array != nullptr ? uniform_entry(*array) : value->as_unsigned();
  if (!number || *number == 0 || *number > max) {
    fail(fmt::format("metadata {} is {}; expected a whole number from 1 to {}{}", full_key(key),
                     describe(*value), max, array != nullptr ? ", the same for every layer" : ""));
  }
  return static_cast<std::uint32_t>(*number);
}

std::optional<double> MetadataReader::optional_number(std::string_view key) const {
  const gguf::Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = value->as_number();
  if (!number || !std::isfinite(*number)) {
    fail(fmt::format("metadata {} is {}; expected a finite number", full_key(key), describe(*value)));
  }
  return number;
}

std::optional<std::string> MetadataReader::optional_text(std::string_view key) const {
  const gguf::Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = value->as_string();
  if (text == nullptr)
    fail(fmt::format("metadata {} is {}; expected a string", full_key(key), describe(*value)));
  return *text;
}

std::optional<bool> MetadataReader::optional_flag(std::string_view key) const {
  const gguf::Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto flag = value->as_bool();
  if (!flag) fail(fmt::format("metadata {} is {}; expected true or false", full_key(key), describe(*value)));
  return flag;
}

}  // namespace inferno
