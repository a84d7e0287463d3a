#include "server/service/metrics_text.hpp"

#include <fstream>
#include <limits>
#include <prometheus/text_serializer.h>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace inferno::service {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr std::array<RequestEnd, 6> kEnds = {RequestEnd::stop,    RequestEnd::length,   RequestEnd::cancelled,
                                             RequestEnd::stalled, RequestEnd::shutdown, RequestEnd::failed};

/// Families in the order in which they are added.
class Families {
 public:
  template <typename Number>
  void gauge(const char* name, const char* help, Number value, Labels labels = {}) {
    auto& metric = add(name, help, MetricType::Gauge, std::move(labels));
    metric.gauge.value = static_cast<double>(value);
  }

  template <typename Number>
  void counter(const char* name, const char* help, Number value, Labels labels = {}) {
    auto& metric = add(name, help, MetricType::Counter, std::move(labels));
    metric.counter.value = static_cast<double>(value);
  }

  void histogram(const char* name, const char* help, const LatencyHistogram& values) {
    auto& histogram = add(name, help, MetricType::Histogram, {}).histogram;
    for (std::size_t i = 0; i < values.counts().size(); ++i) {
      histogram.sample_count += values.counts()[i];
      const bool is_last = i == LatencyHistogram::kBounds.size();
      histogram.bucket.push_back({.cumulative_count = histogram.sample_count,
                                  .upper_bound = is_last ? std::numeric_limits<double>::infinity()
                                                         : LatencyHistogram::kBounds.at(i)});
    }
    histogram.sample_sum = values.seconds();
  }

  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  ClientMetric& add(const char* name, const char* help, MetricType type, Labels labels) {
    if (families_.empty() || families_.back().name != name) {
      families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
    }
    auto& metric = families_.back().metric.emplace_back();
    metric.label = std::move(labels);
    return metric;
  }

  std::vector<MetricFamily> families_;
};

void add_requests(Families& families, const ServingMetrics& engine) {
  families.gauge("inferno_requests_running", "Sequences that take part in steps.", engine.running);
  families.gauge("inferno_requests_decoding", "Running sequences whose prompt is done.", engine.decoding);
  families.gauge("inferno_requests_queued", "Sequences that have not started yet.", engine.queued);
  families.gauge("inferno_requests_paused", "Sequences that lost their cache blocks and wait to go on.",
                 engine.paused);
  families.gauge("inferno_requests_stalled", "Sequences that wait for a client that does not read.",
                 engine.stalled);
  families.gauge("inferno_requests_running_limit", "Most sequences that take part in steps.",
                 engine.max_rows);
  families.gauge("inferno_requests_queued_limit", "Most sequences that wait; beyond it requests get 429.",
                 engine.max_queue);
  families.counter("inferno_requests_total",
                   "Sequences that the engine took in: one for each choice of each prompt, candidates of "
                   "best_of included, and for each embedding input.",
                   engine.submitted);
  for (const auto end : kEnds) {
    families.counter("inferno_requests_ended_total", "Sequences that are over, by the reason.",
                     engine.ended.at(static_cast<std::size_t>(end)),
                     {{.name = "reason", .value = std::string(request_end_name(end))}});
  }
  families.counter("inferno_request_pauses_total",
                   "Times that a sequence was paused because the cache was full.", engine.pauses);
  families.counter("inferno_request_stalls_total",
                   "Times that a sequence was paused because its client did not read.", engine.stalls);
}

void add_tokens(Families& families, const ServingMetrics& engine) {
  families.counter("inferno_prompt_tokens_total",
                   "Prompt tokens of sequences that started; each choice of a prompt counts it anew.",
                   engine.prompt_tokens);
  families.counter("inferno_cached_prompt_tokens_total", "Of those, the ones that the prefix cache had.",
                   engine.cached_prompt_tokens);
  families.counter("inferno_prefilled_tokens_total",
                   "Tokens of prompts that were run, and tokens that were run again after a pause.",
                   engine.prefilled_tokens);
  families.counter("inferno_recomputed_tokens_total", "Of those, the ones that were run again.",
                   engine.recomputed_tokens);
  families.counter("inferno_generated_tokens_total", "Tokens that were generated.", engine.generated_tokens);
}

