// The suite on the toy, and on toys that are wrong on purpose: INFERNO_TOY_FLAW names what is wrong.

#include <cstdlib>
#include <map>

#include "conformance/conformance.hpp"
#include "step/flawed_executor.hpp"
#include "step/toy_executor.hpp"

namespace inferno::toy {
namespace {

std::unique_ptr<Executor> make_toy(const ModelConfig& config) {
  const char* wanted = std::getenv("INFERNO_TOY_FLAW");
  if (wanted == nullptr) return std::make_unique<ToyExecutor>(config);
  const std::map<std::string, Flaw> flaws = {
      {"sees_neighbours", Flaw::sees_neighbours}, {"sees_chunks", Flaw::sees_chunks},
      {"sees_block_ids", Flaw::sees_block_ids},   {"sees_old_content", Flaw::sees_old_content},
      {"copies_nothing", Flaw::copies_nothing},   {"imports_nothing", Flaw::imports_nothing},
      {"skips_a_stage", Flaw::skips_a_stage},     {"observed_differently", Flaw::observed_differently},
      {"mixes_head_rows", Flaw::mixes_head_rows}, {"spreads_nan", Flaw::spreads_nan}};
  if (const auto found = flaws.find(wanted); found != flaws.end()) {
    return std::make_unique<ToyExecutor>(config, found->second);
  }
  return std::make_unique<FlawedExecutor>(std::make_unique<ToyExecutor>(config), wanted);
}

std::vector<conformance::ExecutorUnderTest> toys() {
  static const ModelConfig config = toy_config();
  return {{"toy", []() -> const ModelConfig& { return config; }, [] { return make_toy(config); }}};
}

}  // namespace
}  // namespace inferno::toy

INFERNO_CONFORMANCE(Toy, inferno::toy::toys());
