#include <cstddef>
#include <cstdint>
#include <fmt/core.h>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <inferno/error.hpp>

#include "platform/log.hpp"
#include "tokenizer/vocabulary.hpp"

namespace inferno {
namespace {

constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr std::string_view kBosKey = "tokenizer.ggml.bos_token_id";
constexpr std::string_view kEosKey = "tokenizer.ggml.eos_token_id";
constexpr std::string_view kEotKey = "tokenizer.ggml.eot_token_id";
constexpr std::string_view kPadKey = "tokenizer.ggml.padding_token_id";
constexpr std::string_view kAddBosKey = "tokenizer.ggml.add_bos_token";
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

constexpr std::string_view kModel = "gpt2";  // GGUF's name of byte-level BPE
constexpr std::string_view kPre = "qwen2";
constexpr auto kFirstType = static_cast<std::int32_t>(TokenType::normal);
constexpr auto kLastType = static_cast<std::int32_t>(TokenType::byte);

std::string describe(const gguf::Value& value) {
  if (const auto* array = value.as_array()) {
    return fmt::format("an array of {} {}", array->size(), gguf::value_type_name(array->element_type));
  }
  return fmt::format("a {}", gguf::value_type_name(value.type()));
}

[[noreturn]] void missing(std::string_view key, std::string_view expected) {
  throw Error(fmt::format("{}: expected {}, found no such key; convert the model again with its tokenizer",
                          key, expected));
}

[[noreturn]] void wrong_type(std::string_view key, std::string_view expected, const gguf::Value& value) {
  throw Error(fmt::format("{}: expected {}, found {}", key, expected, describe(value)));
}

/// A name out of a file, short enough for one line.
std::string quote(std::string_view name) {
  constexpr std::size_t kShown = 40;
  std::string shown;
  for (const char c : name.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  return fmt::format("\"{}{}\"", shown, name.size() > kShown ? "..." : "");
}

void require_name(const gguf::File& file, std::string_view key, std::string_view accepted) {
  const std::string expected = fmt::format("\"{}\"", accepted);
  const auto* value = file.find(key);
  if (value == nullptr) missing(key, expected);
  const auto* name = value->as_string();
  if (name == nullptr) wrong_type(key, expected, *value);
  if (*name != accepted) {
    throw Error(
        fmt::format("{}: expected {}, found {}, which this program does not know how to split text for", key,
                    expected, quote(*name)));
  }
}

const std::vector<std::string>& strings(const gguf::File& file, std::string_view key) {
  constexpr std::string_view kExpected = "an array of strings";
  const auto* value = file.find(key);
  if (value == nullptr) missing(key, kExpected);
  const auto* array = value->as_array();
  const auto* list = array == nullptr ? nullptr : std::get_if<std::vector<std::string>>(&array->elements);
  if (list == nullptr) wrong_type(key, kExpected, *value);
  return *list;
}

std::vector<TokenType> token_types(const gguf::File& file, std::size_t count) {
  const auto* value = file.find(kTypesKey);
  if (value == nullptr) {
    log().warn("{} is missing: no token counts as a control token, all are text", kTypesKey);
    std::vector<TokenType> all_text(count, TokenType::normal);
    return all_text;
  }
  const std::string expected = fmt::format("an array of {} integers", count);
  const auto* array = value->as_array();
  if (array == nullptr || array->size() != count) wrong_type(kTypesKey, expected, *value);
  std::vector<TokenType> types;
  types.reserve(count);
  std::visit(
      [&](const auto& list) {
        using Element = typename std::decay_t<decltype(list)>::value_type;
        if constexpr (std::is_integral_v<Element>) {
          for (const Element element : list) {
            if (std::cmp_less(element, kFirstType) || std::cmp_greater(element, kLastType)) {
              throw Error(fmt::format("{}: expected 1 to 6 for token {}, found {}", kTypesKey, types.size(),
                                      element));
            }
            types.push_back(static_cast<TokenType>(element));
          }
        } else {
          wrong_type(kTypesKey, expected, *value);
        }
      },
      array->elements);
  return types;
}

std::vector<std::pair<std::string, std::string>> merges(const gguf::File& file) {
  const auto& lines = strings(file, kMergesKey);
  std::vector<std::pair<std::string, std::string>> pairs;
  pairs.reserve(lines.size());
  std::size_t ignored = 0;
  std::size_t first_ignored = 0;
  for (std::size_t rank = 0; rank < lines.size(); ++rank) {
    const std::string& line = lines[rank];
    const auto space = line.find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == line.size()) {
      if (ignored++ == 0) first_ignored = rank;
      continue;
    }
    pairs.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  if (ignored > 0) {
    log().warn(
        "{}: ignoring {} of {} entries that are not two parts with a space between, such as entry {}: {}",
        kMergesKey, ignored, lines.size(), first_ignored, quote(lines[first_ignored]));
  }
  return pairs;
}

std::int32_t token_id(std::string_view key, const gguf::Value& value, std::size_t count) {
  const auto id = value.as_unsigned();
  if (id && *id < count) return static_cast<std::int32_t>(*id);
  const auto negative = value.as_signed();
  if (!id && !negative) wrong_type(key, fmt::format("a token id below {}", count), value);
  throw Error(fmt::format("{}: expected a token id below {}, the length of {}, found {}", key, count,
                          kTokensKey, id ? fmt::to_string(*id) : fmt::to_string(*negative)));
}

std::optional<std::int32_t> token_id(const gguf::File& file, std::string_view key, std::size_t count) {
  const auto* value = file.find(key);
  if (value == nullptr) return std::nullopt;
  return token_id(key, *value, count);
}

/// All of `tokenizer.ggml.*_token_id`, also those that nobody reads: a file that is wrong about one is wrong.
void check_token_ids(const gguf::File& file, std::size_t count) {
  constexpr std::string_view kPrefix = "tokenizer.ggml.";
  constexpr std::string_view kSuffix = "_token_id";
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with(kPrefix) && key.ends_with(kSuffix)) token_id(key, value, count);
  }
}

}  // namespace

