#include "grammar/random_schema.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

namespace inferno::test {
namespace {

constexpr std::array<std::string_view, 10> kNames = {"a",           "b",    "ab",  "id",           "na me",
                                                     "caf\xC3\xA9", "q\"q", "x\\", "\xE2\x82\xAC", ""};

struct PatternCase {
  std::string_view pattern;
  std::array<std::string_view, 3> texts;
};
constexpr std::array<PatternCase, 9> kPatterns = {{
    {"^[a-z]{2,4}$", {"ab", "abc", "wxyz"}},
    {"^(foo|bar)+$", {"foo", "barfoo", "foobarbar"}},
    {"b+c?", {"b", "xbbcy", "\xC3\xA9 bc"}},
    {"^\\d{3}-\\d{2}$", {"123-45", "000-00", "999-99"}},
    {"^[^\"\\\\a]*$", {"", "bcd", "\xE2\x82\xAC\n"}},
    {"^ ?[!-~]+$", {" x", "yz", "~"}},
    {"^.\\.(?:x|y)$", {"a.x", "\xC3\xA9.y", "\".x"}},
    {"\\u00e9$", {"\xC3\xA9", "caf\xC3\xA9", "\n\xC3\xA9"}},
    {"^(a|ab)(c|bcd)(d*)$", {"abcd", "ac", "abcdd"}},
}};
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kFormats = {
    {{"date", "2024-02-29"},
     {"time", "12:30:00Z"},
     {"date-time", "2023-11-30T08:15:30.25+01:00"},
     {"uuid", "123e4567-e89b-12d3-a456-426614174000"},
     {"ipv4", "192.168.0.1"},
     {"ipv6", "fe80::1:2"},
     {"hostname", "www.example.com"},
     {"email", "some.one@example.org"},
     {"duration", "P1Y2M3DT4H"}}};

}  // namespace

RandomSchema::RandomSchema(Dice& dice) : dice_(dice) {
  // Recursion: a list whose end is always open.
  OrderedJson node = {
      {"type", "object"},
      {"properties",
       {{"v", make(2)}, {"next", {{"anyOf", {{{"type", "null"}}, {{"$ref", "#/$defs/node"}}}}}}}},
      {"required", {"next"}},
      {"additionalProperties", false}};
  schema_ = make(0);
  if (!schema_.is_object()) schema_ = OrderedJson::object();
  schema_["$defs"] = {{"node", std::move(node)}};
}

OrderedJson RandomSchema::make(int depth) {
  switch (dice_(depth > 3 ? 6 : 12)) {
    case 0:
      return {{"type", "null"}};
    case 1:
      return {{"type", "boolean"}, {"title", "yes or no"}};
    case 2:
    case 3:
      return make_string();
    case 4:
      return make_number();
    case 5:
      return make_enum();
    case 6:
      return make_array(depth);
    case 7:
    case 8:
      return make_object(depth);
    case 9: {
      OrderedJson options = OrderedJson::array();
      for (auto count = 1 + dice_(3); count > 0; --count) options.push_back(make(depth + 1));
      // What nothing matches, as some programs write it.
      if (dice_(4) == 0) options.push_back({{"not", OrderedJson::object()}});
      return {{"anyOf", std::move(options)}};
    }
    case 10:
      if (depth == 0) return make_object(depth);
      return {{"$ref", "#/$defs/node"}};
    default:
      return dice_(2) == 0 ? OrderedJson(true) : OrderedJson({{"type", {"string", "integer", "null"}}});
  }
}

OrderedJson RandomSchema::make_string() {
  OrderedJson schema = {{"type", "string"}};
  switch (dice_(5)) {
    case 0:
      schema["pattern"] = kPatterns[dice_(kPatterns.size())].pattern;
      if (dice_(3) == 0)
        schema["allOf"] = {{{"pattern", "^(?!.*zz)(?=[^$]*$)"}}, {{"pattern", "^[^~!]*[^!]?$"}}};
      break;
    case 1:
      schema["format"] = kFormats[dice_(kFormats.size())].first;
      if (dice_(3) == 0) schema["pattern"] = "[-:.@P]";
      break;
    case 2:
      schema["minLength"] = dice_(4);
      schema["maxLength"] = 4 + dice_(4);
      break;
    case 3:
      schema["maxLength"] = dice_(4);
      break;
    default:
      break;
  }
  return schema;
}

OrderedJson RandomSchema::make_number() {
  OrderedJson schema = {{"type", dice_(2) == 0 ? "integer" : "number"}};
  const auto low = static_cast<int>(dice_(2000)) - 1000;
  // Also bounds with more digits than are written.
  const auto bound = [this](int value) {
    return dice_(3) == 0 ? OrderedJson(value + 0.1 + 0.2) : OrderedJson(value);
  };
  if (dice_(2) == 0) schema[dice_(3) == 0 ? "exclusiveMinimum" : "minimum"] = bound(low);
  if (dice_(2) == 0)
    schema[dice_(3) == 0 ? "exclusiveMaximum" : "maximum"] = bound(low + 20 + static_cast<int>(dice_(500)));
  if (dice_(4) == 0) schema["multipleOf"] = 1 + dice_(9);
  return schema;
}

OrderedJson RandomSchema::make_enum() {
  OrderedJson values = OrderedJson::array();
  for (auto count = 1 + dice_(5); count > 0; --count) values.push_back(any_value(2));
  if (dice_(3) == 0) return {{"const", values[0]}};
  return {{"enum", std::move(values)}};
}

OrderedJson RandomSchema::make_array(int depth) {
  if (dice_(6) == 0) {
    return {{"type", "array"},
            {"items", {{"enum", {"a", "ab", 1, 2.5, true, nullptr}}}},
            {"uniqueItems", true},
            {"minItems", dice_(4)},
            {"maxItems", 4 + dice_(6)}};
  }
  OrderedJson schema = {{"type", "array"}};
  if (dice_(4) == 0) {
    OrderedJson first = OrderedJson::array();
    for (auto count = 1 + dice_(3); count > 0; --count) first.push_back(make(depth + 1));
    schema["prefixItems"] = std::move(first);
    schema["items"] = dice_(2) == 0 ? OrderedJson(false) : make(depth + 1);
  } else if (dice_(5) != 0) {
    schema["items"] = make(depth + 1);
  }
  if (dice_(2) == 0) schema["maxItems"] = 2 + dice_(3);
  if (dice_(2) == 0) schema["minItems"] = schema.contains("prefixItems") ? 1 : dice_(3);
  return schema;
}

OrderedJson RandomSchema::make_object(int depth) {
  OrderedJson properties = OrderedJson::object();
  OrderedJson required = OrderedJson::array();
  for (auto count = dice_(5); count > 0; --count) {
    const std::string name(kNames[dice_(kNames.size())]);
    if (properties.contains(name)) continue;
    properties[name] = make(depth + 1);
    if (dice_(2) == 0) required.push_back(name);
  }
  OrderedJson schema = {
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
  switch (dice_(4)) {
    case 0:
      schema["additionalProperties"] = make(depth + 1);
      break;
    case 1:
      break;
    default:
      schema["additionalProperties"] = false;
  }
  const bool open = schema.contains("additionalProperties") && schema["additionalProperties"] != false;
  if (open && dice_(3) == 0) schema["propertyNames"] = {{"pattern", "^[^!]*$"}, {"maxLength", 7}};
  const auto declared = schema["properties"].size();
  const auto least = dice_(declared + 1 + (open ? 1 : 0));
  if (dice_(3) == 0) schema["minProperties"] = least;
  if (dice_(3) == 0)
    schema["maxProperties"] = std::max({std::size_t{1}, least, schema["required"].size()}) + dice_(3);
  return schema;
}

std::string RandomSchema::text(std::size_t least, std::size_t most) {
  static constexpr std::array<std::string_view, 9> kCharacters = {
      "a", "Z", " ", "\"", "\\", "\n", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9D\x84\x9E"};
  std::string out;
  for (auto count = least + dice_(most - least + 1); count > 0; --count)
    out += kCharacters[dice_(kCharacters.size())];
  return out;
}

OrderedJson RandomSchema::any_value(int depth) {
  switch (dice_(depth > 3 ? 5 : 7)) {
    case 0:
      return nullptr;
    case 1:
      return dice_(2) == 0;
    case 2:
      return static_cast<int>(dice_(1000)) - 500;
    case 3:
      return static_cast<double>(dice_(1000)) / 8;
    case 4:
      return text(0, 4);
    case 5: {
      OrderedJson list = OrderedJson::array();
      for (auto count = dice_(3); count > 0; --count) list.push_back(any_value(depth + 1));
      return list;
    }
    default: {
      OrderedJson object = OrderedJson::object();
      for (auto count = dice_(3); count > 0; --count) object[text(1, 3)] = any_value(depth + 1);
      return object;
    }
  }
}

OrderedJson RandomSchema::instance(const OrderedJson& schema, int depth) {
  if (schema.is_boolean()) return any_value(depth);
  if (schema.contains("const")) return schema["const"];
  if (schema.contains("enum")) return schema["enum"][dice_(schema["enum"].size())];
  if (schema.contains("anyOf")) {
    const auto& options = schema["anyOf"];
    const auto& chosen = options[depth > 8 ? 0 : dice_(options.size())];
    return instance(chosen.contains("not") ? options[0] : chosen, depth + 1);
  }
  if (schema.contains("$ref")) return instance(schema_["$defs"]["node"], depth + 1);
  if (!schema.contains("type")) return any_value(depth);
  if (schema["type"].is_array()) return dice_(2) == 0 ? OrderedJson(nullptr) : OrderedJson(text(0, 3));
  const auto type = schema["type"].get<std::string>();
  if (type == "null") return nullptr;
  if (type == "boolean") return dice_(2) == 0;
  if (type == "string") return string_instance(schema);
  if (type == "array") return array_instance(schema, depth);
  if (type == "object") return object_instance(schema, depth);
  return number_instance(schema);
}

OrderedJson RandomSchema::string_instance(const OrderedJson& schema) {
  if (schema.contains("pattern")) {
    for (const auto& one : kPatterns) {
      if (one.pattern == schema["pattern"].get<std::string>()) return one.texts[dice_(3)];
    }
  }
  if (schema.contains("format")) {
    for (const auto& [name, example] : kFormats) {
      if (name == schema["format"].get<std::string>()) return example;
    }
  }
  const auto least = schema.value("minLength", std::size_t{0});
  return text(least, schema.value("maxLength", least + 6));
}

OrderedJson RandomSchema::number_instance(const OrderedJson& schema) {
  int low = -2000;
  int high = 2000;
  const auto floor_of = [&](const char* keyword) {
    return static_cast<int>(std::floor(schema[keyword].get<double>()));
  };
  const auto ceiling_of = [&](const char* keyword) {
    return static_cast<int>(std::ceil(schema[keyword].get<double>()));
  };
  if (schema.contains("minimum")) low = ceiling_of("minimum");
  if (schema.contains("exclusiveMinimum")) low = floor_of("exclusiveMinimum") + 1;
  if (schema.contains("maximum")) high = floor_of("maximum");
  if (schema.contains("exclusiveMaximum")) high = ceiling_of("exclusiveMaximum") - 1;
  const auto value = low + static_cast<int>(dice_(static_cast<std::size_t>(high - low + 1)));
  if (schema.contains("multipleOf")) {
    const auto unit = schema["multipleOf"].get<int>();
    for (int near = value; near <= high; ++near) {
      if (near % unit == 0) return near;
    }
    for (int near = value;; --near) {
      if (near % unit == 0) return near;
    }
  }
  if (schema["type"] == "number" && value < high && dice_(2) == 0) return value + 0.125;
  return value;
}

OrderedJson RandomSchema::array_instance(const OrderedJson& schema, int depth) {
  if (schema.contains("uniqueItems")) {
    auto values = schema["items"]["enum"];
    OrderedJson list = OrderedJson::array();
    const auto least = schema["minItems"].get<std::size_t>();
    const auto most = std::min(values.size(), schema["maxItems"].get<std::size_t>());
    for (auto count = least + dice_(most - least + 1); count > 0; --count) {
      const auto chosen = dice_(values.size());
      list.push_back(values[chosen]);
      values.erase(chosen);
    }
    return list;
  }
  const auto first = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
  const bool ends = first > 0 && schema["items"] == false;
  const auto least = schema.value("minItems", std::size_t{0});
  auto most = schema.value("maxItems", least + 3);
  if (ends) most = std::min(most, first);
  OrderedJson list = OrderedJson::array();
  const auto count = depth > 6 ? least : least + dice_(most - std::min(most, least) + 1);
  for (std::size_t i = 0; i < count; ++i) {
    if (i < first) {
      list.push_back(instance(schema["prefixItems"][i], depth + 1));
    } else {
      list.push_back(schema.contains("items") ? instance(schema["items"], depth + 1) : any_value(depth + 1));
    }
  }
  return list;
}

OrderedJson RandomSchema::object_instance(const OrderedJson& schema, int depth) {
  const auto& properties = schema["properties"];
  const auto& required = schema["required"];
  std::set<std::string> chosen(required.begin(), required.end());
  const auto most = schema.value("maxProperties", std::size_t{100});
  const auto least = schema.value("minProperties", std::size_t{0});
  for (const auto& [name, property] : properties.items()) {
    if (depth < 6 && dice_(2) == 0 && chosen.size() < most) chosen.insert(name);
  }
  for (const auto& [name, property] : properties.items()) {
    if (chosen.size() < least) chosen.insert(name);
  }
  OrderedJson object = OrderedJson::object();
  for (const auto& [name, property] : properties.items()) {
    if (chosen.contains(name)) object[name] = instance(property, depth + 1);
  }
  const bool open = schema.contains("additionalProperties") && schema["additionalProperties"] != false;
  const bool wanted = depth < 6 && dice_(2) == 0 && chosen.size() < most;
  if (open && (wanted || chosen.size() < least))
    object["another"] = instance(schema["additionalProperties"], depth + 1);
  return object;
}

std::string spell(const OrderedJson& value, int style) {
  if (style == 0) return value.dump();
  if (style == 1) return value.dump(2);
  if (value.is_array()) {
    std::string out = "[";
    for (std::size_t i = 0; i < value.size(); ++i) {
      out += i == 0 ? "" : ", ";
      out += spell(value[i], style);
    }
    return out + "]";
  }
  if (!value.is_object()) return value.dump();
  std::string out = "{";
  for (const auto& [name, member] : value.items()) {
    out += out.size() == 1 ? "" : ", ";
    out += OrderedJson(name).dump();
    out += ": ";
    out += spell(member, style);
  }
  return out + "}";
}

}  // namespace inferno::test
