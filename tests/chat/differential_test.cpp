// The engine against the real Jinja2: the same text, or an error where that has one.

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

#include "chat/jinja/json.hpp"
#include "chat/render.hpp"

namespace inferno {
namespace {

std::string outcome(const std::string& source, const std::string& input) {
  try {
    return std::string("rendered ").append(test::render(source, input));
  } catch (const jinja::TemplateRefusal& refusal) {
    return std::string("refused ").append(refusal.what());
  } catch (const Error& error) {
    return std::string("failed ").append(error.what());
  }
}

/// "rendered TEXT", "refused MESSAGE", or "failed" for any failure.
std::string expected_outcome(const nlohmann::ordered_json& one) {
  if (one.contains("rendered")) return std::string("rendered ").append(one["rendered"].get<std::string>());
  if (one.contains("refused")) return std::string("refused ").append(one["refused"].get<std::string>());
  return "failed";
}

TEST(Differential, RendersWhatJinjaRenders) {
  if (!std::filesystem::exists(INFERNO_JINJA_CASES)) {
    GTEST_SKIP() << "python3-jinja2 was not there when the tests were built";
  }
  std::ifstream file(INFERNO_JINJA_CASES);
  const auto cases = nlohmann::ordered_json::parse(file);
  ASSERT_GT(cases.size(), 3000U);
  std::size_t differences = 0;
  std::size_t rendered = 0;
  std::size_t beyond = 0;
  for (const auto& one : cases) {
    const auto source = one["template"].get<std::string>();
    const auto expected = expected_outcome(one);
    const auto found = outcome(source, one["input"].dump());
    if (one.contains("rendered")) ++rendered;
    const bool same = expected == "failed" ? found.rfind("failed", 0) == 0 : found == expected;
    if (same) continue;
    // Python's integers have no end and its powers may be complex; here both are errors that say so.
    if (found.find("64 bits") != std::string::npos || found.find("no real number") != std::string::npos) {
      ++beyond;
      continue;
    }
    // Enough to see what is wrong; a broken engine would print megabytes.
    if (++differences <= 20) ADD_FAILURE() << source << "\nexpected: " << expected << "\nfound:    " << found;
  }
  EXPECT_EQ(differences, 0U);
  EXPECT_GT(rendered, 3000U);
  EXPECT_LT(beyond, cases.size() / 30);
}

}  // namespace
}  // namespace inferno
