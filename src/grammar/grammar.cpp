#include "grammar/grammar.hpp"

#include <fmt/format.h>
#include <set>
#include <utility>
#include <vector>

#include "grammar/compiled_grammar.hpp"
#include "grammar/crowd.hpp"
#include "grammar/json_document.hpp"
#include "grammar/json_values.hpp"
#include "grammar/recent_cache.hpp"
#include "grammar/schema_compiler.hpp"
#include "grammar/schema_flattener.hpp"

namespace inferno::grammar {
namespace {

constexpr std::string_view kCallBegin = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";

/// Programs ask for the same few forms again and again; what a grammar has learned of a vocabulary is worth
/// more than itself.
constexpr std::size_t kRememberedBytes = std::size_t{96} << 20U;

template <typename Make>
std::shared_ptr<const Grammar> remembered(const std::string& key, Make make) {
  static RecentCache<Grammar> known(kRememberedBytes);
  if (auto grammar = known.find(key)) return grammar;
  auto grammar = std::make_shared<const Grammar>(make());
  known.add(key, grammar, grammar->memory());
  return grammar;
}

Program finished(Program program, ValueId root) {
  program.root = root;
  program.measure();
  return program;
}

/// Arguments are objects, whatever the schema says.
const Json& object_schema() {
  static const auto kSchema = parse_document(R"({"type": "object"})");
  return *kSchema;
}

/// Refuses what would fail later: `program` has been measured, and its root is a value of `compiler`.
void check_crowds(const Program& program, const SchemaCompiler& compiler) {
  const auto crowd = find_crowd(program);
  if (!crowd) return;
  throw SchemaError(
      compiler.path_of(crowd->example),
      fmt::format("here more than {} {} can be open at once; expected alternatives that differ earlier, or "
                  "fewer",
                  crowd->most, crowd->of_patterns ? "patterns" : "ways to go on"));
}

bool is_blank(std::string_view json) {
  const auto begin = json.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return true;
  const auto end = json.find_last_not_of(" \t\r\n");
  return json.substr(begin, end - begin + 1) == "null";
}

/// The arguments of one tool.
ValueId arguments(const ToolSpec& tool, Program& program, Budget& budget) {
  if (is_blank(tool.parameters_json)) {
    ObjectMachine none;
    index_properties(program, none, {});
    const auto machine = program.add(std::move(none));
    return program.add_value({machine});
  }
  const auto document = parse_document(tool.parameters_json);
  SchemaCompiler compiler(*document, program, budget);
  const auto value = compiler.compile({document.get(), &object_schema()});
  program.measure();
  compiler.check_finite(value);
  program.root = value;
  check_crowds(program, compiler);
  return value;
}

/// {"name": "f", "arguments": ...}
MachineId call(const ToolSpec& tool, ValueId arguments_value, Program& program) {
  ObjectMachine object;
  object.properties.push_back({.value = literal(program, json_string(tool.name)), .required = true});
  object.properties.push_back({.value = arguments_value, .required = true});
  index_properties(program, object, {"name", "arguments"});
  return program.add(std::move(object));
}

/// The values of a schema; `document` is for messages.
ValueId add_schema(std::string_view schema_json, Program& program, Budget& budget, std::size_t document = 0) {
  try {
    const auto root = parse_document(schema_json);
    SchemaCompiler compiler(*root, program, budget);
    const auto value = compiler.compile({root.get()});
    program.measure();
    compiler.check_finite(value);
    program.root = value;
    check_crowds(program, compiler);
    return value;
  } catch (const SchemaError& error) {
    throw SchemaError(error.path(), error.message(), document);
  } catch (const PatternError& error) {
    throw SchemaError("", error.what(), document);
  }
}

Program compile_schema(std::string_view schema_json) {
  Program program;
  Budget budget;
  program.root = add_schema(schema_json, program, budget);
  return program;
}

Program compile_regex(std::string_view pattern) {
  Program program;
  Budget budget;
  try {
    auto dfa = std::make_shared<const PatternDfa>(parse_pattern(pattern), PatternDfa::Match::whole, budget);
    const auto machine = program.add(TextMachine{.form = TextForm::raw, .pattern = std::move(dfa)});
    const auto root = program.add_value({machine});
    return finished(std::move(program), root);
  } catch (const PatternError& error) {
    throw SchemaError("", error.what());
  }
}

/// One call of some tool, or more.
MachineId add_calls(std::span<const ToolSpec> tools, bool parallel, Program& program, Budget& budget) {
  std::vector<MachineId> calls;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    try {
      calls.push_back(call(tools[i], arguments(tools[i], program, budget), program));
    } catch (const SchemaError& error) {
      throw SchemaError(error.path(), error.message(), i);
    } catch (const PatternError& error) {
      throw SchemaError("", error.what(), i);
    }
  }
  const auto marker = [&](std::string_view text) {
    const auto machine = program.add(MarkerMachine{std::string(text)});
    return program.add_value({machine});
  };
  SequenceMachine sequence;
  sequence.items.push_back(marker(kCallBegin));
  sequence.items.push_back(literal(program, "\n"));
  sequence.items.push_back(program.add_value(std::move(calls)));
  sequence.items.push_back(literal(program, "\n"));
  sequence.items.push_back(marker(kCallEnd));
  if (parallel) sequence.separator = literal(program, "\n");
  return program.add(std::move(sequence));
}

Program compile_tool_calls(std::span<const ToolSpec> tools, bool parallel) {
  Program program;
  Budget budget;
  const auto calls = add_calls(tools, parallel, program, budget);
  const auto root = program.add_value({calls});
  return finished(std::move(program), root);
}

Program compile_calls_or_json(std::span<const ToolSpec> tools, bool parallel, std::string_view schema_json) {
  Program program;
  Budget budget;
  const auto value =
      is_blank(schema_json) ? any_object(program) : add_schema(schema_json, program, budget, tools.size());
  auto ways = program.values[value].machines;
  ways.push_back(add_calls(tools, parallel, program, budget));
  const auto root = program.add_value(std::move(ways));
  return finished(std::move(program), root);
}

/// Tools as what is remembered is found by.
std::string key_of(std::span<const ToolSpec> tools, bool parallel) {
  if (tools.empty()) throw UsageError("a tool call is wanted, but there are no tools; expected at least one");
  if (tools.size() > kMaxAlternatives) {
    throw UsageError(
        fmt::format("tools: one of {} is to be called; expected at most {}", tools.size(), kMaxAlternatives));
  }
  auto key = fmt::format("tools {} {}", tools.size(), parallel);
  for (const auto& tool : tools) {
    key += fmt::format(" {} {} {} {}", tool.name.size(), tool.name, tool.parameters_json.size(),
                       tool.parameters_json);
  }
  return key;
}

}  // namespace

