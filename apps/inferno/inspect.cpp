#include <fmt/format.h>
#include <memory>

#include "command.hpp"
#include "common/command_line.hpp"
#include "common/options.hpp"
#include "gguf/describe.hpp"

namespace inferno::cli {
namespace {

struct InspectOptions {
  ModelOption model;
  std::string file;
  bool json = false;
};

int inspect(const InspectOptions& options) {
  // Any GGUF file may be looked at, not only models that inferno can run.
  const auto path = options.file.empty() ? options.model.resolved() : std::filesystem::path(options.file);
  const auto file = gguf::File::open(path, {.map = !options.model.no_mmap});
  const auto text = options.json ? gguf::describe_json(file) + "\n" : gguf::describe_text(file);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("inspect", "print a GGUF file's metadata, tensor table and totals");
  const auto options = std::make_shared<InspectOptions>();
  options->model.add_to(*command);
  command->add_option("file", options->file, "GGUF file, instead of -m")
      ->check(check_not_empty)
      ->excludes("-m");
  command->add_flag("--json", options->json, "as JSON: {version, alignment, metadata, tensors, total_bytes}");
  set_examples(*command,
               "  inferno inspect\n  inferno inspect -m model-00001-of-00003.gguf\n  inferno inspect --json "
               "model.gguf");
  command->callback([&action, options] { action = [options] { return inspect(*options); }; });
}

}  // namespace inferno::cli
