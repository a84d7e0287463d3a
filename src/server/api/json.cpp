#include "server/api/json.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "platform/quote.hpp"
#include "platform/read_json.hpp"
#include "server/api/error.hpp"
#include "server/api/json_text.hpp"

namespace inferno::api {
namespace {

/// Up to here a linear search is as quick as any.
constexpr std::size_t kFewMembers = 8;

[[noreturn]] void fail(const std::string& message) {
  throw ApiError(400, "invalid_request_error", message, {}, "invalid_json");
}

/// Builds the tree while nlohmann's parser, which does not recurse, reads the text.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(std::size_t size) : size_(size) {}
  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(number_integer_t value) override { return add(Json(std::int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<number_unsigned_t>(INT64_MAX))
      return add(Json(static_cast<std::int64_t>(value)));
    return add(Json(std::uint64_t{value}));
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    if (digits.find_first_of(".eE") != string_t::npos) return add(Json(double{value}));
    return add(Json(Json::BigInteger{digits, value}));
  }
  bool string(string_t& value) override { return add(Json(std::move(value))); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override { return open(true); }
  bool key(string_t& value) override {
    open_.back().key = std::move(value);
    return true;
  }
  bool end_object() override {
    auto object = std::move(open_.back().object);
    open_.pop_back();
    object.index();
    return add(Json(std::move(object)));
  }
  bool start_array(std::size_t /*size*/) override { return open(false); }
  bool end_array() override {
    auto array = std::move(open_.back().array);
    open_.pop_back();
    return add(Json(std::move(array)));
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;
    if (error.id == kNumberOverflow) {
      fail(fmt::format("the request body has a number beyond the range of a double, {}, before byte {}",
                       quote(token, 40), position));
    }
    if (position > size_) {
      fail(fmt::format("the request body is not valid JSON: it ends after {} bytes, before the JSON does",
                       size_));
    }
    fail(fmt::format("the request body is not valid JSON: found {} at byte {}", quote(token, 40), position));
  }

  Json take() { return std::move(result_); }

 private:
  struct Open {
    bool is_object = false;
    std::string key;
    Json::Object object;
    Json::Array array;
  };

  bool open(bool is_object) {
    if (open_.size() >= kMaxJsonDepth) {
      fail(fmt::format("the request body is nested deeper than {} levels", kMaxJsonDepth));
    }
    open_.emplace_back().is_object = is_object;
    return true;
  }

  bool add(Json value) {
    if (++values_ > kMaxJsonValues) {
      fail(fmt::format("the request body has more than {} values", kMaxJsonValues));
    }
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().object.members().emplace_back(std::move(open_.back().key), std::move(value));
    } else {
      open_.back().array.push_back(std::move(value));
    }
    return true;
  }

  std::size_t size_;  // of the text
  std::vector<Open> open_;
  std::size_t values_ = 0;
  Json result_;
};

void append(std::string& out, const Json& value) {
  if (const auto* boolean = value.boolean()) {
    out += *boolean ? "true" : "false";
  } else if (const auto* integer = value.integer()) {
    append_json_integer(out, *integer);
  } else if (const auto* beyond = value.unsigned_integer()) {
    fmt::format_to(std::back_inserter(out), "{}", *beyond);
  } else if (const auto* big = value.big_integer()) {
    out += big->digits;
  } else if (const auto* real = value.real()) {
    // With a fraction, so that it is read as a number of the same kind again (and -0.0 keeps its sign).
    const auto digits = fmt::format("{}", *real);
    out += digits;
    if (digits.find_first_of(".e") == std::string::npos) out += ".0";
  } else if (const auto* string = value.string()) {
    append_json_string(out, *string);
  } else if (const auto* array = value.array()) {
    out += '[';
    for (const auto& item : *array) {
      if (&item != array->data()) out += ',';
      append(out, item);
    }
    out += ']';
  } else if (const auto* object = value.object()) {
    out += '{';
    for (const auto& member : object->members()) {
      if (&member != object->members().data()) out += ',';
      append_json_string(out, member.first);
      out += ':';
      append(out, member.second);
    }
    out += '}';
  } else {
    out += "null";
  }
}

}  // namespace

// Here, since inlined everywhere they are long code.
Json::Json() = default;
Json::~Json() = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(Json&& other) noexcept = default;

const Json* Json::Object::find(std::string_view key) const {
  if (sorted_.empty()) {
    const auto found = std::find_if(members_.begin(), members_.end(),
                                    [key](const Member& member) { return member.first == key; });
    return found == members_.end() ? nullptr : &found->second;
  }
  const auto found = std::lower_bound(
      sorted_.begin(), sorted_.end(), key,
      [this](std::uint32_t place, std::string_view wanted) { return members_[place].first < wanted; });
  if (found == sorted_.end() || members_[*found].first != key) return nullptr;
  return &members_[*found].second;
}

void Json::Object::index() {
  std::vector<std::uint32_t> places(members_.size());
  std::iota(places.begin(), places.end(), 0U);
  std::stable_sort(places.begin(), places.end(), [this](std::uint32_t left, std::uint32_t right) {
    return members_[left].first < members_[right].first;
  });
  bool repeats = false;
  for (std::size_t i = places.size(); i-- > 1;) {
    auto& first = members_[places[i - 1]];
    auto& later = members_[places[i]];
    if (first.first != later.first) continue;
    first.second = std::move(later.second);
    later.first.clear();
    places[i] = UINT32_MAX;
    repeats = true;
  }
  if (repeats) {
    // What is to stay keeps its order.
    std::erase(places, UINT32_MAX);
    std::sort(places.begin(), places.end());
    std::vector<Member> kept;
    kept.reserve(places.size());
    for (const auto place : places) kept.push_back(std::move(members_[place]));
    members_ = std::move(kept);
    return index();
  }
  if (members_.size() > kFewMembers) sorted_ = std::move(places);
}

std::string_view Json::type_name() const {
  if (is_null()) return "null";
  if (boolean() != nullptr) return "a boolean";
  if (string() != nullptr) return "a string";
  if (array() != nullptr) return "an array";
  if (object() != nullptr) return "an object";
  return "a number";
}

Json parse_json(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    fail("the request body is empty; expected a JSON object");
  }
  Builder builder(text.size());
  read_json(text, builder);
  return builder.take();
}

std::string dump_json(const Json& value) {
  std::string out;
  append(out, value);
  return out;
}

}  // namespace inferno::api
