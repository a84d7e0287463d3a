#pragma once

#include <string>
#include <string_view>

namespace inferno {

/// Whether `text` (valid UTF-8) holds no character that composition could touch: a cheap test that most
/// texts pass, and then they are in NFC as they stand. False does not mean that NFC differs.
bool certainly_nfc(std::string_view text);

/// Unicode normalization form C of `text` (valid UTF-8), in O(n log n) whatever the text is.
std::string nfc(std::string_view text);

}  // namespace inferno
