#include "model/metadata_reader.hpp"

#include <cmath>
#include <concepts>
#include <fmt/format.h>
#include <variant>

#include "gguf/refusal.hpp"

namespace inferno {
namespace {

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

std::string whole_number(std::uint32_t max) {
  return fmt::format("a whole number from 1 to {}", max);
}

}  // namespace

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

void MetadataReader::refuse(std::string_view key, std::string_view expected) const {
  gguf::refuse_value(file_, full_key(key), expected);
}

void MetadataReader::refuse(std::string_view key, std::string_view expected, std::string_view found) const {
  gguf::refuse_value(file_, full_key(key), expected, found);
}

std::string MetadataReader::with_value(std::string_view key) const {
  return gguf::key_with_value(file_, full_key(key));
}

std::uint32_t MetadataReader::count(std::string_view key, std::uint32_t max) const {
  const auto value = optional_count(key, max);
  if (!value) refuse(key, whole_number(max));
  return *value;
}

std::optional<std::uint32_t> MetadataReader::optional_count(std::string_view key, std::uint32_t max) const {
  const gguf::Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = value->as_unsigned();
  if (!number || *number == 0 || *number > max) refuse(key, whole_number(max));
  return static_cast<std::uint32_t>(*number);
}

std::uint32_t MetadataReader::layer_count(std::string_view key, std::uint32_t max,
                                          std::uint32_t layers) const {
  const auto value = optional_layer_count(key, max, layers);
  if (!value) refuse(key, whole_number(max));
  return *value;
}

std::optional<std::uint32_t> MetadataReader::optional_layer_count(std::string_view key, std::uint32_t max,
                                                                  std::uint32_t layers) const {
  const gguf::Value* value = find(key);
  const auto* array = value == nullptr ? nullptr : value->as_array();
  if (array == nullptr) return optional_count(key, max);
  if (array->size() != layers) {
    refuse(key, fmt::format("one number or an array of {}, one for each layer of {},", layers,
                            with_value("block_count")));
  }
  const auto number = uniform_entry(*array);
  if (!number || *number == 0 || *number > max) {
    refuse(key, fmt::format("{}, the same for every layer", whole_number(max)));
  }
  return static_cast<std::uint32_t>(*number);
}

std::optional<double> MetadataReader::optional_number(std::string_view key) const {
  const gguf::Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = value->as_number();
  if (!number || !std::isfinite(*number)) {
    refuse(key, "a finite number");
  }
  return number;
}

std::optional<std::string> MetadataReader::optional_text(std::string_view key) const {
  const gguf::Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = value->as_string();
  if (text == nullptr) refuse(key, "a string");
  return *text;
}

std::optional<bool> MetadataReader::optional_flag(std::string_view key) const {
  const gguf::Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto flag = value->as_bool();
  if (!flag) refuse(key, "true or false");
  return flag;
}

}  // namespace inferno
