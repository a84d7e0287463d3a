#include "stream_load.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <utility>

namespace inferno::load {

namespace {

/// Ids that every vocabulary has and that are no markup.
constexpr std::uint64_t kSmallIds = 250;

}  // namespace

double since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string completion_request(const Prompt& prompt, std::mt19937_64& random) {
  std::mt19937_64 shared(prompt.shared_seed);
  std::vector<std::uint64_t> ids(prompt.tokens);
  for (std::uint32_t i = 0; i < prompt.tokens; ++i)
    ids[i] = (i < prompt.shared ? shared() : random()) % kSmallIds;
  const auto bias =
      prompt.only < 0 ? std::string() : fmt::format(R"("logit_bias":{{"{}":100}},)", prompt.only);
  return fmt::format(R"({{"prompt":[{}],"max_tokens":{},{}"temperature":0,"ignore_eos":true,"stream":true,)"
                     R"("stream_options":{{"include_usage":true}}}})",
                     fmt::join(ids, ","), prompt.generate, bias);
}

Streamer::Streamer(Poller& poller, Counts& counts)
    : counts_(counts),
      connection_(
          poller, [this](std::string_view data) { event(data); },
          [this](int status, std::string_view body) { end(status, body); }) {}

void Streamer::start(const std::string& request, std::function<void()> on_end) {
  busy_ = true;
  begun_ = false;
  events_ = 0;
  on_end_ = std::move(on_end);
  asked_ = Clock::now();
  connection_.post("/v1/completions", request);
}

void Streamer::event(std::string_view data) {
  if (data == "[DONE]") return;
  if (data.find("\"error\":") != std::string_view::npos) {
    ++counts_.failed;
    counts_.error = data;
    return;
  }
  if (data.find("\"choices\":[]") != std::string_view::npos) {
    const auto usage = nlohmann::json::parse(data).at("usage");
    counts_.tokens += usage.at("completion_tokens").get<std::uint64_t>();
    counts_.events_of_those += events_;
    if (const auto details = usage.find("prompt_tokens_details");
        details != usage.end() && details->is_object())
      counts_.cached_tokens += details->value("cached_tokens", std::uint64_t{0});
    return;
  }
  const auto now = Clock::now();
  if (begun_) {
    counts_.gaps.add(std::chrono::duration<double, std::milli>(now - last_).count());
  } else {
    counts_.first_tokens.add(std::chrono::duration<double, std::milli>(now - asked_).count());
  }
  begun_ = true;
  last_ = now;
  ++events_;
  ++counts_.events;
}

void Streamer::end(int status, std::string_view body) {
  busy_ = false;
  ++counts_.requests;
  counts_.totals.add(since(asked_));
  if (status == 429) {
    ++counts_.refused;
  } else if (status != 200) {
    ++counts_.failed;
    counts_.error = fmt::format("{}: {}", status, body.substr(0, 300));
  }
  // It may set another.
  if (const auto on_end = std::exchange(on_end_, nullptr)) on_end();
}

}  // namespace inferno::load