Vocabulary vocabulary_from_gguf(const gguf::File& file) {
  require_name(file, kModelKey, kModel);
  require_name(file, kPreKey, kPre);
  Vocabulary vocabulary;
  vocabulary.tokens = strings(file, kTokensKey);
  const std::size_t count = vocabulary.tokens.size();
  if (count == 0 || count > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw Error(fmt::format("{}: expected 1 to 2^31 - 1 strings, found {}", kTokensKey, count));
  }
  vocabulary.types = token_types(file, count);
  vocabulary.merges = merges(file);
  check_token_ids(file, count);
  vocabulary.bos = token_id(file, kBosKey, count);
  vocabulary.eos = token_id(file, kEosKey, count);
  vocabulary.eot = token_id(file, kEotKey, count);
  vocabulary.pad = token_id(file, kPadKey, count);
  if (!vocabulary.eos) missing(kEosKey, "the id of the token that ends a text");
  if (const auto* value = file.find(kAddBosKey)) {
    const auto add = value->as_bool();
    if (!add) wrong_type(kAddBosKey, "a bool", *value);
    vocabulary.add_bos = *add;
  }
  if (const auto* value = file.find(kTemplateKey)) {
    const auto* text = value->as_string();
    if (text == nullptr) wrong_type(kTemplateKey, "a string", *value);
    vocabulary.chat_template = *text;
  }
  return vocabulary;
}

void add_to_gguf(const Vocabulary& vocabulary, gguf::Writer& writer) {
  const auto add = [&writer](std::string_view key, gguf::Value value) {
    writer.add(std::string(key), std::move(value));
  };
  const auto add_id = [&add](std::string_view key, const std::optional<std::int32_t>& id) {
    if (id) add(key, static_cast<std::uint32_t>(*id));
  };
  std::vector<std::int32_t> types;
  types.reserve(vocabulary.types.size());
  for (const auto type : vocabulary.types) types.push_back(static_cast<std::int32_t>(type));
  std::vector<std::string> merge_lines;
  merge_lines.reserve(vocabulary.merges.size());
  for (const auto& [left, right] : vocabulary.merges)
    merge_lines.push_back(fmt::format("{} {}", left, right));

  add(kModelKey, std::string(kModel));
  add(kPreKey, std::string(kPre));
  add(kTokensKey, gguf::Array{gguf::ValueType::string, vocabulary.tokens});
  add(kTypesKey, gguf::Array{gguf::ValueType::i32, std::move(types)});
  add(kMergesKey, gguf::Array{gguf::ValueType::string, std::move(merge_lines)});
  add_id(kEosKey, vocabulary.eos);
  add_id(kPadKey, vocabulary.pad);
  add_id(kBosKey, vocabulary.bos);
  add_id(kEotKey, vocabulary.eot);
  add(kAddBosKey, vocabulary.add_bos);
  if (!vocabulary.chat_template.empty()) add(kTemplateKey, vocabulary.chat_template);
}

}  // namespace inferno
