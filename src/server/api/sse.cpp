#include "server/api/sse.hpp"

#include <fmt/format.h>
#include <iterator>
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

ChunkFrame::ChunkFrame(std::string_view head, StreamUsage usage, std::uint64_t prompt_tokens)
    : head_("data: {"),
      tail_(usage == StreamUsage::at_end ? "}],\"usage\":null}\n\n" : "}]}\n\n"),
      counts_(usage == StreamUsage::always),
      prompt_tokens_(prompt_tokens) {
  head_.append(head).append(R"("choices":[)");
}

void ChunkFrame::close(std::string& out, std::uint64_t completion_tokens) const {
  if (!counts_) {
    out += tail_;
    return;
  }
  // Without the cached ones, which are known at the end.
  fmt::format_to(std::back_inserter(out),
                 R"(}}],"usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{}}}}})",
                 prompt_tokens_, completion_tokens, prompt_tokens_ + completion_tokens);
  out += "\n\n";
}

void ChunkFrame::open(std::string& out, std::size_t index) const {
  out.append(head_).append(R"({"index":)");
  append_json_integer(out, static_cast<std::int64_t>(index));
}

void ChunkFrame::append_usage(std::string& out, std::string_view usage) const {
  out.append(head_).append(R"(],"usage":)").append(usage).append("}\n\n");
}

}  // namespace inferno::api
