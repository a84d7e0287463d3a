// Load on the serving engine without a network: N streams at a time, each of whose requests is followed by
// the next when it ends. Prints tokens per second, and the gaps between tokens of a stream as percentiles.
//
//     bench_serving [--model FILE] [--streams 1,8,64] [--tokens 128] [--seconds 5] [--prompt TOKENS]
//                   [--disturb TOKENS]
//
// --disturb keeps a prompt of so many tokens, a new one each time, running beside the streams.

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <fmt/format.h>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/serving_engine.hpp"

namespace {

using namespace inferno;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string model = Model::default_path();
  std::vector<std::uint32_t> streams = {1, 8, 64};
  std::uint32_t tokens = 128;
  std::uint32_t seconds = 5;
  std::uint32_t prompt = 8;
  std::uint32_t disturb = 0;
};

std::uint32_t number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw UsageError(fmt::format("expected a number, found {}", text));
  return value;
}

Options parse(const std::vector<std::string_view>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    if (i + 1 == arguments.size()) throw UsageError(fmt::format("{} needs a value", arguments[i]));
    const auto value = arguments[i + 1];
    if (arguments[i] == "--model") {
      options.model = value;
    } else if (arguments[i] == "--streams") {
      options.streams.clear();
      for (std::size_t at = 0; at <= value.size();) {
        const auto comma = std::min(value.find(',', at), value.size());
        options.streams.push_back(number(value.substr(at, comma - at)));
        at = comma + 1;
      }
    } else if (arguments[i] == "--tokens") {
      options.tokens = number(value);
    } else if (arguments[i] == "--seconds") {
      options.seconds = number(value);
    } else if (arguments[i] == "--prompt") {
      options.prompt = number(value);
    } else if (arguments[i] == "--disturb") {
      options.disturb = number(value);
    } else {
      throw UsageError(fmt::format("unknown option {}", arguments[i]));
    }
  }
  return options;
}

/// Which streams have something to be taken.
class Bell {
 public:
  void ring(std::size_t stream) {
    {
      const std::lock_guard lock(mutex_);
      rung_.push_back(stream);
    }
    changed_.notify_one();
  }
  void wait(std::vector<std::size_t>& streams) {
    streams.clear();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !rung_.empty(); });
    std::swap(streams, rung_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::size_t> rung_;
};

class Load {
 public:
  Load(ServingEngine& engine, const Options& options, std::uint32_t streams)
      : engine_(engine),
        options_(options),
        streams_(streams + (options.disturb > 0 ? 1 : 0)),
        last_(streams_.size()) {}

  void run() {
    for (std::size_t i = 0; i < streams_.size(); ++i) start(i);
    const auto warm = Clock::now() + std::chrono::seconds(1);
    const auto end = warm + std::chrono::seconds(options_.seconds);
    Clock::time_point begin;
    ServingMetrics before;
    std::vector<std::size_t> ready;
    StreamUpdate update;
    for (auto now = Clock::now(); now < end; now = Clock::now()) {
      if (begin == Clock::time_point() && now >= warm) {
        begin = now;
        before = engine_.metrics();
        gaps_.clear();
        tokens_ = 0;
      }
      bell_.wait(ready);
      for (const auto stream : ready) take(stream, update);
    }
    report(std::chrono::duration<double>(Clock::now() - begin).count(), before);
  }

 private:
  bool disturbs(std::size_t stream) const { return options_.disturb > 0 && stream + 1 == streams_.size(); }

  void start(std::size_t stream) {
    ServingRequest request;
    request.prompt_ids.resize(disturbs(stream) ? options_.disturb : options_.prompt);
    for (auto& id : request.prompt_ids) id = static_cast<TokenId>(random_() % 256);
    request.max_tokens = disturbs(stream) ? 1 : options_.tokens;
    request.ignore_end_tokens = true;
    request.notify = [this, stream] { bell_.ring(stream); };
    streams_[stream] = engine_.submit(std::move(request));
    last_[stream] = Clock::time_point();
  }

  void take(std::size_t stream, StreamUpdate& update) {
    if (!streams_[stream].take(update)) return;
    const auto now = Clock::now();
    if (!update.tokens.empty() && !disturbs(stream)) {
      if (last_[stream] != Clock::time_point()) {
        gaps_.push_back(std::chrono::duration<double, std::milli>(now - last_[stream]).count());
      }
      last_[stream] = now;
      tokens_ += update.tokens.size();
    }
    if (update.outcome) start(stream);
  }

  void report(double seconds, const ServingMetrics& before) {
    std::sort(gaps_.begin(), gaps_.end());
    const auto at = [this](double share) {
      return gaps_.empty() ? 0.0
                           : gaps_[static_cast<std::size_t>(share * static_cast<double>(gaps_.size() - 1))];
    };
    const auto after = engine_.metrics();
    const auto steps = static_cast<double>(std::max<std::uint64_t>(after.steps - before.steps, 1));
    fmt::print(
        "{:4} streams: {:8.0f} tokens/s; gap ms: median {:.2f}, p99 {:.2f}, max {:.2f}; step {:.0f} us in "
        "the "
        "executor + {:.1f} us outside; {:.1f} rows; prompts {:.0f} tokens/s\n",
        streams_.size() - (options_.disturb > 0 ? 1 : 0), static_cast<double>(tokens_) / seconds, at(0.5),
        at(0.99), at(1.0), static_cast<double>(after.step_microseconds - before.step_microseconds) / steps,
        static_cast<double>(after.host_microseconds - before.host_microseconds) / steps,
        static_cast<double>(after.rows - before.rows) / steps,
        static_cast<double>(after.prefilled_tokens - before.prefilled_tokens) / seconds);
  }

  ServingEngine& engine_;
  const Options& options_;
  Bell bell_;
  std::vector<RequestStream> streams_;
  std::vector<Clock::time_point> last_;
  std::vector<double> gaps_;
  std::uint64_t tokens_ = 0;
  std::mt19937 random_{1};
};

}  // namespace

int main(int count, char** arguments) {
  try {
    const auto options = parse({arguments + 1, arguments + count});
    const auto model = Model::load(options.model);
    for (const auto streams : options.streams) {
      ServingOptions serving;
      serving.max_rows = std::max(streams + 1, 64U);
      ServingEngine engine(model, serving);
      Load load(engine, options, streams);
      load.run();
      engine.stop();
    }
    return 0;
  } catch (const UsageError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
