#include "tokenizer/pretokenizer.hpp"

#include <cstdint>
#include <fmt/core.h>
#include <limits>
#include <string>

#include <inferno/error.hpp>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace inferno {
namespace {

// Qwen2's pattern as tokenizer.json has it:
//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|
//   ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// with the classes spelled out as the reference's engine (Oniguruma) understands them:
//  - its \s is Unicode's White_Space; PCRE2's would have U+180E too;
//  - its \p{L} and \p{N} are those of Unicode 16, PCRE2 10.42's those of Unicode 14, so what Unicode 15 to 16
//    added is listed. Characters that later versions add are "other characters" here and in the reference
//    alike. A newer PCRE2 knows them already; naming them twice does no harm.
constexpr std::string_view kSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kLetter =
    R"(\p{L}\x{1C89}\x{1C8A}\x{A7CB}-\x{A7CD}\x{A7DA}-\x{A7DC}\x{105C0}-\x{105F3}\x{10D4A}-\x{10D65})"
    R"(\x{10D6F}-\x{10D85}\x{10EC2}-\x{10EC4}\x{1123F}\x{11240}\x{11380}-\x{11389}\x{1138B}\x{1138E})"
    R"(\x{11390}-\x{113B5}\x{113B7}\x{113D1}\x{113D3}\x{11BC0}-\x{11BE0}\x{11F02}\x{11F04}-\x{11F10})"
    R"(\x{11F12}-\x{11F33}\x{1342F}\x{13441}-\x{13446}\x{13460}-\x{143FA}\x{16100}-\x{1611D})"
    R"(\x{16D40}-\x{16D6C}\x{18CFF}\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A}\x{1E030}-\x{1E06D})"
    R"(\x{1E4D0}-\x{1E4EB}\x{1E5D0}-\x{1E5ED}\x{1E5F0}\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})";
constexpr std::string_view kNumber =
    R"(\p{N}\x{10D40}-\x{10D49}\x{116D0}-\x{116E3}\x{11BF0}-\x{11BF9}\x{11F50}-\x{11F59}\x{16130}-\x{16139})"
    R"(\x{16D70}-\x{16D79}\x{1CCF0}-\x{1CCF9}\x{1D2C0}-\x{1D2D3}\x{1E4F0}-\x{1E4F9}\x{1E5F1}-\x{1E5FA})";

std::string qwen2_pattern() {
  return fmt::format(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n{L}{N}]?[{L}]+|[{N}]| ?[^{S}{L}{N}]+[\r\n]*)"
                     R"(|[{S}]*[\r\n]+|[{S}]+(?![^{S}])|[{S}]+)",
                     fmt::arg("L", kLetter), fmt::arg("N", kNumber), fmt::arg("S", kSpace));
}

std::string error_text(int code) {
  std::string text(256, '\0');
  const int length = pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text.data()), text.size());
  text.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return text;
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

}  // namespace

struct Pretokenizer::State {
  std::unique_ptr<pcre2_code, FreeCode> code;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
};

Pretokenizer::Pretokenizer() : Pretokenizer(Options{}) {}

Pretokenizer::Pretokenizer(const Options& options) {
  const std::string pattern = qwen2_pattern();
  int code = 0;
  std::size_t offset = 0;
  auto state = std::make_unique<State>();
  state->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                  PCRE2_UTF | PCRE2_ANCHORED, &code, &offset, nullptr));
  if (!state->code) {
    throw Error(
        fmt::format("the pre-tokenizer's pattern does not compile at its offset {}: {}; PCRE2 with "
                    "Unicode support is needed",
                    offset, error_text(code)));
  }
  // Compiling to machine code may be forbidden (memory that is written and executed); the interpreter then
  // gives the same words, several times slower.
  if (options.jit) pcre2_jit_compile(state->code.get(), PCRE2_JIT_COMPLETE);

  // A match over a megabyte of spaces gives back a million characters to find a line end: the default limits
  // would refuse that. The pattern repeats single characters only, so neither depth nor heap grow with the
  // text.
  state->context.reset(pcre2_match_context_create(nullptr));
  if (!state->context) throw Error("out of memory for the pre-tokenizer");
  constexpr auto kNoLimit = std::numeric_limits<std::uint32_t>::max();
  pcre2_set_match_limit(state->context.get(), kNoLimit);
  pcre2_set_depth_limit(state->context.get(), kNoLimit);
  pcre2_set_heap_limit(state->context.get(), kNoLimit);
  state_ = std::move(state);
}

Pretokenizer::~Pretokenizer() = default;
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;

void Pretokenizer::split(std::string_view text, std::vector<std::size_t>& ends) const {
  ends.clear();
  if (text.empty()) return;
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  if (!match) throw Error("out of memory for the pre-tokenizer");
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  for (std::size_t at = 0; at < text.size();) {
    // Without NO_UTF_CHECK every call would check the whole text again: quadratic time.
    const int code = pcre2_match(state_->code.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK,
                                 match.get(), state_->context.get());
    const std::size_t end = code > 0 ? pcre2_get_ovector_pointer(match.get())[1] : 0;
    if (end <= at) {
      throw Error(fmt::format("the pre-tokenizer failed at byte {} of {}: {}", at, text.size(),
                              code > 0 ? "an empty match" : error_text(code)));
    }
    ends.push_back(end);
    at = end;
  }
}

}  // namespace inferno
