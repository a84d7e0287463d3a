#include "grammar/pattern.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <utility>

#include "grammar/json_document.hpp"
#include "platform/quote.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno::grammar {
namespace {

using Kind = PatternState::Kind;

constexpr std::uint32_t kUnlimited = UINT32_MAX;

/// A piece of the expression. Children stand in Parser's pool, so that no destructor recurses.
struct Part {
  enum class Kind : std::uint8_t { set, at_start, at_end, sequence, choice, repeat };
  Kind kind = Kind::sequence;
  std::uint32_t set = 0;
  std::vector<std::uint32_t> children = {};
  std::uint32_t least = 0;
  std::uint32_t most = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : text_(code_points(pattern)) {}

  Pattern parse() {
    const auto root = parse_choice(0);
    if (!done()) fail(R"~(")" without "(")~");
    const auto match = add_state({.kind = Kind::match});
    result_.start = build(root, match);
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw PatternError(fmt::format("{} at character {} of the pattern", what, at_));
  }

  bool done() const { return at_ >= text_.size(); }
  char32_t peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  bool looking_at(std::u32string_view what) const { return text_.compare(at_, what.size(), what) == 0; }
  bool take(char32_t c) {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::uint32_t add(Part part) {
    if (parts_.size() >= kMaxPatternStates) fail(fmt::format("more than {} parts", kMaxPatternStates));
    parts_.push_back(std::move(part));
    return static_cast<std::uint32_t>(parts_.size() - 1);
  }

  std::uint32_t add_set(const CodePointSet& set) {
    std::u32string key;
    for (const auto& range : set.ranges()) {
      key += range.first;
      key += range.last;
    }
    const auto [known, is_new] = known_sets_.emplace(key, static_cast<std::uint32_t>(result_.sets.size()));
    if (is_new) result_.sets.push_back(set);
    return known->second;
  }

  std::uint32_t add_set_part(const CodePointSet& set) {
    if (set.empty()) fail("a class that no character is in");
    return add({.kind = Part::Kind::set, .set = add_set(set)});
  }

  std::uint32_t parse_choice(std::size_t depth) {
    if (depth > kMaxPatternDepth) fail(fmt::format("groups nested deeper than {} levels", kMaxPatternDepth));
    Part choice{.kind = Part::Kind::choice};
    do choice.children.push_back(parse_sequence(depth));
    while (take('|'));
    return choice.children.size() == 1 ? choice.children[0] : add(std::move(choice));
  }

  std::uint32_t parse_sequence(std::size_t depth) {
    Part sequence{.kind = Part::Kind::sequence};
    while (!done() && peek() != '|' && peek() != ')') {
      const auto item = parse_item(depth);
      sequence.children.push_back(parse_quantifier(item));
    }
    return add(std::move(sequence));
  }

  std::uint32_t parse_item(std::size_t depth) {
    const auto c = peek();
    switch (c) {
      case '^':
        ++at_;
        return add({.kind = Part::Kind::at_start});
      case '$':
        ++at_;
        return add({.kind = Part::Kind::at_end});
      case '(':
        return parse_group(depth);
      case '[':
        return parse_class();
      case '\\':
        return parse_escape();
      case '.':
        ++at_;
        return add_set_part(CodePointSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).complement());
      case '*':
      case '+':
      case '?':
        fail(fmt::format("\"{}\" with nothing before it to repeat", static_cast<char>(c)));
      case '{':
        fail(R"~("{" with nothing before it to repeat (a brace itself is "\{"))~");
      default:
        ++at_;
        return add_set_part(CodePointSet({{c, c}}));
    }
  }

  std::uint32_t parse_group(std::size_t depth) {
    ++at_;
    if (take('?')) {
      if (looking_at(U"=") || looking_at(U"!")) fail("look-ahead, which is not supported");
      if (looking_at(U"<=") || looking_at(U"<!")) fail("look-behind, which is not supported");
      if (take('<')) {
        const auto begin = at_;
        while (!done() && peek() != '>') ++at_;
        if (at_ == begin || !take('>')) fail("a group's name that does not end");
      } else if (!take(':')) {
        fail(R"~(a kind of group that is not supported (expected "(", "(?:" or "(?<name>"))~");
      }
    }
    const auto group = parse_choice(depth + 1);
    if (!take(')')) fail("a group that does not end");
    return group;
  }

  std::uint32_t parse_quantifier(std::uint32_t item) {
    std::uint32_t least = 0;
    std::uint32_t most = kUnlimited;
    if (take('*')) {
      // As initialized.
    } else if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (take('{')) {
      const auto first = parse_number();
      if (!first) fail(R"("{" without a number behind it (expected {2}, {2,} or {2,5}))");
      least = *first;
      most = least;
      if (take(',')) most = parse_number().value_or(kUnlimited);
      if (!take('}')) fail(R"(a "{" that does not end (expected {2}, {2,} or {2,5}))");
      if (most < least) fail(fmt::format("{{{},{}}}: the numbers are out of order", least, most));
    } else {
      return item;
    }
    take('?');  // fewest first: the same texts
    const auto kind = parts_[item].kind;
    if (kind == Part::Kind::at_start || kind == Part::Kind::at_end) fail("an anchor that is repeated");
    if (const auto c = peek(); !done() && (c == '*' || c == '+' || c == '?' || c == '{'))
      fail(fmt::format("\"{}\" behind a quantifier", static_cast<char>(c)));
    return add({.kind = Part::Kind::repeat, .children = {item}, .least = least, .most = most});
  }

  std::optional<std::uint32_t> parse_number() {
    if (peek() < '0' || peek() > '9') return std::nullopt;
    std::uint32_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + (text_[at_++] - '0');
      if (value > 1'000'000) fail("a repetition of more than 1000000 times");
    }
    return value;
  }

  /// \d and its like: the set, if the escape is one.
  static std::optional<CodePointSet> class_escape(char32_t c) {
    static const CodePointSet kDigits({{'0', '9'}});
    static const CodePointSet kWords({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
    static const CodePointSet kSpaces({{'\t', '\r'},
                                       {' ', ' '},
                                       {0xA0, 0xA0},
                                       {0x1680, 0x1680},
                                       {0x2000, 0x200A},
                                       {0x2028, 0x2029},
                                       {0x202F, 0x202F},
                                       {0x205F, 0x205F},
                                       {0x3000, 0x3000},
                                       {0xFEFF, 0xFEFF}});
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return kDigits.complement();
      case 'w':
        return kWords;
      case 'W':
        return kWords.complement();
      case 's':
        return kSpaces;
      case 'S':
        return kSpaces.complement();
      default:
        return std::nullopt;
    }
  }

  std::uint32_t parse_escape() {
    if (at_ + 1 >= text_.size()) fail("a backslash at the end");
    const auto c = peek(1);
    if (c == 'b' || c == 'B') fail("a word boundary, which is not supported");
    if (c >= '1' && c <= '9') fail("a backreference, which is not supported");
    if (c == 'k') fail("a backreference, which is not supported");
    // Other languages' anchors, which mean nothing else here.
    if (c == 'A' || c == 'z' || c == 'Z') {
      at_ += 2;
      return add({.kind = c == 'A' ? Part::Kind::at_start : Part::Kind::at_end});
    }
    if (const auto set = class_escape(c)) {
      at_ += 2;
      return add_set_part(*set);
    }
    const auto code_point = parse_character_escape(false);
    return add_set_part(CodePointSet({{code_point, code_point}}));
  }

  char32_t parse_hex(std::size_t digits) {
    char32_t value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const auto c = peek();
      if (c >= '0' && c <= '9') {
        value = value * 16 + (c - '0');
      } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
        value = value * 16 + ((c | 0x20U) - 'a' + 10);
      } else {
        fail(fmt::format("an escape without its {} hexadecimal digits", digits));
      }
      ++at_;
    }
    return value;
  }

  char32_t parse_unicode_escape() {
    if (take('{')) {
      char32_t value = 0;
      const auto begin = at_;
      while (!done() && peek() != '}') {
        value = value * 16 + parse_hex(1);
        if (value > kLastCodePoint) fail("a code point above 10FFFF");
      }
      if (at_ == begin || !take('}')) fail("an escape \\u{...} that does not end");
      return value;
    }
    const auto high = parse_hex(4);
    if (high < 0xD800 || high > 0xDBFF || !looking_at(U"\\u")) return high;
    const auto before = at_;
    at_ += 2;
    const auto low = parse_hex(4);
    if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((high - 0xD800) << 10U) + (low - 0xDC00);
    at_ = before;
    return high;
  }

  /// An escape that stands for one character.
  char32_t parse_character_escape(bool in_class) {
    ++at_;
    if (done()) fail("a backslash at the end");
    const auto c = text_[at_++];
    switch (c) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'v':
        return '\v';
      case 'f':
        return '\f';
      case 'r':
        return '\r';
      case '0':
        if (peek() >= '0' && peek() <= '9') fail("an octal escape, which is not supported");
        return 0;
      case 'b':
        if (in_class) return '\b';
        break;
      case 'c':
        if ((peek() | 0x20U) >= 'a' && (peek() | 0x20U) <= 'z') return text_[at_++] % 32;
        break;
      case 'x':
        return parse_hex(2);
      case 'u':
        return parse_unicode_escape();
      case 'p':
      case 'P':
        fail("a Unicode property, which is not supported");
      default:
        break;
    }
    // With the flag u only punctuation may be escaped; anything else would be a promise to mean nothing.
    if (c < 0x80 && ((c >= '0' && c <= '9') || ((c | 0x20U) >= 'a' && (c | 0x20U) <= 'z'))) {
      fail(fmt::format(R"(the escape "\{}", which is not supported)", static_cast<char>(c)));
    }
    return c;
  }

  std::uint32_t parse_class() {
    ++at_;
    const bool negated = take('^');
    std::vector<CodePointRange> ranges;
    while (true) {
      if (done()) fail("a class that does not end");
      if (take(']')) break;
      const auto first = parse_class_member(ranges);
      if (peek() != '-' || peek(1) == ']' || at_ + 1 >= text_.size()) {
        if (first) ranges.push_back({*first, *first});
        continue;
      }
      ++at_;
      const auto last = parse_class_member(ranges);
      if (!first || !last) fail("a range whose end is a class of its own");
      if (*last < *first) fail("a range whose ends are out of order");
      ranges.push_back({*first, *last});
    }
    const CodePointSet set(ranges);
    return add_set_part(negated ? set.complement() : set);
  }

  /// One character; nullopt if it was a class escape, which has been added.
  std::optional<char32_t> parse_class_member(std::vector<CodePointRange>& ranges) {
    if (peek() != '\\') return text_[at_++];
    if (const auto set = class_escape(peek(1))) {
      at_ += 2;
      ranges.insert(ranges.end(), set->ranges().begin(), set->ranges().end());
      return std::nullopt;
    }
    return parse_character_escape(true);
  }

  std::uint32_t add_state(const PatternState& state) {
    if (result_.states.size() >= kMaxPatternStates) {
      throw PatternError(
          fmt::format("the pattern needs more than {} states; expected a simpler one", kMaxPatternStates));
    }
    result_.states.push_back(state);
    return static_cast<std::uint32_t>(result_.states.size() - 1);
  }

  /// States that take what `part` takes and go on to `next`; the first of them.
  std::uint32_t build(std::uint32_t index, std::uint32_t next) {
    const auto& part = parts_[index];
    switch (part.kind) {
      case Part::Kind::set:
        return add_state({.kind = Kind::set, .next = next, .set = part.set});
      case Part::Kind::at_start:
        return add_state({.kind = Kind::at_start, .next = next});
      case Part::Kind::at_end:
        return add_state({.kind = Kind::at_end, .next = next});
      case Part::Kind::sequence:
        for (auto i = part.children.size(); i-- > 0;) next = build(part.children[i], next);
        return next;
      case Part::Kind::choice: {
        auto first = build(part.children.back(), next);
        for (auto i = part.children.size() - 1; i-- > 0;) {
          const auto branch = build(part.children[i], next);
          first = add_state({.kind = Kind::split, .next = branch, .other = first});
        }
        return first;
      }
      case Part::Kind::repeat:
        return build_repeat(part, next);
    }
    return next;
  }

  std::uint32_t build_repeat(const Part& part, std::uint32_t next) {
    const auto child = part.children[0];
    if (part.most == kUnlimited) {
      const auto loop = add_state({.kind = Kind::split, .other = next});
      const auto body = build(child, loop);
      result_.states[loop].next = body;
      next = loop;
    } else {
      const auto end = next;
      for (auto i = part.least; i < part.most; ++i) {
        const auto body = build(child, next);
        next = add_state({.kind = Kind::split, .next = body, .other = end});
      }
    }
    for (std::uint32_t i = 0; i < part.least; ++i) {
      const auto before = result_.states.size();
      next = build(child, next);
      if (result_.states.size() == before) break;  // nothing, however often
    }
    return next;
  }

  std::u32string text_;
  std::size_t at_ = 0;
  std::vector<Part> parts_;
  std::map<std::u32string, std::uint32_t> known_sets_;
  Pattern result_;
};

}  // namespace

Pattern parse_pattern(std::string_view pattern) {
  return Parser(pattern).parse();
}

}  // namespace inferno::grammar
