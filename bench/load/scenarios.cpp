#include "scenarios.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include <inferno/error.hpp>

#include "machine_pauses.hpp"
#include "stream_load.hpp"

namespace inferno::load {

namespace {

using Json = nlohmann::ordered_json;

/// Before anything is counted, caches and batches fill for so long.
constexpr double kWarmSeconds = 1.5;

Json percentiles(Samples& samples) {
  return {{"median", samples.at(0.5)},
          {"p90", samples.at(0.9)},
          {"p99", samples.at(0.99)},
          {"max", samples.at(1)}};
}

Series distribution(std::string name, Samples& samples) {
  Series series{std::move(name), {}};
  for (int i = 0; i <= 200; ++i) series.points.emplace_back(samples.at(i / 200.0), i / 200.0);
  return series;
}

void check(const Streamer::Counts& counts) {
  if (counts.failed > 0)
    throw Error(fmt::format("{} requests failed; the last: {}", counts.failed, counts.error));
}

void clear(Streamer::Counts& counts) {
  // Requests that are over tell how many tokens an event is worth, whenever they began.
  const auto tokens = counts.tokens;
  const auto events = counts.events_of_those;
  counts = {};
  counts.tokens = tokens;
  counts.events_of_those = events;
}

double tokens_per_event(const Streamer::Counts& counts) {
  return counts.events_of_those > 0
             ? static_cast<double>(counts.tokens) / static_cast<double>(counts.events_of_those)
             : 1;
}

/// Streams that each go on for ever.
class Streams {
 public:
  /// `seed`: of the prompts. Only with one that no earlier run had does the server have none of them cached.
  Streams(Poller& poller, std::uint32_t count, Prompt prompt, std::uint64_t seed = 1)
      : prompt_(prompt), random_(seed) {
    for (std::uint32_t i = 0; i < count; ++i)
      streamers_.push_back(std::make_unique<Streamer>(poller, counts));
    for (const auto& streamer : streamers_) next(*streamer);
  }

  void run(Poller& poller, double seconds) {
    const auto start = Clock::now();
    while (since(start) < seconds * 1e3) poller.poll(0.05);
  }

  Streamer::Counts counts;

 private:
  void next(Streamer& streamer) {
    streamer.start(completion_request(prompt_, random_), [this, &streamer] { next(streamer); });
  }

  Prompt prompt_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Streamer>> streamers_;
};

/// The first token of a text.
std::int64_t token_of(Poller& poller, std::string_view text) {
  std::optional<std::int64_t> token;
  Connection connection(
      poller, [](std::string_view) {},
      [&](int status, std::string_view body) {
        if (status != 200) throw Error(fmt::format("/tokenize: {}: {}", status, body.substr(0, 300)));
        token = Json::parse(body).at("tokens").at(0).get<std::int64_t>();
      });
  connection.post("/tokenize", Json{{"content", text}}.dump());
  while (!token) poller.poll(1);
  return *token;
}

double resident_megabytes(std::uint32_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stod(line.substr(6)) / 1024;
  }
  throw Error(fmt::format("cannot read the memory of process {}", process));
}

/// Milliseconds between tokens of the running streams.
struct DisturbedGaps {
  Samples alone;
  Samples beside_prompts;
  double prompt_tokens_per_second = 0;
};

/// Leaves the server idle.
DisturbedGaps disturbed_gaps(const Target& target, const Disturbed& options) {
  DisturbedGaps gaps;
  Poller poller(target);
  Streams streams(poller, options.streams, {.tokens = 8, .generate = 1000, .only = token_of(poller, " a")});
  streams.run(poller, kWarmSeconds);
  clear(streams.counts);
  streams.run(poller, options.seconds);
  check(streams.counts);
  gaps.alone = streams.counts.gaps;
  clear(streams.counts);
  Streams prompts(poller, 1, {.tokens = options.prompt_tokens, .generate = 1}, std::random_device()());
  const auto start = Clock::now();
  streams.run(poller, options.seconds);
  const double seconds = since(start) * 1e-3;
  check(streams.counts);
  check(prompts.counts);
  gaps.beside_prompts = streams.counts.gaps;
  gaps.prompt_tokens_per_second =
      static_cast<double>(prompts.counts.requests) * options.prompt_tokens / seconds;
  return gaps;
}

}  // namespace

Findings run_closed(const Target& target, const Closed& options) {
  Poller poller(target);
  Streams streams(poller, options.streams, {.tokens = options.prompt_tokens, .generate = options.tokens});
  streams.run(poller, kWarmSeconds);
  clear(streams.counts);
  const auto start = Clock::now();
  streams.run(poller, options.seconds);
  const double seconds = since(start) * 1e-3;
  auto& counts = streams.counts;
  check(counts);
  Findings findings;
  findings.figures = {
      {"streams", options.streams},
      {"tokens_per_second", static_cast<double>(counts.events) * tokens_per_event(counts) / seconds},
      {"requests_per_second", static_cast<double>(counts.requests) / seconds},
      {"gap_ms", percentiles(counts.gaps)},
      {"first_token_ms", percentiles(counts.first_tokens)},
      {"refused", counts.refused}};
  findings.gaps.push_back(distribution(fmt::format("{} streams", options.streams), counts.gaps));
  return findings;
}

