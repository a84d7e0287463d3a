#include "server/http/small_file.hpp"

#include <fmt/format.h>
#include <span>

#include <inferno/error.hpp>

#include "platform/mapped_file.hpp"
#include "platform/quote.hpp"

namespace inferno::http {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20U;

}  // namespace

std::string read_small_file(const std::filesystem::path& path, std::string_view what) {
  std::string text;
  try {
    const auto file = InputFile::open(path);
    if (file.size() > kMostBytes) {
      throw Error(
          fmt::format("{} has {} bytes; expected at most {}", quote(path.string()), file.size(), kMostBytes));
    }
    text.resize(static_cast<std::size_t>(file.size()));
    file.read(0, std::as_writable_bytes(std::span(text)));
  } catch (const Error& error) {
    throw Error(fmt::format("cannot read the {}: {}", what, error.what()));
  }
  return text;
}

}  // namespace inferno::http
