#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command.hpp"
#include "common/options.hpp"
#include "common/text_file.hpp"
#include "engine/model_parts.hpp"
#include "tokenizer/report.hpp"

namespace inferno::cli {
namespace {

struct TokenizeOptions {
  ModelOption model;
  std::string text;
  bool text_given = false;
  std::string decode;
  bool decode_given = false;
  bool no_special = false;
  bool json = false;
};

int decode(const TokenizeOptions& options, const Tokenizer& tokenizer, std::uint32_t vocab_size) {
  const auto ids = parse_ids(options.decode);
  check_ids(ids, vocab_size);
  const auto text = tokenizer.decode(ids);
  if (options.json) {
    const nlohmann::ordered_json json = {{"ids", ids}, {"text", text}};
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  return 0;
}

int tokenize(const TokenizeOptions& options) {
  const auto model = options.model.load();
  const auto& tokenizer = model.parts().tokenizer;
  if (options.decode_given) return decode(options, tokenizer, model.vocab_size());
  const auto text = options.text_given ? options.text : read_text("-");
  const auto ids = tokenizer.encode(text, !options.no_special);
  fmt::print("{}{}", options.json ? tokens_as_json(tokenizer, ids) : tokens_as_text(tokenizer, ids),
             options.json ? "\n" : "");
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("tokenize", "text to token ids, or back");
  const auto options = std::make_shared<TokenizeOptions>();
  options->model.add_to(*command);
  auto* text = command->add_option("text", options->text, "the text (default: stdin, to its end)");
  auto* decode_option =
      command->add_option("--decode", options->decode, "ids, 1,2,3, to turn into text")->excludes(text);
  command->add_flag("--no-special", options->no_special, "control tokens in the text stay text");
  command->add_flag("--json", options->json, "as JSON: {ids, tokens}, or with --decode {ids, text}");
  set_examples(*command,
               "  inferno tokenize \"Once upon a time\"\n"
               "  inferno tokenize --json --no-special < prompt.txt\n"
               "  inferno tokenize --decode 466,470,258,412");
  command->callback([&action, options, text, decode_option] {
    options->text_given = text->count() > 0;
    options->decode_given = decode_option->count() > 0;
    action = [options] { return tokenize(*options); };
  });
}

}  // namespace inferno::cli
