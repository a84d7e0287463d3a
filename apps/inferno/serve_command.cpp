#include <fmt/format.h>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <inferno/error.hpp>

#include "command.hpp"
#include "common/command_line.hpp"
#include "platform/log.hpp"
#include "serve_run.hpp"
#include "server/api/api.hpp"
#include "step/plan.hpp"

namespace inferno::cli {
namespace {

struct ServeCommandOptions {
  ServeSettings settings;
  std::string log_level = "info";
};

/// A time in seconds, given as a number of them.
CLI::Option* add_seconds(CLI::App& command, const char* name, std::chrono::milliseconds& time,
                         const std::string& what) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  return command
      .add_option_function<std::uint32_t>(
          name, [&time](std::uint32_t value) { time = std::chrono::seconds(value); }, what)
      ->check(CLI::Range(std::uint32_t{1}, std::uint32_t{86'400}))
      ->default_str(std::to_string(seconds));
}

void add_network(CLI::App& command, ServeSettings& settings) {
  const char* const group = "Network";
  auto& http = settings.http;
  command
      .add_option("--host", http.host, "address or name to listen on (0.0.0.0: all of IPv4, ::: everything)")
      ->transform([](const std::string& host) {  // [::1], as it stands in a URL
        return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
      })
      ->capture_default_str()
      ->check(check_not_empty)
      ->group(group);
  command.add_option("--port", http.port, "port (0: a free one)")
      ->capture_default_str()
      ->check(CLI::Range(0U, 65'535U))
      ->group(group);
  command
      .add_option("--api-key-file", settings.api_key_file,
                  "file with keys, one a line; requests then need Authorization: Bearer KEY")
      ->check(check_not_empty)
      ->group(group);
  command
      .add_option("--cors-origin", http.cors_origins,
                  "web pages of this origin may use the server; may be repeated; * for all, none for nobody "
                  "(default: * with --api-key-file, else none)")
      ->allow_extra_args(false)
      ->check(check_not_empty)
      ->group(group);
  command
      .add_option("--tls-cert", http.tls_certificate,
                  "certificate chain (PEM); with it the server speaks HTTPS")
      ->check(check_not_empty)
      ->group(group);
  command.add_option("--tls-key", http.tls_key, "the certificate's private key (PEM)")
      ->check(check_not_empty)
      ->group(group);
  command.add_option("--io-threads", http.threads, "threads that serve connections")
      ->capture_default_str()
      ->check(CLI::Range(1U, 64U))
      ->group(group);
  command.add_flag("--no-page", settings.no_page, "serve no web page")->group(group);
}

void add_limits(CLI::App& command, ServeSettings& settings) {
  const char* const group = "Limits (times in seconds)";
  auto& limits = settings.http.limits;
  command.add_option("--max-connections", limits.connections, "connections at once; more get 503")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}))
      ->group(group);
  command.add_option("--max-body", limits.body_bytes, "bytes of a request's body; more get 413")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 32U))
      ->group(group);
  command
      .add_option("--max-bodies", limits.bodies_bytes,
                  "bytes of the bodies of all requests at once; more get 503")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 40U))
      ->group(group);
  command.add_option("--max-header", limits.header_bytes, "bytes of a request's header; more get 431")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{256}, std::size_t{1} << 20U))
      ->group(group);
  add_seconds(command, "--header-timeout", limits.header_time, "for a request's header; longer gets 408")
      ->group(group);
  add_seconds(command, "--body-timeout", limits.body_time,
              "for its body, and one more per 64 KiB; longer gets 408")
      ->group(group);
  add_seconds(command, "--idle-timeout", limits.idle_time,
              "a connection without a request is closed after this")
      ->group(group);
  add_seconds(command, "--write-timeout", limits.write_time,
              "a client that takes nothing is cut off after this")
      ->group(group);
  add_seconds(command, "--stall-timeout", settings.engine.stall_timeout,
              "a paused request whose client does not read ends after this")
      ->group(group);
  command
      .add_option_function<std::uint32_t>(
          "--drain-timeout",
          [&settings](std::uint32_t value) { settings.drain_time = std::chrono::seconds(value); },
          "what is in progress at SIGTERM may take this long")
      ->check(CLI::Range(std::uint32_t{1}, std::uint32_t{86'400}))
      ->default_str(std::to_string(settings.drain_time.count()))
      ->group(group);
}

void add_engine(CLI::App& command, ServeSettings& settings) {
  const char* const group = "Engine";
  auto& engine = settings.engine;
  command.add_option("--backend", engine.backend, kBackendNames)->capture_default_str()->group(group);
  command.add_option("--device", engine.device, "device number of the backend (default: the best of them)")
      ->group(group);
  command.add_option("--threads", engine.threads, "CPU threads (0: what quota and affinity allow)")
      ->capture_default_str()
      ->group(group);
  command.add_option("--ctx", engine.context, "positions of a request (0: what the model was trained for)")
      ->capture_default_str()
      ->group(group);
  command.add_option("--kv-blocks", engine.kv_blocks, "cache blocks (0: room for all rows, at most 1 GiB)")
      ->capture_default_str()
      ->group(group);
  command.add_option("--block-size", engine.block_size, "positions in a cache block")
      ->capture_default_str()
      ->group(group);
  command.add_option("--max-rows", engine.max_rows, "requests that run at once")
      ->capture_default_str()
      ->check(CLI::Range(1U, 65'536U))
      ->group(group);
  command.add_option("--max-queue", engine.max_queue, "requests that wait beside those; more get 429")
      ->capture_default_str()
      ->group(group);
  command.add_option("--step-tokens", engine.step_tokens, "most tokens of a step, prompts included")
      ->capture_default_str()
      ->group(group);
  command
      .add_option(
          "--step-stretch", engine.step_stretch,
          "while requests stream, prompts make a step at most about this many times longer (0: no bound)")
      ->capture_default_str()
      ->group(group);
  command.add_flag("--no-prefix-cache", settings.no_prefix_cache, "compute every prompt from its beginning")
      ->group(group);
}

/// What depends on several flags, or is no plain range; by the flags' names.
void check_flags(const ServeSettings& settings) {
  const auto& http = settings.http;
  const auto& engine = settings.engine;
  if (http.tls_certificate.empty() != http.tls_key.empty()) {
    throw UsageError("--tls-cert and --tls-key belong together; only one of them is given");
  }
  if (engine.step_tokens < engine.max_rows) {
    throw UsageError(fmt::format(
        "--step-tokens: expected at least {}, as many as requests run at once (--max-rows), found {}",
        engine.max_rows, engine.step_tokens));
  }
  if (!(engine.step_stretch == 0 || engine.step_stretch >= 1)) {
    throw UsageError(
        fmt::format("--step-stretch: expected 0 or a number from 1 on, found {}", engine.step_stretch));
  }
  if (engine.block_size == 0 || kSplitPositions % engine.block_size != 0) {
    throw UsageError(
        fmt::format("--block-size: expected a divisor of {}, found {}", kSplitPositions, engine.block_size));
  }
  try {
    api::check_model_names(settings.names);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--alias: {}", error.what()));
  }
}

}  // namespace

void add_serve(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("serve", "serve an OpenAI-compatible API and a chat page over HTTP");
  const auto options = std::make_shared<ServeCommandOptions>();
  auto& settings = options->settings;
  settings.model.add_to(*command);
  settings.chat_template.add_to(*command);
  command
      ->add_option("--alias,--served-model-name", settings.names,
                   "the model's name in the API; may be repeated for further names (default: the file's)")
      ->allow_extra_args(false)
      ->check(check_not_empty);
  command->add_option("--pooling", settings.pooling, "what /v1/embeddings makes of tokens: mean or last")
      ->check(CLI::IsMember({"mean", "last"}))
      ->capture_default_str();
  command->add_option("--log-level", options->log_level, "trace debug info warn error off; requests are info")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  add_network(*command, settings);
  add_limits(*command, settings);
  add_engine(*command, settings);
  set_examples(*command,
               "  inferno serve\n"
               "  inferno serve -m Qwen3-0.6B-Q8_0.gguf --host 0.0.0.0 --api-key-file keys.txt\n"
               "  curl http://127.0.0.1:8080/v1/chat/completions -H \"Content-Type: application/json\" \\\n"
               "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello!\"}]}'");
  command->callback([&action, options] {
    action = [options] {
      check_flags(options->settings);
      // A handshake is what comes before the first header.
      options->settings.http.limits.handshake_time = options->settings.http.limits.header_time;
      log().set_level(spdlog::level::from_str(options->log_level));
      return serve(options->settings);
    };
  });
}

}  // namespace inferno::cli
