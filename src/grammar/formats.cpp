// Formats as patterns. What they match is always valid; where a format has no end, they are shorter than it.

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <utility>

#include "grammar/schema_keywords.hpp"

namespace inferno::grammar {
namespace {

const std::string kDate =
    R"((?:(?:[1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])-)"
    R"((?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|)"
    R"(02-(?:0[1-9]|1\d|2[0-8]))|)"
    R"((?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29))";
// Without leap seconds, which many readers refuse.
const std::string kTime =
    R"((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d))";
const std::string kDurationTime = R"(T(?:\d{1,9}H(?:\d{1,9}M(?:\d{1,9}S)?)?|\d{1,9}M(?:\d{1,9}S)?|\d{1,9}S))";
const std::string kDuration = R"(P(?:\d{1,9}W|)" + kDurationTime +
                              R"(|(?:\d{1,9}Y(?:\d{1,9}M(?:\d{1,9}D)?)?|\d{1,9}M(?:\d{1,9}D)?|\d{1,9}D)(?:)" +
                              kDurationTime + ")?)";
const std::string kUuid = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";
const std::string kOctet = R"((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
const std::string kIpv4 = kOctet + R"(\.)" + kOctet + R"(\.)" + kOctet + R"(\.)" + kOctet;
const std::string kGroup = "[0-9a-fA-F]{1,4}";

/// Eight groups, or fewer around one "::".
std::string ipv6() {
  const auto groups = [](int least, int most) {
    return fmt::format("{0}(?::{0}){{{1},{2}}}", kGroup, least - 1, most - 1);
  };
  auto out = fmt::format("{}|::(?:{})?", groups(8, 8), groups(1, 7));
  for (int before = 1; before <= 7; ++before) {
    out += fmt::format("|{}::", groups(before, before));
    if (before < 7) out += fmt::format("(?:{})?", groups(1, 7 - before));
  }
  return out;
}

// At most 8 x 31 characters, below the 253 that a name may have.
const std::string kLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,28}[A-Za-z0-9])?";
const std::string kHostname = kLabel + R"((?:\.)" + kLabel + "){0,7}";
const std::string kAtom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}";
const std::string kEmail = kAtom + R"((?:\.)" + kAtom + "){0,2}@" + kLabel + R"((?:\.)" + kLabel + "){1,5}";
const std::string kUriChar = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
const std::string kUri = "[A-Za-z][A-Za-z0-9+.-]{0,30}://" + kHostname + R"((?::\d{1,4})?(?:/)" + kUriChar +
                         "*)*(?:\\?(?:" + kUriChar + "|[/?])*)?(?:#(?:" + kUriChar + "|[/?])*)?";
// A path that cannot be taken for a scheme, maybe with a query and a fragment.
const std::string kUriStart = "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})";
const std::string kUriReference = kUri + "|/?(?:" + kUriStart + "+(?:/" + kUriChar +
                                  "*)*)?(?:\\?(?:" + kUriChar + "|[/?])*)?(?:#(?:" + kUriChar + "|[/?])*)?";
const std::string kJsonPointer = "(?:/(?:[^~/]|~[01])*)*";
const std::string kBase64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?";
const std::string kIpv6 = ipv6();
const std::string kDateTime = kDate + "T" + kTime;

using Format = std::pair<std::string_view, const std::string*>;
const std::array kFormats = {Format{"date", &kDate},
                             Format{"time", &kTime},
                             Format{"date-time", &kDateTime},
                             Format{"duration", &kDuration},
                             Format{"uuid", &kUuid},
                             Format{"ipv4", &kIpv4},
                             Format{"ipv6", &kIpv6},
                             Format{"hostname", &kHostname},
                             Format{"email", &kEmail},
                             Format{"uri", &kUri},
                             Format{"uri-reference", &kUriReference},
                             Format{"json-pointer", &kJsonPointer},
                             Format{"byte", &kBase64}};

/// zod's own, whose look-ahead rules out what is no duration either.
constexpr std::string_view kZodDuration =
    R"(^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$)";

/// They say how a text is shown or sent, and nothing of what it may be.
constexpr std::array<std::string_view, 2> kAnnotations = {"password", "binary"};

struct RangeFormat {
  std::string_view name;
  IntegerRange range;
};
constexpr std::array kRanges = {
    RangeFormat{"int8", {INT8_MIN, INT8_MAX}}, RangeFormat{"int16", {INT16_MIN, INT16_MAX}},
    RangeFormat{"int32", {INT32_MIN, INT32_MAX}}, RangeFormat{"int64", {INT64_MIN, INT64_MAX}},
    RangeFormat{"uint8", {0, UINT8_MAX}}, RangeFormat{"uint16", {0, UINT16_MAX}},
    RangeFormat{"uint32", {0, UINT32_MAX}},
    // As far as integers are written.
    RangeFormat{"uint64", {0, INT64_MAX}}};

}  // namespace

std::optional<std::string_view> format_pattern(std::string_view format) {
  for (const auto& [name, pattern] : kFormats) {
    if (name == format) return *pattern;
  }
  const auto* const annotation = std::find(kAnnotations.begin(), kAnnotations.end(), format);
  return annotation == kAnnotations.end() ? std::nullopt : std::optional<std::string_view>("");
}

bool says_the_same(std::string_view pattern, std::string_view format) {
  return format == "duration" && pattern == kZodDuration;
}

std::optional<IntegerRange> integer_range(const Json& schema) {
  const auto* format = schema.find("format");
  if (format == nullptr) return std::nullopt;
  const auto* const found = std::find_if(
      kRanges.begin(), kRanges.end(), [&](const RangeFormat& known) { return known.name == format->text; });
  return found == kRanges.end() ? std::nullopt : std::optional(found->range);
}

std::string supported_formats() {
  std::string out;
  for (const auto& format : kFormats) out += (out.empty() ? "" : ", ") + std::string(format.first);
  return out;
}

}  // namespace inferno::grammar
