// Qwen3's own template against prompts that were rendered with the reference implementation, byte for byte.

#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "chat/chat_template.hpp"
#include "chat/render.hpp"

namespace inferno {
namespace {

const nlohmann::json& golden() {
  static const auto json = test::read_json(INFERNO_TEST_DATA "/golden/chat_qwen3.json");
  return json;
}

TEST(Golden, Qwen3TemplateByteForByte) {
  const ChatTemplate chat(golden()["template"].get<std::string>(), "qwen3");
  std::ifstream file(INFERNO_TEST_DATA "/golden/chat_qwen3.json");
  const auto ordered = nlohmann::ordered_json::parse(file);
  ASSERT_GE(ordered["cases"].size(), 10U);
  for (const auto& one : ordered["cases"]) {
    const auto prompt = chat.render(parse_conversation(one["input"].dump()));
    EXPECT_EQ(prompt.text(), one["rendered"].get<std::string>()) << one["input"];
  }
}

TEST(Golden, WhetherATemplateShowsToolsIsSeen) {
  EXPECT_TRUE(ChatTemplate(golden()["template"].get<std::string>(), "qwen3").shows_tools());
  EXPECT_FALSE(ChatTemplate("{{ messages[0].content }}", "plain").shows_tools());
  EXPECT_TRUE(ChatTemplate("{{ raise_exception('not today') }}", "refuses").shows_tools());
}

TEST(Golden, StretchesCoverThePrompt) {
  const ChatTemplate chat(golden()["template"].get<std::string>(), "qwen3");
  for (const auto& one : golden()["cases"]) {
    const auto prompt = chat.render(parse_conversation(one["input"].dump()));
    std::string joined;
    bool was_trusted = false;
    for (const auto& span : prompt.spans()) {
      EXPECT_FALSE(span.text.empty());
      EXPECT_TRUE(joined.empty() || span.trusted != was_trusted);
      was_trusted = span.trusted;
      joined += span.text;
    }
    EXPECT_EQ(joined, prompt.text());
  }
}

}  // namespace
}  // namespace inferno
