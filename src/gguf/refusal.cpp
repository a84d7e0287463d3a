#include "gguf/refusal.hpp"

#include <fmt/format.h>

#include <inferno/error.hpp>

#include "platform/quote.hpp"

namespace inferno::gguf {
namespace {

constexpr std::size_t kPathLimit = 1024;

}  // namespace

std::string name_for_messages(const std::filesystem::path& path) {
  return quote(path.native(), kPathLimit);
}

std::string describe(const Value& value) {
  if (const auto* text = value.as_string()) return quote(*text);
  if (const auto* array = value.as_array()) {
    return fmt::format("an array of {} {}", array->size(), value_type_name(array->element_type));
  }
  if (const auto flag = value.as_bool()) return *flag ? "true" : "false";
  if (const auto whole = value.as_signed()) return fmt::format("{}", *whole);
  if (const auto whole = value.as_unsigned()) return fmt::format("{}", *whole);
  // Whole numbers do for floats what floats do not for them: the type may be what is wrong.
  return fmt::format("{} ({})", value.as_number().value_or(0.0), value_type_name(value.type()));
}

std::string at_byte(std::optional<std::uint64_t> offset) {
  return offset ? fmt::format(" at byte {}", *offset) : std::string();
}

std::string key_with_value(const File& file, std::string_view key) {
  const Value* value = file.find(key);
  if (value == nullptr) return std::string(key);
  const std::string place = value->offset() ? fmt::format(" (at byte {})", *value->offset()) : "";
  return fmt::format("{} = {}{}", key, describe(*value), place);
}

void refuse_value(const File& file, std::string_view key, std::string_view expected, std::string_view found) {
  const Value* value = file.find(key);
  throw Error(fmt::format("{}: metadata key {}: expected {}{}, found {}", name_for_messages(file.path()),
                          quote(key), expected, value == nullptr ? "" : at_byte(value->offset()), found));
}

void refuse_value(const File& file, std::string_view key, std::string_view expected) {
  const Value* value = file.find(key);
  refuse_value(file, key, expected, value == nullptr ? "no such key" : describe(*value));
}

void refuse_tensor(const File& file, const TensorInfo& tensor, std::string_view field,
                   std::string_view expected, std::string_view found) {
  throw Error(fmt::format("{}: tensor {}: {}: expected {}{}, found {}",
                          name_for_messages(file.shard_path(tensor.shard)), quote(tensor.name), field,
                          expected, at_byte(tensor.declared_at), found));
}

}  // namespace inferno::gguf
