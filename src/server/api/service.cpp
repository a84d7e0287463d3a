#include "server/api/service.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <utility>

#include "engine/model_parts.hpp"
#include "platform/quote.hpp"
#include "sampling/sampler.hpp"
#include "server/api/answer.hpp"
#include "server/api/api.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno::api {
namespace {

/// More would only fill the queue that others wait in, too.
constexpr std::size_t kMostInEngine = 64;

std::shared_ptr<const ChatTemplates> templates_of(const ApiOptions& options, const ModelParts& parts) {
  if (options.templates) return options.templates;
  return std::make_shared<const ChatTemplates>(ChatTemplates::from_model(parts.loaded.file, parts.tokenizer));
}

ApiOptions checked(ApiOptions options, const Model& model) {
  auto names = options.aliases;
  if (!options.model_name.empty()) names.push_back(options.model_name);
  check_model_names(names);
  if (options.model_name.empty()) options.model_name = model.name();
  if (options.pooling != "mean" && options.pooling != "last") {
    throw UsageError(fmt::format("pooling: expected mean or last, found {}", options.pooling));
  }
  check_settings(options.sampling, model.vocab_size());
  return options;
}

RequestLimits limits_of(const ApiOptions& options, const Model& model) {
  RequestLimits limits;
  limits.models.push_back(options.model_name);
  limits.models.insert(limits.models.end(), options.aliases.begin(), options.aliases.end());
  limits.vocab_size = model.vocab_size();
  limits.hidden_size = model.hidden_size();
  limits.sampling = options.sampling;
  limits.max_priority = options.max_priority;
  limits.pooling = options.pooling;
  return limits;
}

}  // namespace

void check_model_names(const std::vector<std::string>& names) {
  constexpr std::size_t kLongest = 256;
  for (auto name = names.begin(); name != names.end(); ++name) {
    const bool is_plain = std::none_of(
        name->begin(), name->end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
    if (name->empty() || name->size() > kLongest || !is_plain || utf8_valid_prefix(*name) != name->size()) {
      throw UsageError(fmt::format(
          "{} cannot be a model's name; expected up to {} bytes of UTF-8 without control characters",
          quote(*name, 80), kLongest));
    }
    if (std::find(names.begin(), name, *name) != name)
      throw UsageError(fmt::format("the name {} is given twice; expected different ones", quote(*name, 80)));
  }
}

void Answers::add(std::shared_ptr<Answer> answer) {
  const std::lock_guard lock(mutex_);
  const auto* key = answer.get();
  answers_.emplace(key, std::move(answer));
}

void Answers::remove(const Answer* answer) {
  std::shared_ptr<Answer> last;  // may end here, but not with the lock held
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(answer);
  if (found == answers_.end()) return;
  last = std::move(found->second);
  answers_.erase(found);
}

void Answers::clear() {
  std::unordered_map<const Answer*, std::shared_ptr<Answer>> all;
  const std::lock_guard lock(mutex_);
  all.swap(answers_);
}

Service::Service(ServingEngine& the_engine, ApiOptions the_options)
    : engine(the_engine),
      model(the_engine.model()),
      tokenizer(model.parts().tokenizer),
      options(checked(std::move(the_options), model)),
      templates(templates_of(options, model.parts())),
      limits(limits_of(options, model)),
      think_tags(tokenizer),
      tag_tokens(tokenizer),
      constraints(tokenizer, model.vocab_size()),
      created(now_in_seconds()),
      context_limit(engine.metrics().context_limit),
      wave(std::min<std::size_t>(engine.options().max_rows, kMostInEngine)) {}

std::int64_t now_in_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace inferno::api
