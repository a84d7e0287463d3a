#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/json.hpp"
#include "platform/quote.hpp"
#include "platform/read_json.hpp"

namespace inferno::jinja {
namespace {

/// Builds values while the text is read: a tree of nlohmann's own would lose the digits of large integers.
class ValueBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit ValueBuilder(std::string_view what) : what_(what) {}

  bool null() override { return add(Value()); }
  bool boolean(bool value) override { return add(Value(value)); }
  bool number_integer(number_integer_t value) override {
    return add(Value(static_cast<std::int64_t>(value)));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<number_unsigned_t>(INT64_MAX))
      return add(Value(static_cast<std::int64_t>(value)));
    return add(big_integer(fmt::format("{}", value)));
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    if (digits.find_first_of(".eE") == string_t::npos) return add(big_integer(digits));
    return add(Value(value));
  }
  bool string(string_t& value) override { return add(make_untrusted(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(true); }
  bool key(string_t& value) override {
    open_.back().key = make_untrusted(value);
    return true;
  }
  bool end_object() override {
    auto dict = open_.back().dict.finish();
    open_.pop_back();
    return add(std::move(dict));
  }
  bool start_array(std::size_t) override { return open(false); }
  bool end_array() override {
    auto list = make_list(nullptr, std::move(open_.back().items));
    open_.pop_back();
    return add(std::move(list));
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    throw UsageError(
        fmt::format("{}: expected JSON, found {} at byte {}", what_, quote(token, 40), position));
  }

  Value take() { return std::move(result_); }

 private:
  struct Open {
    bool is_object = false;
    Value key;
    DictBuilder dict{nullptr};
    Values items;
  };

  static Value big_integer(const std::string& digits) {
    return {Kind::big_integer, std::make_shared<StringObject>(nullptr, Text(digits, true), false)};
  }

  bool open(bool is_object) {
    if (open_.size() >= kMaxValueDepth) {
      throw UsageError(fmt::format("{}: JSON is nested deeper than {} levels; expected a flatter one", what_,
                                   kMaxValueDepth));
    }
    open_.emplace_back().is_object = is_object;
    return true;
  }

  bool add(Value value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().dict.set(open_.back().key, std::move(value));
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  std::string_view what_;
  std::vector<Open> open_;
  Value result_;
};

}  // namespace

Value parse_json(std::string_view text, std::string_view what) {
  ValueBuilder builder(what);
  read_json(text, builder);
  return builder.take();
}

}  // namespace inferno::jinja