void add_cache(Families& families, const ServingMetrics& engine) {
  constexpr const char* kHelp = "Blocks of the key/value cache by what they hold.";
  families.gauge("inferno_kv_blocks", kHelp, engine.blocks_in_use, {{.name = "state", .value = "in_use"}});
  families.gauge("inferno_kv_blocks", kHelp, engine.blocks_cached, {{.name = "state", .value = "cached"}});
  families.gauge("inferno_kv_blocks", kHelp, engine.blocks_free, {{.name = "state", .value = "free"}});
  families.gauge("inferno_kv_blocks_limit", "Blocks of the key/value cache.", engine.blocks_total);
  families.gauge("inferno_kv_block_tokens", "Positions in a block.", engine.block_size);
  families.gauge("inferno_kv_cache_usage_ratio", "Share of the blocks that running sequences use.",
                 engine.blocks_total == 0 ? 0.0 : double{1} * engine.blocks_in_use / engine.blocks_total);
  families.counter("inferno_prefix_cache_hits_total", "Full blocks of prompts that the prefix cache had.",
                   engine.cache_hits);
  families.counter("inferno_prefix_cache_misses_total", "Full blocks of prompts that it did not have.",
                   engine.cache_misses);
  families.counter("inferno_prefix_cache_evictions_total", "Cached blocks that were given to somebody else.",
                   engine.evictions);
}

void add_steps(Families& families, const ServingMetrics& engine) {
  families.gauge("inferno_batch_rows", "Sequences in the latest step.", engine.batch_rows);
  families.gauge("inferno_batch_tokens", "Tokens in the latest step.", engine.batch_tokens);
  families.counter("inferno_steps_total", "Steps.", engine.steps);
  families.counter("inferno_step_rows_total", "Sequences in all steps together.", engine.rows);
  families.counter("inferno_step_seconds_total", "Time in steps.",
                   static_cast<double>(engine.step_microseconds) / 1e6);
  families.counter("inferno_host_seconds_total", "Time between steps while there was work.",
                   static_cast<double>(engine.host_microseconds) / 1e6);
  families.counter("inferno_failovers_total", "Executors that were lost and replaced.", engine.failovers);
  families.gauge("inferno_context_limit_tokens", "Most tokens of prompt and completion together.",
                 engine.context_limit);
  families.histogram("inferno_time_to_first_token_seconds", "From a sequence's request to its first token.",
                     engine.first_token_time);
  families.histogram("inferno_time_between_tokens_seconds", "Between two tokens of one sequence.",
                     engine.between_tokens_time);
  families.histogram("inferno_request_queue_time_seconds",
                     "From a sequence's request to the first step that it takes part in.", engine.queue_time);
  families.histogram("inferno_e2e_request_latency_seconds", "From a sequence's request to its end.",
                     engine.total_time);
}

void add_http(Families& families, const Figures& figures) {
  const auto& http = figures.http;
  families.gauge("inferno_http_connections", "Open connections.", http.connections);
  families.gauge("inferno_http_requests_active", "HTTP requests that are being answered.",
                 http.requests_active);
  families.counter("inferno_http_connections_total", "Connections that were accepted.", http.accepted);
  families.counter("inferno_http_connections_refused_total", "Connections beyond the limit.", http.refused);
  const auto refused = figures.answers.find(429);
  families.counter("inferno_requests_refused_total",
                   "HTTP requests answered 429 because too many were waiting.",
                   refused == figures.answers.end() ? 0 : refused->second);
  families.counter("inferno_http_timeouts_total", "Connections that were closed for being slow.",
                   http.timeouts);
  families.counter("inferno_http_sent_bytes_total", "Bytes sent, with headers.", http.bytes_sent);
  for (const auto& [status, count] : figures.answers) {
    families.counter(
        "inferno_http_requests_total",
        "HTTP requests by the status of their answer; 499: the client left before it was complete.", count,
        {{.name = "code", .value = std::to_string(status)}});
  }
}

void add_process(Families& families, double start_time) {
  std::size_t total = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  families.gauge("process_resident_memory_bytes", "Memory of the process in RAM.",
                 resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  families.gauge("process_start_time_seconds", "When the process began, in seconds since 1970.", start_time);
}

}  // namespace

std::string metrics_text(const Figures& figures) {
  Families families;
  const auto* const engine = figures.engine;
  families.gauge("inferno_info", "What is served, by what; always 1.", 1,
                 {{.name = "model", .value = figures.model},
                  {.name = "backend", .value = engine == nullptr ? "" : engine->backend},
                  {.name = "device", .value = engine == nullptr ? "" : engine->device},
                  {.name = "version", .value = figures.version}});
  families.gauge("inferno_ready", "Whether requests are accepted.",
                 engine != nullptr && engine->broken.empty() ? 1 : 0);
  if (engine != nullptr) {
    add_requests(families, *engine);
    add_tokens(families, *engine);
    add_cache(families, *engine);
    add_steps(families, *engine);
  }
  add_http(families, figures);
  add_process(families, figures.start_time);
  return families.text();
}

}  // namespace inferno::service