Findings run_open(const Target& target, const Open& options) {
  Poller poller(target);
  Streamer::Counts counts;
  std::mt19937_64 random(1);
  std::exponential_distribution<double> wait(options.rate);
  std::deque<std::unique_ptr<Streamer>> streamers;
  const auto start = Clock::now();
  std::uint64_t asked = 0;
  std::size_t most = 0;
  // Who arrives does not wait for those before: a connection that is free serves it, or a new one.
  for (double next = wait(random); next < options.seconds; next += wait(random), ++asked) {
    for (double left = 0; (left = next - since(start) * 1e-3) > 0;) poller.poll(left);
    auto free =
        std::find_if(streamers.begin(), streamers.end(), [](const auto& one) { return !one->busy(); });
    if (free == streamers.end()) {
      streamers.push_back(std::make_unique<Streamer>(poller, counts));
      free = streamers.end() - 1;
    }
    (*free)->start(completion_request({.tokens = options.prompt_tokens, .generate = options.tokens}, random),
                   {});
    most =
        std::max(most, static_cast<std::size_t>(std::count_if(streamers.begin(), streamers.end(),
                                                              [](const auto& one) { return one->busy(); })));
  }
  while (std::any_of(streamers.begin(), streamers.end(), [](const auto& one) { return one->busy(); }))
    poller.poll(0.05);
  check(counts);
  Findings findings;
  findings.figures = {{"rate", options.rate},
                      {"requests", asked},
                      {"refused", counts.refused},
                      {"most_at_once", most},
                      {"tokens_per_second", static_cast<double>(counts.tokens) / (since(start) * 1e-3)},
                      {"gap_ms", percentiles(counts.gaps)},
                      {"first_token_ms", percentiles(counts.first_tokens)},
                      {"total_ms", percentiles(counts.totals)}};
  findings.gaps.push_back(distribution(fmt::format("{} requests/s", options.rate), counts.gaps));
  return findings;
}

Findings run_disturbed(const Target& target, const Disturbed& options) {
  auto [alone, disturbed, prompt_tokens_per_second] = disturbed_gaps(target, options);
  auto machine = machine_pauses(options.seconds);
  Findings findings;
  findings.figures = {{"streams", options.streams},
                      {"gap_ms_alone", percentiles(alone)},
                      {"gap_ms_disturbed", percentiles(disturbed)},
                      {"largest_gap_over_median_alone", disturbed.at(1) / alone.at(0.5)},
                      {"p99_gap_over_median_alone", disturbed.at(0.99) / alone.at(0.5)},
                      {"prompt_tokens_per_second", prompt_tokens_per_second},
                      {"machine_pauses",
                       {{"largest_ms", machine.lengths.at(1)},
                        {"per_second", machine.per_second},
                        {"share_of_time", machine.share}}}};
  findings.gaps = {
      distribution("alone", alone),
      distribution(fmt::format("beside prompts of {} tokens", options.prompt_tokens), disturbed)};
  return findings;
}

Findings run_shared_prefix(const Target& target, const SharedPrefix& options) {
  Poller poller(target);
  std::mt19937_64 random(1);
  Samples first;
  Samples second;
  std::uint64_t cached = 0;
  for (std::uint32_t i = 0; i < options.repeats; ++i) {
    const Prompt prompt{.tokens = options.prefix + options.tail,
                        .generate = 1,
                        .shared = options.prefix,
                        .shared_seed = std::random_device()()};
    for (const auto samples : {&first, &second}) {
      Streamer::Counts counts;
      Streamer streamer(poller, counts);
      streamer.start(completion_request(prompt, random), {});
      while (streamer.busy()) poller.poll(1);
      check(counts);
      samples->add(counts.first_tokens.at(0.5));
      cached += counts.cached_tokens;
    }
  }
  return {.figures = {{"prefix_tokens", options.prefix},
                      {"first_token_ms_before", percentiles(first)},
                      {"first_token_ms_after", percentiles(second)},
                      {"ratio_of_medians", first.at(0.5) / second.at(0.5)},
                      {"cached_tokens_per_request", cached / options.repeats}},
          .gaps = {}};
}

Findings run_idle(const Target& target, const Idle& options) {
  Poller poller(target);
  Findings findings;
  findings.figures["connections"] = options.connections;
  const double before = options.process > 0 ? resident_megabytes(options.process) : 0;
  std::vector<std::unique_ptr<Connection>> idle;
  const auto ignore_event = [](std::string_view) {};
  for (std::uint32_t i = 0; i < options.connections; ++i) {
    // Idle, but known to the server: each has asked once.
    bool answered = false;
    idle.push_back(
        std::make_unique<Connection>(poller, ignore_event, [&](int, std::string_view) { answered = true; }));
    idle.back()->get("/health");
    while (!answered) poller.poll(1);
  }
  if (options.process > 0) findings.figures["megabytes"] = resident_megabytes(options.process) - before;

  Streams streams(poller, options.streams, {});
  streams.run(poller, kWarmSeconds);
  Samples health;
  bool answered = true;
  Clock::time_point asked;
  Connection asking(poller, ignore_event, [&](int status, std::string_view body) {
    if (status != 200) throw Error(fmt::format("/health: {}: {}", status, body));
    answered = true;
    health.add(since(asked));
  });
  const auto start = Clock::now();
  while (since(start) < options.seconds * 1e3) {
    if (answered && since(asked) > 10) {
      answered = false;
      asked = Clock::now();
      asking.get("/health");
    }
    poller.poll(0.005);
  }
  check(streams.counts);
  findings.figures["health_ms"] = percentiles(health);
  return findings;
}

}  // namespace inferno::load
