#pragma once

#include <memory>
#include <string_view>

#include "server/http/router.hpp"

namespace inferno::service {

/// Adds the web pages: `/`, `/stats` and what they need below `/assets/`. They come with an ETag and a
/// content security policy that allows nothing from elsewhere and no code in the page's text.
void add_pages(http::Router& router);

/// Whether a path is one of the pages' (whether or not there is such a file).
bool is_page(std::string_view path);

}  // namespace inferno::service
