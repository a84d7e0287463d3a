// Schemas by chance: what is written matches them, by another validator's judgement; what matches can be
// written.

#include "grammar/random_schema.hpp"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <string>

#include "grammar/fixture.hpp"

namespace inferno {
namespace {

using test::Dice;
using test::RandomSchema;

std::shared_ptr<const grammar::Grammar> compile(const RandomSchema& random) {
  try {
    return grammar::json_schema(random.schema().dump());
  } catch (const grammar::SchemaError& error) {
    // A bound and a multiple may leave no number.
    EXPECT_NE(error.message().find("matches this"), std::string::npos) << random.schema() << "\n"
                                                                       << error.what();
    return nullptr;
  }
}

TEST(RandomSchema, WhatMatchesCanBeWritten) {
  Dice dice(1);
  int compiled_count = 0;
  for (int i = 0; i < 1500; ++i) {
    RandomSchema random(dice);
    const auto compiled = compile(random);
    if (!compiled) continue;
    ++compiled_count;
    for (int j = 0; j < 4; ++j) {
      const auto text = test::spell(random.instance(), j % 3);
      ASSERT_TRUE(test::accepts(compiled, text)) << random.schema() << "\n" << text;
    }
  }
  EXPECT_GT(compiled_count, 1200);
}

TEST(RandomSchema, WhatIsWrittenMatches) {
  if (std::string(INFERNO_JSONSCHEMA_PYTHON).empty())
    GTEST_SKIP() << "python3-jsonschema was not there when the build was configured";
  const test::TemporaryFile walks("walks.jsonl");
  const auto& path = walks.path();
  Dice dice(2);
  std::size_t complete = 0;
  {
    std::ofstream file(path);
    for (int i = 0; i < 1500; ++i) {
      const RandomSchema random(dice);
      const auto compiled = compile(random);
      if (!compiled) continue;
      for (int j = 0; j < 4; ++j) {
        const auto walk = test::random_walk(compiled, test::json_tokenizer(), test::json_vocabulary(),
                                            test::json_tokenizer().size(), dice, 400);
        if (!walk.complete) continue;
        ++complete;
        const nlohmann::ordered_json line = {{"schema", random.schema()}, {"text", walk.text}};
        file << line.dump() << "\n";
      }
    }
  }
  EXPECT_GT(complete, 2000U);
  const auto command =
      std::string(INFERNO_JSONSCHEMA_PYTHON) + " " + INFERNO_VALIDATE_WALKS + " " + path.string();
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

/// Keys of an object of two keys, in their order, whatever is drawn.
TEST(RandomSchema, KeysComeInTheSchemasOrder) {
  const auto compiled = grammar::json_schema(
      R"({"type":"object","properties":{"zeta":{"type":"integer"},"alpha":{"type":"boolean"}},"required":["alpha","zeta"],"additionalProperties":false})");
  Dice dice(3);
  for (int i = 0; i < 50; ++i) {
    const auto walk = test::random_walk(compiled, test::json_tokenizer(), test::json_vocabulary(),
                                        test::json_tokenizer().size(), dice, 200);
    ASSERT_TRUE(walk.complete) << walk.text;
    const auto value = nlohmann::ordered_json::parse(walk.text);
    ASSERT_EQ(value.size(), 2U) << walk.text;
    EXPECT_EQ(value.begin().key(), "zeta");
    EXPECT_TRUE(value["alpha"].is_boolean());
  }
}

TEST(RandomSchema, AnyObjectIsAnObject) {
  const auto compiled = grammar::json_object();
  Dice dice(4);
  int complete = 0;
  for (int i = 0; i < 300; ++i) {
    const auto walk = test::random_walk(compiled, test::json_tokenizer(), test::json_vocabulary(),
                                        test::json_tokenizer().size(), dice, 300);
    if (!walk.complete) continue;
    ++complete;
    EXPECT_TRUE(nlohmann::json::parse(walk.text).is_object()) << walk.text;
  }
  EXPECT_GT(complete, 100);
}

}  // namespace
}  // namespace inferno
