#include "conformance/conformance.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace inferno::conformance {

namespace {

// Loaded at the first use, once for all tests of the program.
class LazyModel {
 public:
  explicit LazyModel(std::string file) : file_(std::move(file)) {}
  const LoadedModel& get() {
    if (!model_)
      model_ = std::make_unique<LoadedModel>(std::filesystem::path(INFERNO_TEST_DATA) / "golden" / file_);
    return *model_;
  }

 private:
  std::string file_;
  std::unique_ptr<LoadedModel> model_;
};

std::uint64_t next_random(std::uint64_t& state) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return state >> 33;
}

}  // namespace

std::vector<ExecutorUnderTest> on_small_models(
    const std::function<std::unique_ptr<Executor>(const LoadedModel&)>& make) {
  std::vector<ExecutorUnderTest> list;
  for (const std::string name : {"odd-mqa-q8_0", "odd-tied-f16", "odd-group3-f32"}) {
    auto model = std::make_shared<LazyModel>(name + ".gguf");
    std::string identifier = name;
    std::replace(identifier.begin(), identifier.end(), '-', '_');
    list.push_back({identifier, [model]() -> const ModelConfig& { return model->get().config; },
                    [model, make] { return make(model->get()); }});
  }
  return list;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

std::ostream& operator<<(std::ostream& stream, const ExecutorUnderTest& tested) {
  return stream << tested.name;
}

bool operator==(const Transcript& a, const Transcript& b) {
  return a.ids == b.ids && same_bits(a.logits, b.logits);
}

std::ostream& operator<<(std::ostream& stream, const Transcript& transcript) {
  stream << "ids";
  for (const std::int32_t id : transcript.ids) stream << ' ' << id;
  const std::size_t width = transcript.ids.empty() ? 0 : transcript.logits.size() / transcript.ids.size();
  if (width == 0) return stream;
  stream << "; logit 0 of each";
  for (std::size_t i = 0; i < transcript.ids.size(); ++i) stream << ' ' << transcript.logits[i * width];
  return stream;
}

Blocks block_run(std::uint32_t first, std::uint32_t count) {
  Blocks blocks(count);
  for (std::uint32_t i = 0; i < count; ++i) blocks[i] = first + i;
  return blocks;
}

std::vector<TokenInput> inputs(const Ids& ids) {
  std::vector<TokenInput> tokens;
  for (const std::int32_t id : ids) tokens.push_back(TokenInput::of(id));
  return tokens;
}

Ids slice(const Ids& ids, std::size_t begin, std::size_t end) {
  return {ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.begin() + static_cast<std::ptrdiff_t>(end)};
}

Ids joined(const Ids& a, const Ids& b) {
  Ids both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

Limits Conformance::roomy() {
  return {.max_rows = 16,
          .max_tokens = 512,
          .max_outputs = 512,
          .max_steps = 16,
          .max_context = 640,
          .block_size = 16,
          .blocks = 192,
          .slots = 16};
}

std::unique_ptr<Executor> Conformance::make(const Limits& limits) const {
  auto made = GetParam().make();
  made->reserve(limits);
  return made;
}

Executor& Conformance::executor() {
  if (!executor_) executor_ = make();
  return *executor_;
}

Ids Conformance::prompt(std::uint64_t seed, std::size_t length) const {
  std::uint64_t state = seed * 7919 + length;
  Ids ids(length);
  for (auto& id : ids) id = static_cast<std::int32_t>(next_random(state) % vocab_size());
  return ids;
}

Blocks Conformance::table_for(const Executor& executor, std::size_t positions, std::uint32_t first) {
  const std::uint32_t size = executor.limits().block_size;
  return block_run(first, (static_cast<std::uint32_t>(positions) + size - 1) / size);
}

void Conformance::feed(Executor& executor, const Ids& ids, std::uint32_t first_position, const Blocks& blocks,
                       std::uint32_t chunk) {
  const std::size_t step = chunk == 0 ? ids.size() : chunk;
  for (std::size_t begin = 0; begin < ids.size(); begin += step) {
    StepBatch batch;
    batch.add_row(inputs(slice(ids, begin, std::min(begin + step, ids.size()))),
                  first_position + static_cast<std::uint32_t>(begin), blocks);
    const StepResult result = executor.wait(executor.submit(batch));
    ASSERT_EQ(result.status[0], RowStatus::ok) << result.errors[0];
  }
}

Transcript Conformance::generate(Executor& executor, const Ids& prompt, std::size_t count, const How& how) {
  const Blocks blocks = how.blocks.empty() ? table_for(executor, prompt.size() + count - 1) : how.blocks;
  const bool with_logits = executor.capabilities().logits;
  const std::size_t chunk = how.chunk == 0 ? prompt.size() : how.chunk;
  const std::size_t last_chunk = (prompt.size() - 1) / chunk * chunk;
  feed(executor, slice(prompt, 0, last_chunk), 0, blocks, static_cast<std::uint32_t>(chunk));

  Transcript transcript;
  Ids next = slice(prompt, last_chunk, prompt.size());
  auto position = static_cast<std::uint32_t>(last_chunk);
  while (transcript.ids.size() < count) {
    StepBatch batch;
    batch.add_row(inputs(next), position, blocks, how.slot);
    batch.add_output(OutputKind::token);
    if (with_logits) batch.add_output(OutputKind::logits);
    SubmitOptions options;
    options.max_steps =
        static_cast<std::uint32_t>(std::min<std::size_t>(how.chain, count - transcript.ids.size()));
    const StepResult result = executor.wait(executor.submit(batch, options));
    EXPECT_EQ(result.status[0], RowStatus::ok) << result.errors[0];
    EXPECT_EQ(result.steps, options.max_steps);
    EXPECT_EQ(result.ids[0].size(), options.max_steps);
    if (result.ids[0].size() != options.max_steps) return transcript;
    transcript.ids.insert(transcript.ids.end(), result.ids[0].begin(), result.ids[0].end());
    if (with_logits) {
      transcript.logits.insert(transcript.logits.end(), result.values[1].begin(), result.values[1].end());
    }
    position += static_cast<std::uint32_t>(next.size()) + options.max_steps - 1;
    next = {transcript.ids.back()};
  }
  return transcript;
}

std::vector<float> Conformance::all_logits(Executor& executor, const Ids& ids, const Blocks& blocks) {
  StepBatch batch;
  batch.add_row(inputs(ids), 0, blocks.empty() ? table_for(executor, ids.size()) : blocks);
  for (std::uint32_t i = 0; i < ids.size(); ++i) batch.add_output_at(i, OutputKind::logits);
  const StepResult result = executor.wait(executor.submit(batch));
  EXPECT_EQ(result.status[0], RowStatus::ok) << result.errors[0];
  std::vector<float> all;
  for (const auto& values : result.values) all.insert(all.end(), values.begin(), values.end());
  return all;
}

Conformance::Turn Conformance::turn_at(std::size_t at, std::size_t count, std::uint64_t seed) {
  for (std::uint64_t tried = 0; tried < 200; ++tried) {
    Turn turn;
    turn.prompt = prompt(seed * 1000 + tried, 4 + tried % 5);
    turn.transcript = generate(executor(), turn.prompt, count);
    turn.at = at;
    const Ids& ids = turn.transcript.ids;
    const auto first = std::find(ids.begin(), ids.end(), ids[at]);
    if (static_cast<std::size_t>(first - ids.begin()) == at) return turn;
  }
  throw Error("no prompt found whose continuation brings a new id at step " + std::to_string(at));
}

void Conformance::expect_refused(const std::function<void()>& act, const std::string& needle) {
  // A sequence in the highest blocks, with a slot that counts: what a refused call might disturb.
  Executor& tested = executor();
  const Blocks blocks = block_run(tested.limits().blocks - 3, 3);
  const std::uint32_t slot = tested.capabilities().sampling_slots ? tested.limits().slots - 1 : kGreedySlot;
  const Ids ids = prompt(77, 20);
  const auto start = [&] {
    if (slot == kGreedySlot) return;
    SlotState state;
    state.settings.temperature = 1.5F;
    state.settings.repetition_penalty = 1.3F;
    state.settings.seed = 5;
    state.prompt = ids;
    tested.set_slot(slot, state);
  };
  const auto next = [&](std::int32_t id, std::uint32_t position) {
    StepBatch batch;
    batch.add_row({TokenInput::of(id)}, position, blocks, slot);
    batch.add_output(OutputKind::token);
    const StepResult result = tested.wait(tested.submit(batch));
    return result.ids[0].empty() ? -1 : result.ids[0].back();
  };
  Ids expected;
  start();
  feed(tested, ids, 0, blocks);
  for (std::uint32_t i = 0; i < 3; ++i) expected.push_back(next(i == 0 ? ids[0] : expected.back(), 20 + i));

  Ids found;
  start();
  feed(tested, ids, 0, blocks);
  for (std::uint32_t i = 0; i < 3; ++i) {
    try {
      act();
      ADD_FAILURE() << "was not refused; expected an error with \"" << needle << '"';
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(needle), std::string::npos)
          << "expected \"" << needle << "\" in: " << error.what();
    }
    found.push_back(next(i == 0 ? ids[0] : found.back(), 20 + i));
  }
  EXPECT_EQ(found, expected) << "a refused call changed something; expected an error with \"" << needle
                             << '"';
}

}  // namespace inferno::conformance
