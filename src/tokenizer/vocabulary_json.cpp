#include <algorithm>
#include <cstdint>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inferno/error.hpp>

#include "platform/log.hpp"
#include "tokenizer/vocabulary.hpp"

namespace inferno {
namespace {

using Json = nlohmann::json;

/// The pattern that src/tokenizer/pretokenizer.cpp implements.
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// A value for a message: its text cut to a readable length.
std::string shown(const Json* value) {
  if (value == nullptr) return "nothing";
  constexpr std::size_t kShown = 60;
  std::string text = value->is_structured() && value->size() > 16
                         ? fmt::format("{} of {} entries", value->type_name(), value->size())
                         : value->dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

[[noreturn]] void unexpected(std::string_view document, std::string_view field, std::string_view expected,
                             const Json* found) {
  throw Error(fmt::format("{}: {}: expected {}, found {}", document, field, expected, shown(found)));
}

constexpr std::string_view kTokenizer = "tokenizer.json";
constexpr std::string_view kConfig = "tokenizer_config.json";

Json parse(std::string_view document, const std::string& text) {
  // The parser would take it for the end.
  if (const auto nul = text.find('\0'); nul != std::string::npos)
    throw Error(fmt::format("{}: not JSON: found a NUL at byte {}", document, nul + 1));
  try {
    Json json = Json::parse(text);
    if (!json.is_object())
      throw Error(fmt::format("{}: expected a JSON object, found {}", document, json.type_name()));
    return json;
  } catch (const Json::parse_error& error) {
    throw Error(fmt::format("{}: not JSON: syntax error at byte {}", document, error.byte));
  }
}

/// The member with this path ("model", "merges"), or nullptr; null counts as absent.
const Json* member(const Json& json, std::initializer_list<std::string_view> path) {
  const Json* at = &json;
  for (const auto name : path) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(std::string(name));
    if (found == at->end() || found->is_null()) return nullptr;
    at = &*found;
  }
  return at;
}

bool is_string(const Json* json, std::string_view text) {
  return json != nullptr && json->is_string() && json->get_ref<const std::string&>() == text;
}

/// Whether a flag is absent, false, or an empty string: an option that is off.
bool is_off(const Json* json) {
  if (json == nullptr) return true;
  if (json->is_boolean()) return !json->get<bool>();
  return is_string(json, "");
}

void check_pipeline(const Json& json) {
  if (!is_string(member(json, {"normalizer", "type"}), "NFC")) {
    unexpected(kTokenizer, "normalizer.type", "\"NFC\"", member(json, {"normalizer"}));
  }
  const Json* split = member(json, {"pre_tokenizer"});
  const Json* steps = member(json, {"pre_tokenizer", "pretokenizers"});
  if (steps != nullptr && steps->is_array() && !steps->empty()) split = &steps->front();
  const Json* pattern = split == nullptr ? nullptr : member(*split, {"pattern", "Regex"});
  if (!is_string(pattern, kQwen2Pattern)) {
    unexpected(kTokenizer, "pre_tokenizer", "Qwen2's split pattern", pattern == nullptr ? split : pattern);
  }
  const Json* post = member(json, {"post_processor"});
  if (post != nullptr && !is_string(member(*post, {"type"}), "ByteLevel")) {
    log().warn("{}: post_processor: what it would put around texts is left out: {}", kTokenizer, shown(post));
  }
  const Json* type = member(json, {"model", "type"});
  if (!is_string(type, "BPE")) unexpected(kTokenizer, "model.type", "\"BPE\"", type);
  for (const auto* option : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                             "byte_fallback", "ignore_merges"}) {
    const Json* value = member(json, {"model", option});
    if (!is_off(value)) unexpected(kTokenizer, fmt::format("model.{}", option), "it to be off", value);
  }
}

/// One id's token while ids arrive in any order.
class TokenTable {
 public:
  explicit TokenTable(std::size_t limit) : limit_(limit) {}

  void set(std::string_view field, const Json& id, const std::string& token, TokenType type) {
    if (!id.is_number_integer() || id < 0 || id >= limit_) {
      unexpected(kTokenizer, field, fmt::format("an id below {}, the number of tokens", limit_), &id);
    }
    const auto at = id.get<std::size_t>();
    if (at >= tokens_.size()) {
      tokens_.resize(at + 1);
      types_.resize(at + 1);
      known_.resize(at + 1);
    }
    // A token may be listed both in the vocabulary and as added: the second says what it is.
    if (known_[at] && tokens_[at] != token) {
      throw Error(fmt::format(R"({}: {}: id {} belongs to "{}" and to "{}")", kTokenizer, field, at,
                              tokens_[at], token));
    }
    tokens_[at] = token;
    types_[at] = type;
    known_[at] = true;
  }

  void move_to(Vocabulary& vocabulary) {
    const auto hole = std::find(known_.begin(), known_.end(), false);
    if (hole != known_.end()) {
      throw Error(
          fmt::format("{}: model.vocab: expected every id below {} to have a token, found none for {}",
                      kTokenizer, known_.size(), hole - known_.begin()));
    }
    vocabulary.tokens = std::move(tokens_);
    vocabulary.types = std::move(types_);
  }

