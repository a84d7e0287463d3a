#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <vector>

#include "chat/jinja/json.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/print.hpp"
#include "chat/jinja/unicode.hpp"

namespace inferno::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonFormat& format) : budget_(budget), format_(format), out_(budget) {}

  void write(const Value& value) {
    budget_.step();
    switch (value.kind()) {
      case Kind::none:
        return out_.append("null", true);
      case Kind::boolean:
        return out_.append(value.boolean() ? "true" : "false", true);
      case Kind::integer:
        return out_.append(fmt::format("{}", value.integer()), true);
      case Kind::big_integer:
        return out_.append(value.text());
      case Kind::real:
        return out_.append(real_to_json(value.real()), true);
      case Kind::string:
        return write_string(value.text());
      case Kind::list:
      case Kind::tuple:
        return write_list(value.list().items);
      case Kind::dict:
        return write_dict(value.dict());
      default:
        budget_.fail(
            fmt::format("tojson does not take a value of type {}; expected JSON's types", type_name(value)));
    }
  }

  Text take() { return out_.take(); }

 private:
  static std::string real_to_json(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return real_to_string(value);
  }

  void new_line() {
    if (!format_.multi_line) return;
    out_.append("\n", true);
    out_.append_repeated(format_.indent, level_);
  }

  void write_list(const Values& items) {
    if (items.empty()) return out_.append("[]", true);
    out_.append("[", true);
    ++level_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_.append(format_.item_separator);
      first = false;
      new_line();
      write(item);
    }
    --level_;
    new_line();
    out_.append("]", true);
  }

  void write_dict(const DictObject& dict) {
    if (dict.entries.empty()) return out_.append("{}", true);
    std::vector<const DictObject::Entries::value_type*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (format_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const auto* left, const auto* right) {
        return order(budget_, left->first, right->first) < 0;
      });
    }
    out_.append("{", true);
    ++level_;
    bool first = true;
    for (const auto* entry : entries) {
      if (!first) out_.append(format_.item_separator);
      first = false;
      new_line();
      write_key(entry->first);
      out_.append(format_.key_separator);
      write(entry->second);
    }
    --level_;
    new_line();
    out_.append("}", true);
  }

  void write_key(const Value& key) {
    if (key.is_string()) return write_string(key.text());
    if (!key.is_none() && !key.is_number()) {
      budget_.fail(fmt::format("tojson does not take a {} as a key; expected a string", type_name(key)));
    }
    out_.append("\"", true);
    write(key);
    out_.append("\"", true);
  }

  std::string escape(char32_t c) const {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\f':
        return "\\f";
      case '\b':
        return "\\b";
      default:
        break;
    }
    const auto code = static_cast<std::uint32_t>(c);
    if (code < 0x20) return fmt::format("\\u{:04x}", code);
    if (!format_.ascii_only || code < 0x80) return "";
    if (code < 0x10000) return fmt::format("\\u{:04x}", code);
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10U),
                       0xDC00 + ((code - 0x10000) & 0x3FFU));
  }

  void write_string(const Text& text) {
    out_.append("\"", true);
    const auto& bytes = text.bytes();
    std::size_t copied = 0;
    for (std::size_t offset = 0; offset < bytes.size();) {
      const auto [c, length] = character_at(bytes, offset);
      const auto instead = escape(c);
      if (!instead.empty()) {
        out_.append_slice(text, copied, offset - copied);
        out_.append(instead, text.trusted_at(offset));
        copied = offset + length;
      }
      offset += length;
    }
    out_.append_slice(text, copied, bytes.size() - copied);
    out_.append("\"", true);
  }

  Budget& budget_;
  const JsonFormat& format_;
  TextBuilder out_;
  std::size_t level_ = 0;
};

}  // namespace

Text dump_json(Budget& budget, const Value& value, const JsonFormat& format) {
  JsonWriter writer(budget, format);
  writer.write(value);
  return writer.take();
}

}  // namespace inferno::jinja