SchemaError::SchemaError(std::string path, const std::string& message, std::size_t document)
    : UsageError(fmt::format("{}: {}", path.empty() ? "schema" : path, message)),
      path_(std::move(path)),
      message_(message),
      document_(document) {}

std::shared_ptr<const Grammar> json_object() {
  static const auto kObject = [] {
    Program program;
    const auto root = any_object(program);
    return std::make_shared<const Grammar>(finished(std::move(program), root));
  }();
  return kObject;
}

std::shared_ptr<const Grammar> json_schema(std::string_view schema_json) {
  return remembered(fmt::format("schema {}", schema_json), [&] { return compile_schema(schema_json); });
}

std::shared_ptr<const Grammar> regex(std::string_view pattern) {
  return remembered(fmt::format("regex {}", pattern), [&] { return compile_regex(pattern); });
}

std::shared_ptr<const Grammar> tool_calls(std::span<const ToolSpec> tools, bool parallel) {
  return remembered(key_of(tools, parallel), [&] { return compile_tool_calls(tools, parallel); });
}

std::shared_ptr<const Grammar> tool_calls_or_json(std::span<const ToolSpec> tools, bool parallel,
                                                  std::string_view schema_json) {
  return remembered(fmt::format("{} or {}", key_of(tools, parallel), schema_json),
                    [&] { return compile_calls_or_json(tools, parallel, schema_json); });
}

}  // namespace inferno::grammar
