#include "server/http/exchange.hpp"

#include "server/http/text.hpp"

namespace inferno::http {

std::string_view Request::header(std::string_view name) const {
  for (const auto& header : headers) {
    if (equal_ignoring_case(header.name, name)) return header.value;
  }
  return {};
}

}  // namespace inferno::http
