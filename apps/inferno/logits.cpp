#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "backend/registry.hpp"
#include "command.hpp"
#include "common/command_line.hpp"
#include "common/options.hpp"
#include "engine/logits_hash.hpp"
#include "engine/model_parts.hpp"
#include "engine/prompt.hpp"
#include "kv/sequence_cache.hpp"
#include "model/training_length.hpp"
#include "npy.hpp"
#include "platform/terminal.hpp"
#include "step/plan.hpp"

namespace inferno::cli {
namespace {

constexpr std::uint32_t kBlockSize = kSplitPositions;

struct LogitsOptions {
  ModelOption model;
  EngineOptions engine;
  std::string ids;
  std::string prompt;
  std::string out;
  std::uint32_t chunk = 512;
  bool all = false;
  bool json = false;
};

/// Writes each position's logits as they come.
class RowWriter : public OutputSink {
 public:
  explicit RowWriter(NpyWriter& file) : file_(file) {}
  void take(std::uint32_t /*output*/, std::uint32_t /*step*/, std::span<const float> values) override {
    file_.append(values);
    hash_.add(values);
  }
  std::string hash() const { return hash_.hex(); }

 private:
  NpyWriter& file_;
  LogitsHash hash_;
};

std::vector<std::int32_t> prompt_ids(const LogitsOptions& options, const Model& model) {
  if (options.ids.empty() && options.prompt.empty()) {
    throw UsageError("there is no token to compute logits for; give --ids 1,2,3 or -p TEXT");
  }
  auto ids = parse_ids(options.ids);
  check_ids(ids, model.vocab_size());
  // As `generate` does: with what the model wants before a text.
  const TextSpan text{.text = options.prompt, .trusted = true};
  ids = make_prompt(model.parts().tokenizer, model.vocab_size(), std::move(ids), {&text, 1});
  const auto limit = options.engine.context != 0 ? options.engine.context : model.context_length();
  if (ids.size() > limit) {
    throw UsageError(
        fmt::format("{} tokens were given, the context holds {}; raise --ctx", ids.size(), limit));
  }
  warn_beyond_training(model.parts().loaded.config, ids.size());
  return ids;
}

/// What an executor needs for so many ids: without a cache it is given all of them at once.
Limits limits_for(const LogitsOptions& options, std::uint32_t total) {
  const auto chunk = std::min(options.chunk, total);
  Limits limits;
  limits.blocks = (total + kBlockSize - 1) / kBlockSize;
  limits.block_size = kBlockSize;
  limits.max_context = limits.blocks * kBlockSize;
  limits.max_tokens = parse_kv_kind(options.engine.kv) == KvKind::none ? total : chunk;
  limits.max_outputs = chunk;
  return limits;
}

/// Feeds the ids in chunks, without a cache each with all before it again; `sink` takes the logits of the
/// last position, or of all.
void run(Executor& executor, const LogitsOptions& options, const std::vector<std::int32_t>& ids,
         OutputSink& sink) {
  const auto total = static_cast<std::uint32_t>(ids.size());
  const auto chunk = std::min(options.chunk, total);
  BlockPool pool(executor.limits().blocks);
  SequenceCache cache(pool, parse_kv_kind(options.engine.kv), kBlockSize, executor.limits().max_context);
  cache.extend(total);
  ProgressLine progress("computing logits");
  for (std::uint32_t first = 0; first < total; first += chunk) {
    const auto count = std::min(chunk, total - first);
    const auto begin = cache.length();
    std::vector<TokenInput> inputs(first + count - begin);
    for (std::uint32_t i = 0; i < inputs.size(); ++i) inputs[i] = TokenInput::of(ids[begin + i]);
    StepBatch batch;
    batch.add_row(inputs, begin, cache.blocks());
    for (auto position = first; position < first + count; ++position) {
      if (options.all || position + 1 == total) batch.add_output_at(position - begin, OutputKind::logits);
    }
    SubmitOptions submit;
    submit.sink = &sink;
    const auto result = executor.wait(executor.submit(batch, submit));
    if (result.status[0] == RowStatus::failed) {
      throw Error(fmt::format("{} failed: {}", executor.capabilities().backend, result.errors[0]));
    }
    cache.advance(first + count);
    progress.update(first + count, total);
  }
}

int write_logits(const LogitsOptions& options) {
  if (options.chunk == 0) throw UsageError("--chunk is 0; expected at least 1 token");
  const auto model = options.model.load();
  const auto ids = prompt_ids(options, model);
  std::vector<std::uint64_t> shape = {model.vocab_size()};
  if (options.all) shape.insert(shape.begin(), ids.size());
  NpyWriter file(options.out, shape);
  const Limits limits = limits_for(options, static_cast<std::uint32_t>(ids.size()));
  BackendChoice choice(options.engine.backend, model.parts().loaded,
                       {.device = options.engine.device, .threads = options.engine.threads});
  auto executor = choice.next();
  use_or_replace(choice, executor, [&limits](Executor& candidate) { candidate.reserve(limits); });
  RowWriter sink(file);
  run(*executor, options, ids, sink);
  file.commit();
  if (options.json) {
    const nlohmann::ordered_json report = {{"out", options.out},
                                           {"shape", shape},
                                           {"backend", executor->capabilities().backend},
                                           {"ids", ids},
                                           {"logits_hash", sink.hash()}};
    fmt::print("{}\n", report.dump(2));
  } else {
    fmt::print(stderr, "{} position{} of {} logits written to {}, hash {}\n", options.all ? ids.size() : 1,
               options.all && ids.size() != 1 ? "s" : "", model.vocab_size(), options.out, sink.hash());
  }
  return 0;
}

}  // namespace

void add_logits(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("logits", "write the logits of a prompt to a .npy file (float32)");
  const auto options = std::make_shared<LogitsOptions>();
  options->model.add_to(*command);
  auto* ids = command->add_option("--ids", options->ids, "token ids, 1,2,3");
  command->add_option("-p,--prompt", options->prompt, "text instead of ids")->excludes(ids);
  command->add_option("--out", options->out, "file to write")->required()->check(check_not_empty);
  command->add_flag("--all", options->all, "every position, [T, V], instead of the last, [V]");
  command->add_option("--chunk", options->chunk, "prompt tokens fed at a time")->capture_default_str();
  command->add_option("--backend", options->engine.backend, "see `inferno backends`")->capture_default_str();
  command->add_option("--device", options->engine.device, "device number of the backend (default: the best)");
  command->add_option("--threads", options->engine.threads, "CPU threads (0: what quota and affinity allow)")
      ->capture_default_str();
  command->add_option("--kv", options->engine.kv, "key/value cache: none, basic (contiguous) or paged")
      ->capture_default_str();
  command->add_option("--ctx", options->engine.context, "most positions (0: the model's context)")
      ->capture_default_str();
  command->add_flag("--json", options->json, "print what was written as JSON");
  add_verbose(*command);
  set_examples(*command,
               "  inferno logits --ids 466,470,258,412 --out logits.npy\n"
               "  inferno logits -p \"Once upon a time\" --all --chunk 16 --out logits.npy");
  command->callback([&action, options] { action = [options] { return write_logits(*options); }; });
}

}  // namespace inferno::cli
