#include "gguf/diagnosis.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

#include "platform/quote.hpp"

namespace inferno::gguf {
namespace {

constexpr std::string_view kMagic = "GGUF";

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

struct Signature {
  std::string_view bytes;
  std::string_view meaning;
};

using namespace std::string_view_literals;

/// First bytes of what people save, rename or point at by mistake.
constexpr std::array kSignatures{
    Signature{"FUGG"sv, "GGUF with its magic bytes reversed; a broken tool wrote it"sv},
    Signature{"tjgg"sv, "a GGML file (ggjt) from before GGUF; convert the original model again"sv},
    Signature{"fmgg"sv, "a GGML file (ggmf) from before GGUF; convert the original model again"sv},
    Signature{"lmgg"sv, "a GGML file from before GGUF; convert the original model again"sv},
    Signature{"algg"sv, "a GGML adapter (ggla), not a model"sv},
    Signature{"PK\x03\x04"sv, "a zip archive (a PyTorch checkpoint is one, too); unpack or convert it"sv},
    Signature{"\x1f\x8b"sv, "a gzip archive; unpack it"sv},
    Signature{"\x28\xb5\x2f\xfd"sv, "a zstd archive; unpack it"sv},
    Signature{"\xfd"
              "7zXZ"sv,
              "an xz archive; unpack it"sv},
    Signature{"BZh"sv, "a bzip2 archive; unpack it"sv},
    Signature{"7z\xbc\xaf"sv, "a 7-zip archive; unpack it"sv},
    Signature{"\x7f"
              "ELF"sv,
              "a program, not a model"sv},
    Signature{"%PDF"sv, "a PDF document"sv},
    Signature{"\x89PNG"sv, "a picture"sv},
    Signature{"\x80\x02"sv, "a Python pickle (a PyTorch checkpoint); convert it"sv},
    Signature{"\x93NUMPY"sv, "a NumPy array"sv},
};

std::string guess(std::string_view start) {
  for (const Signature& signature : kSignatures) {
    if (start.starts_with(signature.bytes)) return std::string(signature.meaning);
  }
  std::string_view text = start;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const auto content = text.find_first_not_of(" \t\r\n");
  text = content == std::string_view::npos ? std::string_view{} : text.substr(content);
  const std::string head = lower(text);
  if (head.starts_with("version https://git-lfs")) {
    std::string size;
    if (const auto at = head.find("\nsize "); at != std::string::npos) {
      const std::string digits = head.substr(at + 6, head.find_first_not_of("0123456789", at + 6) - at - 6);
      if (!digits.empty()) size = fmt::format(" of the real file of {} bytes", digits);
    }
    return fmt::format("a Git LFS pointer{}; run \"git lfs pull\"", size);
  }
  if (head.starts_with("<!doctype html") || head.starts_with("<html") ||
      head.find("<html") != std::string::npos || head.starts_with("<head") || head.starts_with("<!--")) {
    return "an HTML page: the download saved a web page in place of the file; fetch it again";
  }
  if (head.starts_with("<?xml") || head.starts_with("<error")) {
    return "an XML document, often a server's error message; fetch the file again";
  }
  if (start.size() > 8 && start[8] == '{' && start.substr(5, 3) == "\0\0\0"sv) {
    return "a safetensors file; convert it to GGUF";
  }
  if (head.starts_with("{") || head.starts_with("[")) {
    return "JSON text, often a server's error message; fetch the file again";
  }
  const bool zeros = !start.empty() && start.find_first_not_of('\0') == std::string_view::npos;
  if (zeros) return "zeros: a download that reserved its space and never finished";
  const bool printable = std::all_of(start.begin(), start.end(), [](char c) {
    return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t';
  });
  if (printable && !start.empty()) return "plain text";
  return {};
}

}  // namespace

std::string diagnose_start(const ByteSource& source) {
  if (source.size() == 0) return "expected a GGUF file, found an empty one (0 bytes)";
  std::array<char, 512> buffer{};
  const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), source.size()));
  source.read(0, std::as_writable_bytes(std::span(buffer).first(length)));
  const std::string_view start(buffer.data(), length);
  constexpr std::size_t kShown = 24;

  if (!start.starts_with(kMagic)) {
    if (kMagic.starts_with(start)) {
      return fmt::format(
          "magic: expected \"GGUF\" at byte 0, found the end of the file after {} bytes; it is cut off",
          length);
    }
    const std::string looks = guess(start);
    return fmt::format("magic: expected \"GGUF\" at byte 0, found {}{}{}", quote(start.substr(0, kShown)),
                       looks.empty() ? "; not a GGUF file" : "; looks like ", looks);
  }
  if (length < 8) {
    return fmt::format(
        "version: expected 4 bytes at byte 4, found the end of the file after {} bytes; it is cut off",
        length);
  }
  std::uint32_t version = 0;
  std::memcpy(&version, buffer.data() + 4, sizeof version);
  if (version == 2 || version == 3) return {};
  constexpr std::string_view kExpected = "version: expected 2 or 3 at byte 4, found ";
  if (version == 1) {
    return fmt::format(
        "{}1: this is GGUF version 1 of August 2023 (32-bit counts); convert the original model again",
        kExpected);
  }
  if ((version & 0xFFFFU) == 0 && version != 0) {
    const std::uint32_t swapped = __builtin_bswap32(version);
    return fmt::format(
        "{}{} with its bytes swapped: this is a big-endian GGUF file; only little-endian files are "
        "supported, convert it again for a little-endian machine",
        kExpected, swapped);
  }
  if (version == 0) return fmt::format("{}0: there is no such version; the file is damaged", kExpected);
  return fmt::format("{}{}: this is GGUF version {}, which is newer than this program", kExpected, version,
                     version);
}

}  // namespace inferno::gguf
