#pragma once

#include <span>
#include <string_view>

namespace inferno::service {

/// A file of src/server/page, as it was when the program was built.
struct EmbeddedFile {
  std::string_view name;  ///< without folder
  std::string_view bytes;
};

std::span<const EmbeddedFile> embedded_files();

}  // namespace inferno::service
