#include "server/api/answer_head.hpp"

#include <fmt/format.h>
#include <iterator>

#include "server/api/json_text.hpp"

namespace inferno::api {

std::string answer_head(std::string_view id, std::string_view object, std::int64_t created,
                        const ApiOptions& options) {
  std::string out = R"("id":)";
  append_json_string(out, id);
  fmt::format_to(std::back_inserter(out), R"(,"object":"{}","created":{},"model":)", object, created);
  append_json_string(out, options.model_name);
  out += R"(,"system_fingerprint":)";
  append_json_string(out, options.fingerprint);
  out += ',';
  return out;
}

}  // namespace inferno::api
