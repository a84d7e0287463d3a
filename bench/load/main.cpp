// Load on a running server, by HTTP, as its clients make it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <inferno/error.hpp>

#include "plot.hpp"
#include "scenarios.hpp"

namespace {

using namespace inferno;
using namespace inferno::load;

constexpr const char* kAbout = R"(Measures a server of OpenAI's API under load.

  inferno serve --port 8080 &
  bench_load closed --streams 1,8,64 --plot gaps.svg
  bench_load open --rate 5,10,20
  bench_load disturbed
  bench_load prefix
  bench_load idle --process $(pidof inferno))";

int run(int count, char** arguments) {
  CLI::App app(kAbout);
  std::string url = "http://127.0.0.1:8080";
  std::string plot;
  app.add_option("--url", url, "the server")->capture_default_str();
  app.add_option("--plot", plot, "draw how long the gaps between tokens were, as SVG, into this file");
  app.require_subcommand(1);
  app.fallthrough();

  Closed closed;
  std::vector<std::uint32_t> streams = {1, 8, 64};
  auto* closed_command =
      app.add_subcommand("closed", "so many streams at a time, one request after the other");
  closed_command->add_option("--streams", streams, "numbers of streams")
      ->delimiter(',')
      ->capture_default_str();
  closed_command->add_option("--prompt", closed.prompt_tokens, "tokens of a prompt")->capture_default_str();
  closed_command->add_option("--tokens", closed.tokens, "tokens to generate")->capture_default_str();
  closed_command->add_option("--seconds", closed.seconds, "for how long")->capture_default_str();

  Open open;
  std::vector<double> rates = {5, 10, 20};
  auto* open_command = app.add_subcommand("open", "requests at random times, however many are unanswered");
  open_command->add_option("--rate", rates, "requests per second, on average")
      ->delimiter(',')
      ->capture_default_str();
  open_command->add_option("--prompt", open.prompt_tokens, "tokens of a prompt")->capture_default_str();
  open_command->add_option("--tokens", open.tokens, "tokens to generate")->capture_default_str();
  open_command->add_option("--seconds", open.seconds, "for how long")->capture_default_str();

  Disturbed disturbed;
  auto* disturbed_command =
      app.add_subcommand("disturbed", "streams alone, then while long prompts keep arriving");
  disturbed_command->add_option("--streams", disturbed.streams, "streams")->capture_default_str();
  disturbed_command->add_option("--prompt", disturbed.prompt_tokens, "tokens of the long prompts")
      ->capture_default_str();
  disturbed_command->add_option("--seconds", disturbed.seconds, "for how long, each")->capture_default_str();

  SharedPrefix prefix;
  auto* prefix_command =
      app.add_subcommand("prefix", "time to the first token without and with a cached beginning");
  prefix_command->add_option("--prefix", prefix.prefix, "tokens of the shared beginning")
      ->capture_default_str();
  prefix_command->add_option("--repeats", prefix.repeats, "pairs of requests")->capture_default_str();

  Idle idle;
  auto* idle_command = app.add_subcommand("idle", "what idle connections cost, and /health under load");
  idle_command->add_option("--connections", idle.connections, "idle connections")->capture_default_str();
  idle_command->add_option("--streams", idle.streams, "streams that keep the server busy")
      ->capture_default_str();
  idle_command->add_option("--seconds", idle.seconds, "for how long")->capture_default_str();
  idle_command->add_option("--process", idle.process, "the server's process id, to read its memory");

  CLI11_PARSE(app, count, arguments);
  const auto target = parse_url(url);
  std::vector<Series> gaps;
  const auto show = [&gaps](const Findings& findings) {
    fmt::print("{}\n", findings.figures.dump());
    std::fflush(stdout);
    gaps.insert(gaps.end(), findings.gaps.begin(), findings.gaps.end());
  };
  if (closed_command->parsed()) {
    for (const auto number : streams) {
      closed.streams = number;
      show(run_closed(target, closed));
    }
  }
  if (open_command->parsed()) {
    for (const auto rate : rates) {
      open.rate = rate;
      show(run_open(target, open));
    }
  }
  if (disturbed_command->parsed()) show(run_disturbed(target, disturbed));
  if (prefix_command->parsed()) show(run_shared_prefix(target, prefix));
  if (idle_command->parsed()) show(run_idle(target, idle));
  if (!plot.empty()) plot_gaps(gaps, plot);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const UsageError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
