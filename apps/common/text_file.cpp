#include "common/text_file.hpp"

#include <cstdio>

#include <inferno/error.hpp>

#include "platform/mapped_file.hpp"

namespace inferno::cli {

std::string read_text(const std::string& path) {
  if (path != "-") {
    const auto file = MappedFile::open(path, false);
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }
  std::string text;
  char buffer[1U << 16U];
  std::size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof buffer, stdin)) > 0) text.append(buffer, count);
  if (std::ferror(stdin) != 0) throw Error("cannot read stdin");
  return text;
}

}  // namespace inferno::cli
