#include "verify/goldens.hpp"

#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include <inferno/error.hpp>

#include "platform/quote.hpp"

namespace inferno::verify {
namespace {

/// The ids of a field of a case. Throws Error for what is no id of any vocabulary.
std::vector<std::int32_t> read_ids(const nlohmann::json& json, std::string_view field) {
  const auto& list = json.at(field);
  if (!list.is_array())
    throw Error(fmt::format("{}: expected a list of token ids, found {}", field, list.dump()));
  std::vector<std::int32_t> ids;
  for (const auto& value : list) {
    if (!value.is_number_integer() || value < 0 || value > std::numeric_limits<std::int32_t>::max()) {
      throw Error(fmt::format("{}[{}]: expected a token id, found {}", field, ids.size(), value.dump()));
    }
    ids.push_back(value.get<std::int32_t>());
  }
  return ids;
}

GoldenCase read_case(const nlohmann::json& json) {
  GoldenCase golden;
  golden.ids = read_ids(json, "ids");
  if (json.contains("last_logits")) {
    json.at("last_logits").get_to(golden.logits);
    golden.logit_ids.resize(golden.logits.size());
    std::iota(golden.logit_ids.begin(), golden.logit_ids.end(), 0);
  } else {
    golden.logit_ids = read_ids(json, "top20_ids");
    json.at("top20_logits").get_to(golden.logits);
  }
  if (json.contains("greedy_ids")) golden.greedy_ids = read_ids(json, "greedy_ids");
  return golden;
}

/// What is wrong with a case, or empty.
std::string fault_of(const GoldenCase& golden, std::uint32_t vocab_size) {
  if (golden.ids.empty()) return "has no ids";
  if (golden.logits.empty()) return "has no logits";
  if (golden.logits.size() != golden.logit_ids.size()) {
    return fmt::format("has {} logits for {} ids", golden.logits.size(), golden.logit_ids.size());
  }
  for (const auto* ids : {&golden.ids, &golden.logit_ids, &golden.greedy_ids}) {
    for (const auto id : *ids) {
      if (id < 0 || static_cast<std::uint32_t>(id) >= vocab_size) {
        return fmt::format("names id {}, the model has ids below {}: they do not belong together", id,
                           vocab_size);
      }
    }
  }
  return {};
}

}  // namespace

std::vector<GoldenCase> read_goldens(const std::filesystem::path& path, std::uint32_t vocab_size) {
  const auto shown = quote(path.string());
  std::ifstream stream(path);
  if (!stream)
    throw Error(fmt::format("{}: cannot be read; --goldens takes a file of float64 logits", shown));
  std::vector<GoldenCase> goldens;
  try {
    const auto json = nlohmann::json::parse(stream);
    for (const auto& entry : json.contains("cases") ? json.at("cases") : json.at("prompts")) {
      goldens.push_back(read_case(entry));
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("{}: no golden file: {}", shown, error.what()));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: case {}: {}", shown, goldens.size(), error.what()));
  }
  if (goldens.empty()) throw Error(fmt::format("{}: holds no cases", shown));
  for (std::size_t i = 0; i < goldens.size(); ++i) {
    const auto fault = fault_of(goldens[i], vocab_size);
    if (!fault.empty()) throw Error(fmt::format("{}: case {} {}", shown, i, fault));
  }
  return goldens;
}

std::filesystem::path goldens_beside(const std::filesystem::path& model) {
  auto path = model;
  return path.replace_extension(".golden.json");
}

}  // namespace inferno::verify
