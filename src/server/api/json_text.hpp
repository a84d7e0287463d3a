#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace inferno::api {

/// Writing JSON piece by piece: answers are put together from constant text and these, without a tree.

/// A string in quotes. Bytes that are no UTF-8 become U+FFFD, so that what is sent is always valid.
void append_json_string(std::string& out, std::string_view text);
/// The same; an empty text is null.
void append_json_string_or_null(std::string& out, std::string_view text);
void append_json_integer(std::string& out, std::int64_t value);
/// The shortest digits that give the number back; infinities and NaN, which JSON lacks, become `otherwise`.
void append_json_float(std::string& out, float value, std::string_view otherwise);
/// [1,2,3]
void append_json_bytes(std::string& out, std::string_view bytes);
void append_json_ids(std::string& out, std::span<const std::int32_t> ids);

}  // namespace inferno::api
