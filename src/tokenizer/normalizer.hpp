#pragma once

#include <string>
#include <string_view>

namespace inferno {

/// Whether `text` (valid UTF-8) holds no character that composition could touch: a cheap test that most
/// texts pass, and then they are in NFC as they stand. False does not mean that NFC differs.
bool certainly_nfc(std::string_view text);

/// Unicode normalization form C of `text` (valid UTF-8), in O(n log n) whatever the text is. Characters are
/// known as utf8proc knows them (Unicode 15 in 2.8). The reference's library knows those of Unicode 9 and
/// leaves some forty newer marks (U+09FE, U+0EBA) in the order they have; that is a fault of its age and not
/// repeated here: the normal form of a text never changes once its characters are assigned.
std::string nfc(std::string_view text);

}  // namespace inferno
