#include "chat/render.hpp"

#include <fstream>
#include <gtest/gtest.h>

#include "chat/jinja/json.hpp"
#include "chat/jinja/parser.hpp"

namespace inferno::test {

jinja::Variables variables_from(const std::string& json) {
  jinja::Variables variables;
  const auto parsed = jinja::parse_json(json, "the test's variables");
  for (const auto& [key, value] : parsed.dict().entries) variables.emplace(key.text().bytes(), value);
  return variables;
}

jinja::Text render_text(std::string_view source, const std::string& variables, const jinja::Limits& limits) {
  const auto body = jinja::parse_template(source);
  const auto values = variables_from(variables);
  jinja::Interpreter interpreter(limits, values, 0);
  return interpreter.run(body);
}

std::string render(std::string_view source, const std::string& variables) {
  return render_text(source, variables).bytes();
}

std::string render_error(std::string_view source, const std::string& variables, const jinja::Limits& limits) {
  try {
    ADD_FAILURE() << "rendered: " << render_text(source, variables, limits).bytes().substr(0, 1000);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

std::string joined(std::initializer_list<std::string_view> pieces) {
  std::string result;
  for (const auto piece : pieces) result += piece;
  return result;
}

std::string marked(const jinja::Text& text) {
  std::string result;
  std::size_t begin = 0;
  for (const auto& [end, trusted] : text.stretches()) {
    const auto part = text.bytes().substr(begin, end - begin);
    result.append(trusted ? "" : "[").append(part).append(trusted ? "" : "]");
    begin = end;
  }
  return result;
}

}  // namespace inferno::test
