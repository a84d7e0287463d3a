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

#include "gguf/refusal.hpp"
#include "platform/log.hpp"
#include "platform/quote.hpp"
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

constexpr std::string_view kConvertAgain = "no such key; convert the model again with its tokenizer";

[[noreturn]] void refuse_missing(const gguf::File& file, std::string_view key, std::string_view expected) {
  gguf::refuse_value(file, key, expected, kConvertAgain);
}

void require_name(const gguf::File& file, std::string_view key, std::string_view accepted) {
  const std::string expected = quote(accepted);
  const auto* value = file.find(key);
  if (value == nullptr) refuse_missing(file, key, expected);
  const auto* name = value->as_string();
  if (name == nullptr) gguf::refuse_value(file, key, expected);
  if (*name != accepted) {
    gguf::refuse_value(
        file, key, expected,
        fmt::format("{}, which this program does not know how to split text for", quote(*name)));
  }
}

const std::vector<std::string>& strings(const gguf::File& file, std::string_view key) {
  constexpr std::string_view kExpected = "an array of strings";
  const auto* value = file.find(key);
  if (value == nullptr) refuse_missing(file, key, kExpected);
  const auto* array = value->as_array();
  const auto* list = array == nullptr ? nullptr : std::get_if<std::vector<std::string>>(&array->elements);
  if (list == nullptr) gguf::refuse_value(file, key, kExpected);
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
  if (array == nullptr || array->size() != count) gguf::refuse_value(file, kTypesKey, expected);
  std::vector<TokenType> types;
  types.reserve(count);
  std::visit(
      [&](const auto& list) {
        using Element = typename std::decay_t<decltype(list)>::value_type;
        if constexpr (std::is_integral_v<Element>) {
          for (const Element element : list) {
            if (std::cmp_less(element, kFirstType) || std::cmp_greater(element, kLastType)) {
              gguf::refuse_value(
                  file, kTypesKey,
                  fmt::format("{} to {} for token {} of the array", kFirstType, kLastType, types.size()),
                  fmt::format("{}", element));
            }
            types.push_back(static_cast<TokenType>(element));
          }
        } else {
          gguf::refuse_value(file, kTypesKey, expected);
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

std::optional<std::int32_t> token_id(const gguf::File& file, std::string_view key, std::size_t count) {
  const auto* value = file.find(key);
  if (value == nullptr) return std::nullopt;
  const auto id = value->as_unsigned();
  if (!id || *id >= count) {
    gguf::refuse_value(file, key, fmt::format("a token id below {}, the length of {},", count, kTokensKey));
  }
  return static_cast<std::int32_t>(*id);
}

/// All of `tokenizer.ggml.*_token_id`, also those that nobody reads: a file that is wrong about one is wrong.
void check_token_ids(const gguf::File& file, std::size_t count) {
  constexpr std::string_view kPrefix = "tokenizer.ggml.";
  constexpr std::string_view kSuffix = "_token_id";
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with(kPrefix) && key.ends_with(kSuffix)) token_id(file, key, count);
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
    gguf::refuse_value(file, kTokensKey, "1 to 2^31 - 1 strings", fmt::format("{}", count));
  }
  vocabulary.types = token_types(file, count);
  vocabulary.merges = merges(file);
  check_token_ids(file, count);
  vocabulary.bos = token_id(file, kBosKey, count);
  vocabulary.eos = token_id(file, kEosKey, count);
  vocabulary.eot = token_id(file, kEotKey, count);
  vocabulary.pad = token_id(file, kPadKey, count);
  if (!vocabulary.eos) refuse_missing(file, kEosKey, "the id of the token that ends a text");
  if (const auto* value = file.find(kAddBosKey)) {
    const auto add = value->as_bool();
    if (!add) gguf::refuse_value(file, kAddBosKey, "true or false");
    vocabulary.add_bos = *add;
    if (*add && !vocabulary.bos)
      gguf::refuse_value(file, kAddBosKey, fmt::format("false without {}", kBosKey));
  }
  if (const auto* value = file.find(kTemplateKey)) {
    const auto* text = value->as_string();
    if (text == nullptr) gguf::refuse_value(file, kTemplateKey, "a string");
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
