#include "server/http/text.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <fmt/format.h>
#include <utility>

namespace inferno::http {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_letter_or_digit(char c) {
  return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z');
}

bool is_one_of(std::string_view characters, char c) {
  return characters.find(c) != std::string_view::npos;
}

constexpr std::array<std::pair<unsigned, std::string_view>, 29> kReasons = {{
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
}};

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  const char small = lower(c);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

bool is_token_character(char c) {
  return is_letter_or_digit(c) || is_one_of("!#$%&'*+-.^_`|~", c);
}

bool is_authority(std::string_view text) {
  std::string_view host = text;
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return false;
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
    if (!port.empty() && !port.starts_with(':')) return false;
  } else if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (!port.empty()) port.remove_prefix(1);
  const std::string_view marks = text.starts_with('[') ? ":.%-_~" : "-._~%!$&'()*+,;=";
  return !host.empty() && std::all_of(port.begin(), port.end(), is_digit) &&
         std::all_of(host.begin(), host.end(),
                     [&](char c) { return is_letter_or_digit(c) || is_one_of(marks, c); });
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

std::string http_date() {
  // Names by hand: strftime's follow the locale.
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT",
                     kDays.at(static_cast<std::size_t>(parts.tm_wday)), parts.tm_mday,
                     kMonths.at(static_cast<std::size_t>(parts.tm_mon)), parts.tm_year + 1900, parts.tm_hour,
                     parts.tm_min, parts.tm_sec);
}

std::string_view reason_phrase(unsigned status) {
  const auto* const found = std::find_if(kReasons.begin(), kReasons.end(),
                                         [&](const auto& known) { return known.first == status; });
  return found == kReasons.end() ? "Status" : found->second;
}

}  // namespace inferno::http
