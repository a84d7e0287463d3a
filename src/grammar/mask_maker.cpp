#include "grammar/mask_maker.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "grammar/compiled_grammar.hpp"

namespace inferno::grammar {
namespace {

constexpr std::size_t kMaskBytes = std::size_t{2} << 20U;
constexpr std::size_t kTextBytes = std::size_t{2} << 20U;
/// A server has one model.
constexpr std::size_t kMostVocabularies = 1;

template <typename Number>
void append(std::string& key, Number value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Writes frames as far as a token can tell them apart.
class KeyWriter {
 public:
  KeyWriter(const Program& program, std::uint32_t horizon, WorkMeter& meter)
      : program_(program), horizon_(horizon), meter_(meter) {}

  void write(const Frame& frame) {
    if (const auto known = seen_.find(&frame); known != seen_.end()) {
      append(key_, kSeen);
      append(key_, known->second);
      return;
    }
    meter_.spend(kStepsPerFrame);
    seen_.emplace(&frame, static_cast<std::uint32_t>(seen_.size()));
    const auto [a, b] = state_of(frame);
    append(key_, frame.machine);
    append(key_, frame.depth);
    append(key_, frame.phase);
    append(key_, frame.parent_count);
    append(key_, count_of(frame));
    append(key_, a);
    append(key_, b);
    for (const auto* parent : frame.above()) write(*parent);
  }

  std::string take() { return std::move(key_); }

 private:
  static constexpr MachineId kSeen = kRootMachine - 1;
  static constexpr std::size_t kStepsPerFrame = 8;

  /// As far as one token's properties, of which each takes some bytes, and all declared ones go.
  std::uint32_t count_of(const Frame& frame) const {
    if (frame.machine == kRootMachine) return 0;
    const auto& machine = program_.machines[frame.machine];
    if (machine.kind != MachineKind::object) return 0;
    const auto& object = program_.objects[machine.index];
    if (object.most == kUnlimited || frame.count < object.least) return frame.count;
    const auto told_apart = std::uint64_t{horizon_} + object.properties.size();
    const auto room = std::min<std::uint64_t>(object.most - frame.count, told_apart);
    return static_cast<std::uint32_t>(object.most - room);
  }

  std::pair<std::uint64_t, std::uint64_t> state_of(const Frame& frame) const {
    if (frame.machine == kRootMachine) return {frame.a, frame.b};
    const auto& machine = program_.machines[frame.machine];
    if (machine.kind == MachineKind::text) {
      const auto seen = text_seen_from(program_.texts[machine.index], {.a = frame.a, .b = frame.b}, horizon_);
      return {seen.a, seen.b};
    }
    if (machine.kind != MachineKind::array) return {frame.a, frame.b};
    const auto& array = program_.arrays[machine.index];
    if (frame.a < array.prefix.size() || !array.unique.empty()) return {frame.a, frame.b};
    const std::uint64_t needed =
        frame.a < array.least ? std::min<std::uint64_t>(array.least - frame.a, horizon_) : 0;
    const std::uint64_t room =
        array.most == kUnlimited ? horizon_ : std::min<std::uint64_t>(array.most - frame.a, horizon_);
    return {std::uint64_t{1} << 63U | needed << 32U | room, frame.b};
  }

  const Program& program_;
  std::uint32_t horizon_;
  WorkMeter& meter_;
  std::string key_;
  std::unordered_map<const Frame*, std::uint32_t> seen_;
};

}  // namespace

MaskMaker::MaskMaker(const Program& program, std::shared_ptr<const Vocabulary> vocabulary)
    : program_(program),
      vocabulary_(std::move(vocabulary)),
      horizon_(vocabulary_->longest() + 1),
      masks_(kMaskBytes),
      texts_(kTextBytes) {
  for (const auto& marker : program.markers)
    marker_is_token_.push_back(vocabulary_->added(marker.text).has_value());
}

/// The right to make a mask, which one thread has at a time.
class MaskMaker::Claim {
 public:
  Claim(MaskMaker& maker, const std::string& key) : maker_(maker), key_(key) {
    const std::scoped_lock lock(maker_.claims_mutex_);
    is_ours_ = maker_.claims_.insert(key_).second;
  }
  ~Claim() {
    if (!is_ours_) return;
    const std::scoped_lock lock(maker_.claims_mutex_);
    maker_.claims_.erase(key_);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  bool is_ours() const { return is_ours_; }

 private:
  MaskMaker& maker_;
  const std::string& key_;
  bool is_ours_ = false;
};

void MaskMaker::add_allowed(std::span<const Frame* const> position, FrameArena& scratch,
                            std::span<std::uint32_t> words, WorkMeter& meter) {
  find_or_make(position, scratch, meter)->add_to(words);
}

std::shared_ptr<const TokenSet> MaskMaker::find_or_make(std::span<const Frame* const> position,
                                                        FrameArena& scratch, WorkMeter& meter) {
  const auto key = key_of(position, meter);
  while (true) {
    if (auto mask = masks_.find(key)) return mask;
    const Claim claim(*this, key);
    if (claim.is_ours()) {
      if (auto mask = masks_.find(key)) return mask;  // made in between
      auto mask = make(position, scratch, meter);
      masks_.add(key, mask, mask->bytes());
      return mask;
    }
    meter.turn().give_way();
  }
}

std::shared_ptr<const TokenSet> MaskMaker::make(std::span<const Frame* const> position, FrameArena& scratch,
                                                WorkMeter& meter) {
  std::vector<std::uint32_t> words(vocabulary_->words());
  const ArenaReturn give_back(scratch);
  Automaton automaton(program_, marker_is_token_, scratch, meter);
  FrameList frames;
  for (const auto* frame : position) {
    if (frame->machine == kRootMachine) {
      frames.push_back(frame);
      continue;
    }
    const auto& machine = program_.machines[frame->machine];
    if (machine.kind == MachineKind::marker && marker_is_token_[machine.index]) {
      set_bit(words, static_cast<std::uint32_t>(*vocabulary_->added(program_.markers[machine.index].text)));
    } else if (machine.kind == MachineKind::text && text_is_open({.a = frame->a, .b = frame->b})) {
      const auto& text = program_.texts[machine.index];
      const auto summary = summary_of(*frame, text, meter);
      summary->inside.add_to(words);
      if (summary->after.size() == 0) continue;
      FrameList behind;
      automaton.leave(*frame, behind);
      walk(automaton, summary->after, behind, scratch, words);
    } else {
      frames.push_back(frame);
    }
  }
  walk(automaton, vocabulary_->trie(), frames, scratch, words);
  return std::make_shared<const TokenSet>(words);
}

std::shared_ptr<const TextSummary> MaskMaker::summary_of(const Frame& frame, const TextMachine& machine,
                                                         WorkMeter& meter) {
  const TextState at{.a = frame.a, .b = frame.b};
  if (text_is_free(machine)) return vocabulary_->free_text(machine, at, meter);
  if (text_is_past_exceptions(machine, at))
    return vocabulary_->free_text({.form = machine.form}, {.a = at.a, .b = 0}, meter);
  const auto seen = text_seen_from(machine, at, horizon_);
  std::string key;
  append(key, frame.machine);
  append(key, seen.a);
  append(key, seen.b);
  if (auto known = texts_.find(key)) return known;
  auto made = vocabulary_->summarize(machine, at, meter);
  texts_.add(key, made, made->bytes());
  return made;
}

/// `frames` holds the position where the trie begins; it grows by a position for every byte on the way.
void MaskMaker::walk(Automaton& automaton, const TokenTrie& trie, FrameList& frames, FrameArena& arena,
                     std::span<std::uint32_t> words) {
  struct Level {
    std::uint32_t end;
    std::size_t frames_begin;
    std::size_t frames_end;
    FrameArena::Mark mark;
  };
  if (frames.empty()) return;
  std::vector<Level> levels{{trie.size(), 0, frames.size(), arena.mark()}};
  for (std::uint32_t node = 0; node < trie.size();) {
    while (node >= levels.back().end) levels.pop_back();
    const auto& level = levels.back();
    frames.resize(level.frames_end);
    arena.release(level.mark);
    automaton.step(level.frames_begin, level.frames_end, trie.byte(node), frames);
    if (frames.size() > level.frames_end) {
      for (const auto id : trie.tokens(node)) set_bit(words, id);
      if (trie.end(node) > node + 1) {
        levels.push_back({trie.end(node), level.frames_end, frames.size(), arena.mark()});
        ++node;
        continue;
      }
    }
    node = trie.end(node);
  }
}

std::string MaskMaker::key_of(std::span<const Frame* const> position, WorkMeter& meter) const {
  KeyWriter writer(program_, horizon_, meter);
  for (const auto* frame : position) writer.write(*frame);
  return writer.take();
}

std::size_t Grammar::memory() const {
  return program_.memory() + kMostVocabularies * (kMaskBytes + kTextBytes);
}

std::shared_ptr<MaskMaker> Grammar::masks(const std::shared_ptr<const Vocabulary>& vocabulary) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& known : masks_) {
    if (known->vocabulary().id() == vocabulary->id()) return known;
  }
  if (masks_.size() >= kMostVocabularies) masks_.erase(masks_.begin());
  masks_.push_back(std::make_shared<MaskMaker>(program_, vocabulary));
  return masks_.back();
}

}  // namespace inferno::grammar
