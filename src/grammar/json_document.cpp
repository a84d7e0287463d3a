#include "grammar/json_document.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_set>

#include "grammar/grammar.hpp"
#include "platform/quote.hpp"
#include "platform/read_json.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno::grammar {
namespace {

/// As in a URI's fragment, so a message with it is one line, whatever the key.
std::string escape_pointer(std::string_view key) {
  std::string out;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else if (c == '%' || byte < 0x20 || byte == 0x7F) {
      out += fmt::format("%{:02X}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

std::string unescape_pointer(std::string_view key) {
  std::string out;
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (key[i] == '~' && i + 1 < key.size() && (key[i + 1] == '0' || key[i + 1] == '1')) {
      out += key[++i] == '0' ? '~' : '/';
    } else {
      out += key[i];
    }
  }
  return out;
}

class DocumentBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return add({.kind = JsonKind::null}); }
  bool boolean(bool value) override { return add({.kind = JsonKind::boolean, .boolean = value}); }
  bool number_integer(number_integer_t value) override { return add_number(fmt::format("{}", value)); }
  bool number_unsigned(number_unsigned_t value) override { return add_number(fmt::format("{}", value)); }
  bool number_float(number_float_t, const string_t& digits) override { return add_number(digits); }
  bool string(string_t& value) override { return add({.kind = JsonKind::string, .text = std::move(value)}); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(JsonKind::object); }
  bool start_array(std::size_t) override { return open(JsonKind::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    auto& top = open_.back();
    if (!top.seen.insert(value).second) {
      throw SchemaError(path(), fmt::format("the key {} stands here twice; expected once", quote(value, 60)));
    }
    top.value.keys.push_back(std::move(value));
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    throw SchemaError("", fmt::format("expected JSON, found {} at byte {}", quote(token, 40), position));
  }

  Json take() { return std::move(result_); }

 private:
  struct Open {
    Json value;
    std::unordered_set<std::string> seen;
  };

  bool add_number(std::string digits) { return add({.kind = JsonKind::number, .text = std::move(digits)}); }

  bool open(JsonKind kind) {
    if (open_.size() >= kMaxSchemaDepth) {
      throw SchemaError("",
                        fmt::format("nested deeper than {} levels; expected a flatter schema, for example "
                                    "with $ref",
                                    kMaxSchemaDepth));
    }
    open_.push_back({.value = {.kind = kind}, .seen = {}});
    return true;
  }

  bool close() {
    auto value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }

  bool add(Json value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else {
      open_.back().value.items.push_back(std::move(value));
    }
    return true;
  }

  /// Of the object that is being read.
  std::string path() const {
    std::string out;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
      const auto& value = open_[i].value;
      out += value.is(JsonKind::object) ? fmt::format("/{}", escape_pointer(value.keys.back()))
                                        : fmt::format("/{}", value.items.size());
    }
    return out;
  }

  std::vector<Open> open_;
  Json result_;
};

/// Values have found their final places.
void link(Json& value) {
  value.by_key.resize(value.keys.size());
  std::iota(value.by_key.begin(), value.by_key.end(), 0U);
  std::sort(value.by_key.begin(), value.by_key.end(),
            [&](std::uint32_t a, std::uint32_t b) { return value.keys[a] < value.keys[b]; });
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    value.items[i].parent = &value;
    value.items[i].index = static_cast<std::uint32_t>(i);
    link(value.items[i]);
  }
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  const auto at = std::lower_bound(by_key.begin(), by_key.end(), key,
                                   [&](std::uint32_t i, std::string_view k) { return keys[i] < k; });
  return at != by_key.end() && keys[*at] == key ? &items[*at] : nullptr;
}

std::string Json::path() const {
  std::vector<std::string> parts;
  for (const auto* at = this; at->parent != nullptr; at = at->parent) {
    parts.push_back(at->parent->is(JsonKind::object) ? escape_pointer(at->parent->keys[at->index])
                                                     : fmt::format("{}", at->index));
  }
  std::string out;
  std::reverse(parts.begin(), parts.end());
  for (const auto& part : parts) (out += '/') += part;
  return out;
}

std::string_view json_kind_name(JsonKind kind) {
  static constexpr std::array<std::string_view, 6> kNames = {"null",     "a boolean", "a number",
                                                             "a string", "an array",  "an object"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::unique_ptr<const Json> parse_document(std::string_view text) {
  if (text.size() > kMaxSchemaBytes) {
    throw SchemaError("",
                      fmt::format("{} bytes of schema; expected at most {}", text.size(), kMaxSchemaBytes));
  }
  DocumentBuilder builder;
  read_json(text, builder);
  auto root = std::make_unique<Json>(builder.take());
  link(*root);
  return root;
}

const Json* follow_pointer(const Json& root, std::string_view pointer) {
  const auto* at = &root;
  while (!pointer.empty()) {
    if (pointer[0] != '/') return nullptr;
    pointer.remove_prefix(1);
    const auto part = unescape_pointer(pointer.substr(0, pointer.find('/')));
    pointer.remove_prefix(std::min(pointer.find('/'), pointer.size()));
    if (at->is(JsonKind::object)) {
      at = at->find(part);
      if (at == nullptr) return nullptr;
    } else if (at->is(JsonKind::array)) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      if (error != std::errc() || end != part.data() + part.size() || index >= at->items.size())
        return nullptr;
      at = &at->items[index];
    } else {
      return nullptr;
    }
  }
  return at;
}

bool equal(const Json& a, const Json& b) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  switch (a.kind) {
    case JsonKind::null:
      return true;
    case JsonKind::boolean:
      return a.boolean == b.boolean;
    case JsonKind::string:
      return a.text == b.text;
    case JsonKind::number:
      return a.number() == b.number();
    case JsonKind::array:
      return std::equal(a.items.begin(), a.items.end(), b.items.begin(), equal);
    case JsonKind::object:
      break;
  }
  for (std::size_t i = 0; i < a.keys.size(); ++i) {
    const auto* other = b.find(a.keys[i]);
    if (other == nullptr || !equal(a.items[i], *other)) return false;
  }
  return true;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

std::u32string code_points(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    const auto step = utf8_step(text);
    out += step.valid ? step.code_point : U'\uFFFD';
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace inferno::grammar
