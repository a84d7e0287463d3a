#include "grammar/vocabulary.hpp"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <utility>

namespace inferno::grammar {
namespace {

/// Some hundred masks.
constexpr std::size_t kFreeTextBytes = std::size_t{16} << 20U;

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> next{0};
  return ++next;
}

bool is_text(TokenType type) {
  return type == TokenType::normal || type == TokenType::byte;
}

}  // namespace

Vocabulary::Vocabulary(const Tokenizer& tokenizer, std::uint32_t rows)
    : id_(next_id()), rows_(rows), free_texts_(kFreeTextBytes) {
  const auto& types = tokenizer.vocabulary().types;
  begins_.reserve(std::size_t{rows} + 1);
  begins_.push_back(0);
  for (std::uint32_t id = 0; id < rows; ++id) {
    const auto token = static_cast<TokenId>(id);
    if (id < types.size()) {
      const auto bytes = tokenizer.bytes(token);
      if (is_text(types[id])) {
        blob_ += bytes;
        longest_ = std::max(longest_, static_cast<std::uint32_t>(bytes.size()));
      } else if (!bytes.empty()) {
        added_.emplace(bytes, token);
        added_names_.emplace(token, bytes);
      }
    }
    begins_.push_back(static_cast<std::uint32_t>(blob_.size()));
  }
  std::vector<TokenTrie::Entry> entries;
  entries.reserve(rows);
  for (std::uint32_t id = 0; id < rows; ++id) {
    const auto text = bytes(static_cast<TokenId>(id));
    if (!text.empty()) entries.emplace_back(text, id);
  }
  trie_ = TokenTrie(std::move(entries));
  for (const auto id : tokenizer.end_tokens()) {
    if (id >= 0 && static_cast<std::uint32_t>(id) < rows) end_tokens_.push_back(id);
  }
  if (end_tokens_.empty())
    throw UsageError("constrained output needs an end token; the vocabulary has none among the model's rows");
  std::vector<std::uint32_t> all(words());
  for (std::uint32_t id = 0; id < rows; ++id) {
    const auto token = static_cast<TokenId>(id);
    if (!is_end(token) && (!bytes(token).empty() || added_names_.contains(token))) set_bit(all, id);
  }
  all_but_ends_ = TokenSet(all);
  // What every request with a string comes by.
  UnsharedTurn turn;
  WorkMeter meter(turn);
  for (const auto form : {TextForm::json, TextForm::json_canonical}) {
    const TextMachine machine{.form = form};
    const auto opened = text_step(machine, text_start(machine), '"').next;
    free_text(machine, text_seen_from(machine, opened, longest_ + 1), meter);
  }
}

std::string_view Vocabulary::bytes(TokenId id) const {
  if (id < 0 || static_cast<std::uint32_t>(id) >= rows_) return {};
  const auto index = static_cast<std::size_t>(id);
  return std::string_view(blob_).substr(begins_[index], begins_[index + 1] - begins_[index]);
}

bool Vocabulary::is_end(TokenId id) const {
  return std::find(end_tokens_.begin(), end_tokens_.end(), id) != end_tokens_.end();
}

std::optional<TokenId> Vocabulary::added(std::string_view name) const {
  const auto known = added_.find(name);
  return known == added_.end() ? std::nullopt : std::optional<TokenId>(known->second);
}

const std::string* Vocabulary::added_name(TokenId id) const {
  const auto known = added_names_.find(id);
  return known == added_names_.end() ? nullptr : &known->second;
}

std::shared_ptr<const TextSummary> Vocabulary::free_text(const TextMachine& machine, const TextState& at,
                                                         WorkMeter& meter) const {
  const auto seen = text_seen_from(machine, at, longest_ + 1);
  const auto key = fmt::format("{} {} {}", static_cast<int>(machine.form), seen.a, seen.b);
  if (auto known = free_texts_.find(key)) return known;
  auto made = summarize(machine, at, meter);
  free_texts_.add(key, made, made->bytes());
  return made;
}

std::shared_ptr<const TextSummary> Vocabulary::summarize(const TextMachine& machine, const TextState& at,
                                                         WorkMeter& meter) const {
  std::vector<std::uint32_t> inside(words());
  std::string suffixes;
  struct Suffix {
    std::size_t begin;
    std::size_t size;
    std::uint32_t id;
  };
  std::vector<Suffix> after;
  std::vector<TextState> states{at};  // by depth
  std::vector<std::uint32_t> ends;    // of the nodes on the way
  const auto close = [&](std::uint32_t node) {
    for (const auto id : trie_.tokens(node)) set_bit(inside, id);
    const auto depth = ends.size() + 1;
    meter.spend(trie_.end(node) - node);
    for (auto below = node + 1; below < trie_.end(node); ++below) {
      for (const auto id : trie_.tokens(below)) {
        const auto text = bytes(static_cast<TokenId>(id)).substr(depth);
        after.push_back({suffixes.size(), text.size(), id});
        suffixes += text;
      }
    }
  };
  for (std::uint32_t node = 0; node < trie_.size();) {
    while (!ends.empty() && node >= ends.back()) {
      ends.pop_back();
      states.pop_back();
    }
    meter.spend(1);
    const auto step = text_step(machine, states.back(), trie_.byte(node));
    if (step.kind == TextMachineStep::Kind::inside) {
      for (const auto id : trie_.tokens(node)) set_bit(inside, id);
      if (trie_.end(node) > node + 1) {
        ends.push_back(trie_.end(node));
        states.push_back(step.next);
        ++node;
        continue;
      }
    } else if (step.kind == TextMachineStep::Kind::closed) {
      close(node);
    }
    node = trie_.end(node);
  }
  std::vector<TokenTrie::Entry> entries;
  entries.reserve(after.size());
  for (const auto& suffix : after)
    entries.emplace_back(std::string_view(suffixes).substr(suffix.begin, suffix.size), suffix.id);
  auto summary = std::make_shared<TextSummary>();
  summary->inside = TokenSet(inside);
  summary->after = TokenTrie(std::move(entries));
  return summary;
}

std::shared_ptr<const Vocabulary> make_vocabulary(const Tokenizer& tokenizer, std::uint32_t vocabulary_rows) {
  return std::make_shared<const Vocabulary>(tokenizer, vocabulary_rows);
}

}  // namespace inferno::grammar