 private:
  std::size_t limit_;
  std::vector<std::string> tokens_;
  std::vector<TokenType> types_;
  std::vector<bool> known_;
};

void read_added_token(const Json& added, std::size_t at, TokenTable& table) {
  const std::string field = fmt::format("added_tokens[{}]", at);
  const Json* id = member(added, {"id"});
  const Json* content = member(added, {"content"});
  if (id == nullptr || content == nullptr || !content->is_string()) {
    unexpected(kTokenizer, field, "an id and a content", &added);
  }
  for (const auto* option : {"single_word", "lstrip", "rstrip"}) {
    if (!is_off(member(added, {option}))) {
      unexpected(kTokenizer, fmt::format("{}.{}", field, option), "false", member(added, {option}));
    }
  }
  const auto& text = content->get_ref<const std::string&>();
  if (!is_off(member(added, {"normalized"}))) {
    log().warn("{}: {}: \"{}\" is to be found after normalization; it will be looked for before it",
               kTokenizer, field, text);
  }
  const bool special = !is_off(member(added, {"special"}));
  table.set(field, *id, text, special ? TokenType::control : TokenType::user_defined);
}

void read_tokens(const Json& json, Vocabulary& vocabulary) {
  const Json* vocab = member(json, {"model", "vocab"});
  if (vocab == nullptr || !vocab->is_object() || vocab->empty()) {
    unexpected(kTokenizer, "model.vocab", "an object of tokens and ids", vocab);
  }
  const Json* added = member(json, {"added_tokens"});
  if (added != nullptr && !added->is_array()) unexpected(kTokenizer, "added_tokens", "an array", added);
  TokenTable table(vocab->size() + (added == nullptr ? 0 : added->size()));
  for (const auto& [token, id] : vocab->items()) table.set("model.vocab", id, token, TokenType::normal);
  for (std::size_t at = 0; added != nullptr && at < added->size(); ++at)
    read_added_token((*added)[at], at, table);
  table.move_to(vocabulary);
}

void read_merges(const Json& json, Vocabulary& vocabulary) {
  const Json* merges = member(json, {"model", "merges"});
  if (merges == nullptr || !merges->is_array())
    unexpected(kTokenizer, "model.merges", "an array of pairs", merges);
  vocabulary.merges.reserve(merges->size());
  for (std::size_t rank = 0; rank < merges->size(); ++rank) {
    const Json& merge = (*merges)[rank];
    std::string left;
    std::string right;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else if (merge.is_string()) {  // the older form: both parts in one string
      const auto& line = merge.get_ref<const std::string&>();
      const auto space = std::min(line.find(' '), line.size());
      left = line.substr(0, space);
      right = line.substr(std::min(space + 1, line.size()));
    }
    if (left.empty() || right.empty()) {
      unexpected(kTokenizer, fmt::format("model.merges[{}]", rank), "two parts", &merge);
    }
    vocabulary.merges.emplace_back(std::move(left), std::move(right));
  }
}

std::optional<std::int32_t> find_token(const Vocabulary& vocabulary, std::string_view token) {
  const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), token);
  if (found == vocabulary.tokens.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - vocabulary.tokens.begin());
}

/// A token that the configuration names, as a string or as {"content": ...}.
std::optional<std::int32_t> named_token(const Json& config, std::string_view field,
                                        const Vocabulary& vocabulary) {
  const Json* token = member(config, {field});
  if (token == nullptr) return std::nullopt;
  const Json* content = token->is_object() ? member(*token, {"content"}) : token;
  if (content == nullptr || !content->is_string()) unexpected(kConfig, field, "a token", token);
  const auto id = find_token(vocabulary, content->get_ref<const std::string&>());
  if (!id) unexpected(kConfig, field, "a token of the vocabulary", content);
  return id;
}

void read_template(const Json& config, Vocabulary& vocabulary) {
  const Json* text = member(config, {"chat_template"});
  if (text == nullptr) return;
  if (text->is_array()) {  // several under names: the one called default
    for (const Json& named : *text) {
      if (is_string(member(named, {"name"}), "default")) text = member(named, {"template"});
    }
  }
  if (text == nullptr || !text->is_string()) unexpected(kConfig, "chat_template", "a template", text);
  vocabulary.chat_template = text->get<std::string>();
}

void read_config(const std::string& text, Vocabulary& vocabulary) {
  const Json config = parse(kConfig, text);
  vocabulary.bos = named_token(config, "bos_token", vocabulary);
  vocabulary.eos = named_token(config, "eos_token", vocabulary);
  vocabulary.pad = named_token(config, "pad_token", vocabulary);
  vocabulary.add_bos = !is_off(member(config, {"add_bos_token"}));
  read_template(config, vocabulary);
}

/// Qwen's own choice, for a tokenizer.json that comes without its configuration.
std::optional<std::int32_t> well_known_end(const Vocabulary& vocabulary) {
  for (const auto* name : {"<|im_end|>", "<|endoftext|>"}) {
    const auto id = find_token(vocabulary, name);
    if (id && vocabulary.types[static_cast<std::size_t>(*id)] == TokenType::control) return id;
  }
  return std::nullopt;
}

}  // namespace

Vocabulary vocabulary_from_json(const std::string& tokenizer_json, const std::string& config) {
  const Json json = parse(kTokenizer, tokenizer_json);
  check_pipeline(json);
  Vocabulary vocabulary;
  read_tokens(json, vocabulary);
  read_merges(json, vocabulary);
  if (!config.empty()) read_config(config, vocabulary);
  if (!vocabulary.eos) vocabulary.eos = well_known_end(vocabulary);
  if (!vocabulary.eos) {
    throw Error(
        fmt::format("{}: eos_token: expected the token that ends a text, found none, nor a special token "
                    "<|im_end|> or <|endoftext|> in {}",
                    kConfig, kTokenizer));
  }
  return vocabulary;
}

}  // namespace inferno
