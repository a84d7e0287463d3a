#include "common/command_line.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <iostream>
#include <iterator>
#include <string_view>
#include <vector>

#include <inferno/error.hpp>

#include "platform/quote.hpp"

namespace inferno::cli {
namespace {

template <typename Number>
bool is_all_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// The library reads 010 as eight and "" as zero, and takes what is too large for the largest.
std::string check_count(const std::string& text) {
  const bool padded = text.size() > 1 && text.front() == '0';
  if (is_all_number<std::uint64_t>(text) && !padded) return {};
  const bool has_digits_only =
      !text.empty() && !padded && text.find_first_not_of("0123456789") == std::string::npos;
  return fmt::format("{} {}", quote(text), has_digits_only ? "is too large" : "is no whole number");
}

std::string check_float(const std::string& text) {
  if (is_all_number<double>(text)) return {};
  return fmt::format("{} is no number", quote(text));
}

void make_strict(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const auto type = option->get_type_name();
    if (type.find("UINT") != std::string::npos) option->check(check_count);
    if (type.find("FLOAT") != std::string::npos) option->check(check_float);
  }
  for (CLI::App* command : app.get_subcommands({})) make_strict(*command);
}

/// The words as the library takes them, last first. It takes the next word for the value of "--option=",
/// which must be nothing instead.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words;
  bool options = true;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word(argv[i]);
    if (word == "--") options = false;
    if (options && word.size() > 3 && word.substr(0, 2) == "--" && word.find('=') == word.size() - 1) {
      words.emplace_back(word.substr(0, word.size() - 1));
      words.emplace_back();
    } else {
      words.emplace_back(word);
    }
  }
  std::reverse(words.begin(), words.end());
  return words;
}

void check_command(const CLI::App& app, int argc, char** argv) {
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (argc > 1 && command->get_name() == argv[1]) return;
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  if (argc > 1 && argv[1][0] == '-') return;  // an option of the program itself
  const auto what =
      argc > 1 ? fmt::format("unknown command {}", quote(argv[1])) : std::string("a command is missing");
  throw UsageError(fmt::format("{}; expected one of {}; see {} --help", what, known, app.get_name()));
}

/// What the option of "...: --name = value" takes, to be appended; empty if there is none.
std::string expected_of(std::string_view what, const std::vector<CLI::App*>& chosen) {
  const auto begin = what.find("--");
  const auto end = what.find(" = ", std::min(begin, what.size()));
  if (end == std::string_view::npos || chosen.empty()) return {};
  const auto* option = chosen.front()->get_option_no_throw(std::string(what.substr(begin, end - begin)));
  if (option == nullptr) return {};
  const bool is_signed = option->get_type_name() == "INT";
  return fmt::format("; expected a whole number from 0 to {}", is_signed ? INT32_MAX : UINT32_MAX);
}

/// The library's words for an option that is given again.
std::string expected_once(std::string what) {
  constexpr std::string_view kSaid = "At Most 1 required but received";
  const auto place = what.find(kSaid);
  return place == std::string::npos ? what : what.replace(place, kSaid.size(), "expected one value, found");
}

/// Whether what was not expected ("...: word") may be meant as a prompt.
bool is_prompt(std::string_view what, const std::vector<CLI::App*>& chosen) {
  if (chosen.empty()) return false;
  const auto* option = chosen.front()->get_option_no_throw("--prompt");
  return option != nullptr && option->get_type_name() == "TEXT" && what.find(": -") == std::string_view::npos;
}

}  // namespace

std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  make_strict(app);
  check_command(app, argc, argv);
  try {
    app.parse(words_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      const int code = app.exit(error);  // help or version
      std::cout.flush();
      if (!std::cout) throw Error("cannot write to stdout");
      return code;
    }
    const auto chosen = app.get_subcommands();
    std::string what = error.what();
    // All that is left of whole numbers here is that they are too large for their type.
    if (error.get_name() == "ConversionError") what += expected_of(what, chosen);
    if (error.get_name() == "ArgumentMismatch") what = expected_once(what);
    const bool is_extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
    if (is_extra && is_prompt(what, chosen)) what += " (a prompt goes behind -p)";
    throw UsageError(fmt::format("{}; see {}{} --help", what, app.get_name(),
                                 chosen.empty() ? "" : " " + chosen.front()->get_name()));
  }
  return std::nullopt;
}

std::string check_not_empty(const std::string& text) {
  return text.empty() ? "expected a text that is not empty" : std::string();
}

}  // namespace inferno::cli
