#include "grammar/grammar.hpp"

#include <fmt/format.h>
#include <utility>

namespace inferno::grammar {

SchemaError::SchemaError(std::string path, const std::string& message, std::size_t document)
    : UsageError(fmt::format("{}: {}", path.empty() ? "schema" : path, message)),
      path_(std::move(path)),
      message_(message),
      document_(document) {}

}  // namespace inferno::grammar
