#pragma once

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/text.hpp"

namespace inferno::test {

/// Variables as a caller gives them: a JSON object.
jinja::Variables variables_from(const std::string& json);

/// What a template makes of variables.
jinja::Text render_text(std::string_view source, const std::string& variables = "{}",
                        const jinja::Limits& limits = {});
std::string render(std::string_view source, const std::string& variables = "{}");

/// The message of the error that rendering ends with; empty (and a failed expectation) if it does not.
std::string render_error(std::string_view source, const std::string& variables = "{}",
                         const jinja::Limits& limits = {});

nlohmann::json read_json(const std::filesystem::path& path);

/// Pieces put together: GCC 12 warns without cause where a literal stands before a string and '+'.
std::string joined(std::initializer_list<std::string_view> pieces);

/// The text with what is not trusted in [brackets].
std::string marked(const jinja::Text& text);

}  // namespace inferno::test
