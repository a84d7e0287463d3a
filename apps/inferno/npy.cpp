#include "npy.hpp"

#include <bit>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>

namespace inferno::cli {
namespace {

// NumPy's format, version 1.0: magic, version, header length, header padded so that the data starts at a
// multiple of 64.
constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr std::size_t kAlignment = 64;

static_assert(std::endian::native == std::endian::little, "the header says '<f4'");

std::string header(const std::vector<std::uint64_t>& shape) {
  auto text =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", fmt::join(shape, ", "));
  const std::size_t unpadded = kMagic.size() + 2 + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::string bytes(kMagic);
  bytes += static_cast<char>(text.size() & 0xFFU);
  bytes += static_cast<char>(text.size() >> 8U);
  return bytes + text;
}

}  // namespace

NpyWriter::NpyWriter(const std::filesystem::path& path, const std::vector<std::uint64_t>& shape)
    : file_(path) {
  const auto bytes = header(shape);
  file_.write(std::as_bytes(std::span(bytes)));
}

void NpyWriter::append(std::span<const float> row) {
  file_.write(std::as_bytes(row));
}

}  // namespace inferno::cli
