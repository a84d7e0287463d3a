#include "server/api/template_values.hpp"

#include <fmt/format.h>
#include <memory>
#include <utility>

namespace inferno::api {
namespace {

jinja::Value big_integer(const std::string& digits) {
  return {jinja::Kind::big_integer,
          std::make_shared<jinja::StringObject>(nullptr, jinja::Text(digits, true), false)};
}

jinja::Value take_string(std::string& text) {
  auto value = jinja::make_untrusted(text);
  std::string().swap(text);
  return value;
}

}  // namespace

jinja::Value take_template_value(Json& value) {
  if (const auto* boolean = value.boolean()) return jinja::Value(*boolean);
  if (const auto* integer = value.integer()) return jinja::Value(*integer);
  if (const auto* beyond = value.unsigned_integer()) return big_integer(fmt::format("{}", *beyond));
  if (const auto* big = value.big_integer()) return big_integer(big->digits);
  if (const auto* real = value.real()) return jinja::Value(*real);
  if (auto* string = value.string()) return take_string(*string);
  if (auto* array = value.array()) {
    jinja::Values items;
    items.reserve(array->size());
    for (auto& item : *array) items.push_back(take_template_value(item));
    return jinja::make_list(nullptr, std::move(items));
  }
  if (auto* object = value.object()) {
    jinja::DictBuilder builder(nullptr);
    for (auto& [key, item] : object->members()) {
      builder.set(jinja::make_untrusted(key), take_template_value(item));
    }
    return builder.finish();
  }
  return {};
}

}  // namespace inferno::api
