#include "server/api/sse.hpp"

#include <utility>

#include "server/api/json_text.hpp"

namespace inferno::api {

void append_event(std::string& out, std::string_view data) {
  out.append("data: ").append(data).append("\n\n");
}

http::Response event_stream(std::string body) {
  // Nobody on the way may hold events back or keep them.
  return {.content_type = "text/event-stream",
          .body = std::move(body),
          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
}

ChunkFrame::ChunkFrame(std::string_view head, bool with_usage)
    : head_("data: {"), tail_(with_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n") {
  head_.append(head).append(R"("choices":[)");
}

void ChunkFrame::open(std::string& out, std::size_t index) const {
  out.append(head_).append(R"({"index":)");
  append_json_integer(out, static_cast<std::int64_t>(index));
}

void ChunkFrame::append_usage(std::string& out, std::string_view usage) const {
  out.append(head_).append(R"(],"usage":)").append(usage).append("}\n\n");
}

}  // namespace inferno::api
