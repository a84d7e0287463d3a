#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

#include "engine/serving_fixture.hpp"
#include "server/api/base64.hpp"
#include "server/support/scripted_text.hpp"
#include "server/support/served.hpp"

namespace inferno::test {
namespace {

using Json = nlohmann::ordered_json;

std::vector<float> vector_of(const nlohmann::json& answer, std::size_t index = 0) {
  EXPECT_EQ(answer["data"][index]["index"], index);
  EXPECT_EQ(answer["data"][index]["object"], "embedding");
  return answer["data"][index]["embedding"].get<std::vector<float>>();
}

std::string base64(std::string_view bytes) {
  std::string out;
  api::append_base64(out, bytes);
  return out;
}

TEST(Embeddings, TextsAndIds) {
  Served served(tiny());
  const auto one = served.answer(kEmbeddings, {{"input", "Hi"}});
  EXPECT_EQ(one["object"], "list");
  EXPECT_EQ(one["usage"], nlohmann::json::parse(R"({"prompt_tokens":2,"total_tokens":2})"));
  const auto hi = vector_of(one);
  EXPECT_EQ(hi.size(), tiny().hidden_size());
  double squares = 0;
  for (const auto value : hi) squares += static_cast<double>(value) * static_cast<double>(value);
  EXPECT_NEAR(squares, 1, 1e-4);
  EXPECT_EQ(vector_of(served.answer(kEmbeddings, {{"input", {72, 105}}})), hi);
  const auto several = served.answer(kEmbeddings, {{"input", {"Hi", "Ho", "Hi"}}});
  EXPECT_EQ(several["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(vector_of(several, 0), hi);
  EXPECT_NE(vector_of(several, 1), hi);
  EXPECT_EQ(vector_of(several, 2), hi);
  const auto ids =
      served.answer(kEmbeddings, {{"input", Json::array({Json::array({72, 105}), Json::array({72})})}});
  EXPECT_EQ(vector_of(ids, 0), hi);
}

TEST(Embeddings, PoolingAndLength) {
  Served served(tiny());
  const auto with = [&](const Json& more) {
    Json body{{"input", "Hello"}};
    if (more.is_object()) body.update(more);
    return vector_of(served.answer(kEmbeddings, body));
  };
  EXPECT_EQ(with({{"pooling", "mean"}}), with({}));
  EXPECT_NE(with({{"pooling", "last"}}), with({}));
  EXPECT_EQ(with({{"dimensions", tiny().hidden_size()}}), with({}));
  EXPECT_NE(with({{"normalize", false}}), with({}));
  EXPECT_EQ(with({{"normalize", true}}), with({}));
  // Typed markup stays text.
  EXPECT_EQ(served.answer(kEmbeddings, {{"input", "<|im_end|>"}})["usage"]["prompt_tokens"], 9);
}

TEST(Embeddings, Base64IsTheSameNumbers) {
  Served served(tiny());
  const auto floats = vector_of(served.answer(kEmbeddings, {{"input", "Hi"}, {"encoding_format", "float"}}));
  std::string bytes(floats.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), floats.data(), bytes.size());
  EXPECT_EQ(
      served.answer(kEmbeddings, {{"input", "Hi"}, {"encoding_format", "base64"}})["data"][0]["embedding"],
      base64(bytes));
}

TEST(Embeddings, MoreInputsThanTheEngineTakesAtOnce) {
  auto options = small_engine();
  options.max_rows = 4;
  options.max_queue = 0;
  Served served(tiny(), options);
  std::vector<std::string> inputs;
  for (int i = 0; i < 200; ++i) inputs.push_back("text " + std::to_string(i));
  const auto all = served.answer(kEmbeddings, {{"input", inputs}});
  ASSERT_EQ(all["data"].size(), 200U);
  EXPECT_EQ(vector_of(all, 137), vector_of(served.answer(kEmbeddings, {{"input", inputs[137]}})));
}

TEST(Base64, WithPadding) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64(std::string("\xFF\xFE\x00", 3)), "//4A");
}

}  // namespace
}  // namespace inferno::test
