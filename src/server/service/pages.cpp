#include "server/service/pages.hpp"

#include <array>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <xxhash.h>

#include "server/service/embedded_files.hpp"

namespace inferno::service {
namespace {

constexpr std::string_view kAssets = "/assets/";

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string content_type_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, const char*>, 4> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".svg", "image/svg+xml"},
  }};
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return type;
  }
  return "application/octet-stream";
}

/// Whether If-None-Match names this tag (or any).
bool is_known(std::string_view if_none_match, std::string_view tag) {
  return if_none_match == "*" ||
         (!if_none_match.empty() && if_none_match.find(tag) != std::string_view::npos);
}

void serve(http::Exchange& exchange, const EmbeddedFile& file, const std::string& tag) {
  http::Response response{.content_type = content_type_of(file.name)};
  response.headers = {{"ETag", tag},
                      {"Cache-Control", "no-cache"},  // kept, but asked about each time
                      {"Content-Security-Policy", kPolicy},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"}};
  if (is_known(exchange.request().header("If-None-Match"), tag)) {
    response.status = 304;
  } else {
    response.body = file.bytes;
  }
  exchange.respond(std::move(response));
}

}  // namespace

void add_pages(http::Router& router) {
  for (const auto& file : embedded_files()) {
    std::string path = fmt::format("{}{}", kAssets, file.name);
    if (file.name == "index.html") path.assign(1, '/');
    if (file.name == "stats.html") path.assign("/stats");
    const auto tag = fmt::format("\"{:016x}\"", XXH3_64bits(file.bytes.data(), file.bytes.size()));
    router.add("GET", path,
               [file, tag](const std::shared_ptr<http::Exchange>& exchange) { serve(*exchange, file, tag); });
  }
}

bool is_page(std::string_view path) {
  return path == "/" || path == "/stats" || path == "/favicon.ico" || path.starts_with(kAssets);
}

}  // namespace inferno::service
