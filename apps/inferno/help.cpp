#include "command.hpp"

namespace inferno::cli {

void set_examples(CLI::App& command, const std::string& examples) {
  command.footer("\nExamples:\n" + examples);
}

}  // namespace inferno::cli
