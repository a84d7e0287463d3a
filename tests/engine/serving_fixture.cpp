#include "engine/serving_fixture.hpp"

#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "engine/model_parts.hpp"
#include "support/scripted_model.hpp"
#include "support/temporary_folder.hpp"
#include "synth/byte_vocabulary.hpp"
#include "synth/synth.hpp"

namespace inferno::test {
namespace {

constexpr std::chrono::seconds kPatience{60};

class ControlledExecutor : public ForwardingExecutor {
 public:
  ControlledExecutor(std::unique_ptr<Executor> inner, std::shared_ptr<Controls> controls)
      : ForwardingExecutor(std::move(inner)), controls_(std::move(controls)) {}

  Ticket submit(const StepBatch& batch, const SubmitOptions& options) override {
    if (controls_->before_submit) controls_->before_submit(batch);
    batch_ = batch;
    return ForwardingExecutor::submit(batch, options);
  }
  StepResult wait(Ticket ticket) override {
    if (controls_->before_wait) controls_->before_wait(batch_);
    auto result = ForwardingExecutor::wait(ticket);
    if (controls_->change_result) controls_->change_result(result);
    return result;
  }

 private:
  std::shared_ptr<Controls> controls_;
  StepBatch batch_;
};

}  // namespace

void PrintTo(const Answer& answer, std::ostream* out) {
  *out << request_end_name(answer.end) << ' ' << answer.outcome.error << " [" << answer.text << "]";
  for (const auto id : answer.ids) *out << ' ' << id;
}

bool add_update(Answer& answer, StreamUpdate& update) {
  for (const auto& event : update.prompt) answer.prompt_logprobs.push_back(event.logprob);
  for (const auto& event : update.tokens) {
    answer.ids.push_back(event.id);
    answer.text += event.text;
    if (!event.text.empty()) answer.pieces.push_back(event.text);
    answer.logprobs.push_back(event.logprob);
    auto& ids = answer.top_ids.emplace_back();
    auto& logprobs = answer.top_logprobs.emplace_back();
    for (const auto& top : event.top) {
      ids.push_back(top.id);
      logprobs.push_back(top.logprob);
    }
  }
  if (!update.embedding.empty()) answer.embedding = update.embedding;
  if (!update.outcome) return false;
  answer.outcome = *update.outcome;
  answer.end = update.outcome->end;
  answer.text += update.outcome->text;
  if (!update.outcome->text.empty()) answer.pieces.push_back(update.outcome->text);
  return true;
}

Answer read_all(RequestStream& stream) {
  Answer answer;
  StreamUpdate update;
  do {
    if (stream.wait(update, kPatience)) continue;
    ADD_FAILURE() << "request " << stream.id() << " is silent after " << answer.ids.size() << " tokens";
    return answer;
  } while (!add_update(answer, update));
  return answer;
}

std::vector<Answer> read_all(std::vector<RequestStream>& streams) {
  std::vector<Answer> answers;
  for (auto& stream : streams) answers.push_back(read_all(stream));
  return answers;
}

Answer read_tokens(RequestStream& stream, std::size_t count) {
  Answer answer;
  StreamUpdate update;
  while (answer.ids.size() < count) {
    if (!stream.wait(update, kPatience)) {
      ADD_FAILURE() << "request " << stream.id() << " is silent";
      break;
    }
    if (add_update(answer, update)) break;
  }
  return answer;
}

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

ServingMetrics settled(const ServingEngine& engine) {
  EXPECT_TRUE(eventually([&] {
    const auto metrics = engine.metrics();
    return std::accumulate(metrics.ended.begin(), metrics.ended.end(), std::uint64_t{0}) == metrics.submitted;
  }));
  return engine.metrics();
}

const Model& tale() {
  static const Model model = Model::load(Model::default_path());
  return model;
}

const Model& tiny() {
  static const Model model = [] {
    const TemporaryFolder folder;
    SynthOptions options;
    options.preset = "tiny";
    options.seed = 3;
    options.threads = 1;
    synthesize(options, folder / "tiny.gguf");
    return Model::load(folder / "tiny.gguf", false);
  }();
  return model;
}

Model scripted(const std::vector<std::vector<TokenId>>& chains) {
  const TemporaryFolder folder;
  ScriptedModel script;
  script.chains = chains;
  script.vocab_size = 300;
  script.vocabulary = byte_vocabulary();
  script.write(folder / "scripted.gguf");
  return Model::load(folder / "scripted.gguf", false);
}

std::vector<TokenId> tiny_prompt(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> ids(count);
  for (auto& id : ids) id = static_cast<TokenId>(random() % 200);
  return ids;
}

ServingOptions small(std::uint32_t context) {
  ServingOptions options;
  options.backend = "pool";
  options.threads = 1;
  options.context = context;
  options.max_rows = 8;
  options.step_tokens = 64;
  return options;
}

ServingRequest asking(std::size_t prompt, std::uint32_t tokens, std::uint64_t seed) {
  ServingRequest request;
  request.prompt_ids = tiny_prompt(prompt, seed);
  request.max_tokens = tokens;
  request.ignore_end_tokens = true;
  return request;
}

std::unique_ptr<Executor> controlled(const Model& model, const std::shared_ptr<Controls>& controls,
                                     std::string_view backend) {
  return std::make_unique<ControlledExecutor>(create_executor(backend, model.parts().loaded), controls);
}

}  // namespace inferno::test
