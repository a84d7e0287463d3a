#include "gguf/header_fields.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <utility>

#include <inferno/error.hpp>

namespace inferno::gguf {
namespace {

// The fewest bytes that an element takes in the file; a length that needs more than there are is refused
// unread.
constexpr std::uint64_t kMinTextBytes = 8;
constexpr std::uint64_t kMinArrayBytes = 4 + 8;

static_assert(sizeof(std::pair<std::string, Value>) <= MetadataBudget::kEntryBytes);

std::uint64_t min_file_bytes(ValueType type) {
  if (type == ValueType::string) return kMinTextBytes;
  if (type == ValueType::array) return kMinArrayBytes;
  return value_type_bytes(type);
}

}  // namespace

void HeaderFields::fail(std::string_view field, std::uint64_t offset, std::string_view expected,
                        std::string_view found) const {
  throw Error(fmt::format("{}: {}{}{}: expected {} at byte {}, found {}", file_name_, place_,
                          place_.empty() ? "" : ": ", field, expected, offset, found));
}

void HeaderFields::require(std::string_view field, std::uint64_t bytes) const {
  if (cursor_.remaining() >= bytes) return;
  fail(field, cursor_.position(), fmt::format("{} bytes", bytes),
       fmt::format("the end of the file after {} bytes; it is cut off", cursor_.remaining()));
}

void HeaderFields::seek_metadata(std::uint64_t position) {
  cursor_.seek(position);
  budget_ = {};
}

void HeaderFields::skip_number(std::string_view field, std::size_t bytes) {
  require(field, bytes);
  cursor_.skip(bytes);
}

bool HeaderFields::boolean(std::string_view field) {
  const std::uint64_t at = position();
  const auto found = number<std::uint8_t>(field);
  if (found > 1) fail(field, at, "a boolean of 0 or 1", fmt::format("{}", found));
  return found == 1;
}

void HeaderFields::skip_booleans(std::string_view field, std::uint64_t size) {
  std::array<std::uint8_t, 4096> piece{};
  while (size != 0) {
    const std::uint64_t at = position();
    const auto found =
        std::span(piece).first(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), size)));
    require(field, found.size());
    cursor_.read(std::as_writable_bytes(found));
    const auto bad = std::find_if(found.begin(), found.end(), [](std::uint8_t byte) { return byte > 1; });
    if (bad != found.end()) {
      fail(field, at + static_cast<std::uint64_t>(bad - found.begin()), "a boolean of 0 or 1",
           fmt::format("{}", *bad));
    }
    size -= found.size();
  }
}

std::uint64_t HeaderFields::count(std::string_view field, std::uint64_t limit, std::uint64_t min_bytes) {
  const std::uint64_t at = position();
  const auto found = number<std::uint64_t>(field);
  if (found > limit) fail(field, at, fmt::format("at most {}", limit), fmt::format("{}", found));
  if (found > cursor_.remaining() / min_bytes) {
    fail(field, at,
         fmt::format("at most {} in the {} bytes that follow", cursor_.remaining() / min_bytes,
                     cursor_.remaining()),
         fmt::format("{}; the file is cut off or damaged", found));
  }
  return found;
}

std::uint64_t HeaderFields::length(std::string_view field, std::uint64_t limit) {
  const std::uint64_t at = position();
  const auto found = number<std::uint64_t>(field);
  if (found > limit) fail(field, at, fmt::format("a length of at most {}", limit), fmt::format("{}", found));
  if (found > cursor_.remaining()) {
    fail(field, at, fmt::format("a length of at most {} (the bytes that follow)", cursor_.remaining()),
         fmt::format("{}; the file is cut off or damaged", found));
  }
  return found;
}

std::string HeaderFields::name(std::string_view field, std::uint64_t limit) {
  const std::uint64_t at = position();
  const std::uint64_t found = length(field, limit);
  if (found == 0) fail(field, at, "at least one byte", "an empty string");
  std::string text(found, '\0');
  cursor_.read(std::as_writable_bytes(std::span(text)));
  return text;
}

ValueType HeaderFields::value_type(std::string_view field) {
  const std::uint64_t at = position();
  const auto found = number<std::uint32_t>(field);
  if (found >= kValueTypes) {
    fail(field, at, fmt::format("a value type from 0 to {}", kValueTypes - 1), fmt::format("{}", found));
  }
  return static_cast<ValueType>(found);
}

void HeaderFields::fail_for_memory(std::string_view field, std::uint64_t offset,
                                   std::string_view found) const {
  fail(field, offset, fmt::format("at most {} bytes of memory for all keys and values", kMaxValueBytes),
       fmt::format("{} after {} bytes for what stands before", found, budget_.bytes()));
}

std::string HeaderFields::key() {
  constexpr std::string_view kField = "key";
  const std::uint64_t at = position();
  std::string text = name(kField, kMaxKeyBytes);
  if (!budget_.take_bytes(MetadataBudget::kEntryBytes + MetadataBudget::text_bytes(text.size()))) {
    fail_for_memory(kField, at, fmt::format("a key of {} bytes", text.size()));
  }
  return text;
}

std::uint64_t HeaderFields::text_length(std::string_view field) {
  const std::uint64_t at = position();
  const std::uint64_t found = length(field, std::numeric_limits<std::uint64_t>::max());
  if (!budget_.take_bytes(MetadataBudget::text_bytes(found))) {
    fail_for_memory(field, at, fmt::format("a string of {} bytes", found));
  }
  return found;
}

HeaderFields::ArrayStart HeaderFields::array_start(std::uint32_t depth) {
  if (depth > kMaxArrayDepth) {
    fail("value", position(), fmt::format("arrays nested at most {} deep", kMaxArrayDepth), "one more level");
  }
  constexpr std::string_view kField = "array length";
  const ValueType type = value_type("array element type");
  const std::uint64_t at = position();
  const auto size = number<std::uint64_t>(kField);
  const std::uint64_t most = cursor_.remaining() / min_file_bytes(type);
  if (size > most) {
    fail(kField, at,
         fmt::format("at most {} elements of type {} in the {} bytes that follow", most,
                     value_type_name(type), cursor_.remaining()),
         fmt::format("{}; the file is cut off or damaged", size));
  }
  if (!budget_.take_elements(size)) {
    fail(kField, at, fmt::format("at most {} elements in all arrays of the file", kMaxElements),
         fmt::format("{} after {} others", size, budget_.elements()));
  }
  if (!budget_.take_bytes(MetadataBudget::array_bytes(size, element_bytes(type)))) {
    fail_for_memory(kField, at,
                    fmt::format("an array of {} elements of type {}", size, value_type_name(type)));
  }
  return {type, size};
}

}  // namespace inferno::gguf
