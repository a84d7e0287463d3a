#include "server/api/fields.hpp"

#include <cmath>
#include <fmt/format.h>
#include <utility>

#include "server/api/error.hpp"

namespace inferno::api {
namespace {

constexpr double kInt64Limit = 9223372036854775808.0;  // 2^63

/// Nobody needs to be told more of them.
constexpr std::size_t kMostDigits = 40;

}  // namespace

std::optional<double> real(const Json& value) {
  if (const auto* number = value.real()) return *number;
  if (const auto* number = value.integer()) return static_cast<double>(*number);
  if (const auto* number = value.unsigned_integer()) return static_cast<double>(*number);
  if (const auto* number = value.big_integer()) return number->value;
  return std::nullopt;
}

std::string number_text(const Json& value) {
  if (const auto* number = value.integer()) return fmt::format("{}", *number);
  if (const auto* number = value.unsigned_integer()) return fmt::format("{}", *number);
  const auto* big = value.big_integer();
  if (big == nullptr) return fmt::format("{}", real(value).value_or(0));
  if (big->digits.size() <= kMostDigits) return big->digits;
  return fmt::format("{}… ({} digits)", big->digits.substr(0, kMostDigits / 2), big->digits.size());
}

std::string element_path(const std::string& path, std::size_t place) {
  return fmt::format("{}[{}]", path, place);
}

void wrong_type(const std::string& path, std::string_view expected, const Json& found) {
  refuse(path, fmt::format("expected {}, found {}", expected, found.type_name()), "invalid_type");
}

std::optional<std::int64_t> integral(const Json& value) {
  if (const auto* number = value.integer()) return *number;
  const auto number = real(value);
  if (!number || std::trunc(*number) != *number) return std::nullopt;
  if (*number >= kInt64Limit) return std::numeric_limits<std::int64_t>::max();
  if (*number < -kInt64Limit) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(*number);
}

Fields::Fields(const Json& value, std::string path) : object_(value.object()), path_(std::move(path)) {
  if (object_ != nullptr) return;
  if (!path_.empty()) wrong_type(path_, "an object", value);
  throw ApiError(400, "invalid_request_error",
                 fmt::format("the request body: expected an object, found {}", value.type_name()), {},
                 "invalid_type");
}

const Json* Fields::find(std::string_view name) const {
  const auto* value = object_->find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const auto* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->boolean() == nullptr) wrong_type(path_of(name), "true or false", *value);
  return *value->boolean();
}

std::optional<std::string> Fields::string(std::string_view name) const {
  const auto* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->string() == nullptr) wrong_type(path_of(name), "a string", *value);
  return *value->string();
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t least,
                                            std::int64_t most) const {
  const auto* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = integral(*value);
  if (!number) {
    if (real(*value)) {
      refuse(path_of(name), fmt::format("expected an integer, found {}", number_text(*value)),
             "invalid_type");
    }
    wrong_type(path_of(name), "an integer", *value);
  }
  if (*number < least || *number > most) {
    refuse(path_of(name),
           fmt::format("expected an integer from {} to {}, found {}", least, most, number_text(*value)),
           "out_of_range");
  }
  return number;
}

std::optional<float> Fields::number(std::string_view name, float least, float most) const {
  const auto* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = real(*value);
  if (!number) wrong_type(path_of(name), "a number", *value);
  // Compared as a double: what a float rounds to may lie within.
  if (!(*number >= static_cast<double>(least) && *number <= static_cast<double>(most))) {
    refuse(path_of(name),
           fmt::format("expected a number from {} to {}, found {}", least, most, number_text(*value)),
           "out_of_range");
  }
  return static_cast<float>(*number);
}

std::optional<Fields> Fields::object(std::string_view name) const {
  const auto* value = find(name);
  if (value == nullptr) return std::nullopt;
  return Fields(*value, path_of(name));
}

const Json::Array* Fields::array(std::string_view name) const {
  const auto* value = find(name);
  if (value == nullptr) return nullptr;
  if (value->array() == nullptr) wrong_type(path_of(name), "an array", *value);
  return value->array();
}

}  // namespace inferno::api
