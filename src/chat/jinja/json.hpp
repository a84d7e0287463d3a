#pragma once

#include <string>
#include <string_view>

#include "chat/jinja/text_builder.hpp"
#include "chat/jinja/value.hpp"

namespace inferno::jinja {

/// json.dumps as the filter tojson calls it.
struct JsonFormat {
  bool ascii_only = false;
  bool sort_keys = false;
  bool multi_line = false;  ///< with `indent` before each item
  Text indent;
  Text item_separator{", ", true};
  Text key_separator{": ", true};
};

/// Python's json.dumps: its separators, its numbers, keys in their order. Punctuation is the template's; what
/// stands in strings stays what it is.
Text dump_json(Budget& budget, const Value& value, const JsonFormat& format);

/// JSON from a caller, as Python's json.loads reads it: keys keep their order, the last of equal keys counts,
/// integers of any size keep their digits. Strings are not trusted. Throws UsageError that begins with `what`
/// for text that is no JSON, and for nesting beyond kMaxValueDepth.
Value parse_json(std::string_view text, std::string_view what);

}  // namespace inferno::jinja
