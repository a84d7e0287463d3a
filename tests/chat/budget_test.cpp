// Templates that would not end, or would take all memory, end soon with an error that says where and why.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "chat/jinja/json.hpp"
#include "chat/jinja/parser.hpp"
#include "chat/render.hpp"
#include "support/child.hpp"

namespace inferno {
namespace {

using testing::HasSubstr;

std::string repeated(const std::string& text, std::size_t count) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += text;
  return result;
}

/// Fails within a second of processor time and 64 MiB, with this in the message.
void expect_refused(const std::string& source, const std::string& message) {
  const auto result = test::run_in_child([&] { test::render_text(source); });
  EXPECT_EQ(result.outcome, test::Outcome::threw_error) << source.substr(0, 200) << result.message;
  EXPECT_THAT(result.message, HasSubstr(message)) << source.substr(0, 200);
  EXPECT_LT(result.seconds, test::kMemoryIsLimited ? 1.0 : 20.0) << source.substr(0, 200);
  if (test::kMemoryIsLimited) {
    EXPECT_LT(result.peak_growth, std::size_t{64} << 20U) << source.substr(0, 200);
  }
}

TEST(Budget, LoopsInLoopsEnd) {
  expect_refused(
      "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}"
      "{% endfor %}{% endfor %}{% endfor %}",
      "steps");
  expect_refused(
      "\n{% for a in range(100000) %}\n{% for b in range(100000) %}{{ a * b }}{% endfor %}{% endfor %}",
      "line 3");
}

TEST(Budget, StringsDoNotGrowWithoutBound) {
  expect_refused("{{ 'x' * 10000000000 }}", "bytes");
  expect_refused("{{ [0] * 10000000000 }}", "bytes");
  expect_refused("{{ 'x' * 9223372036854775807 }}", "bytes");
  expect_refused(
      "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "bytes");
  expect_refused(
      "{% set ns = namespace(l=[0]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "bytes");
  expect_refused("{{ '%1000000s' % 'x' * 100 }}", "bytes");
  expect_refused("{{ '%99999999999s' % 'x' }}", "width");
  expect_refused("{{ '{:99999999999}'.format(1) }}", "width");
  expect_refused("{{ 'x'.center(9000000000) }}", "bytes");
  expect_refused("{{ 'x'.ljust(9000000000) }}", "bytes");
  expect_refused("{{ 'x'.zfill(9000000000) }}", "bytes");
  expect_refused("{{ '\\t'.expandtabs(9000000000) }}", "bytes");
  expect_refused("{{ 'x'|indent(9000000000) }}", "bytes");
  expect_refused("{{ [1]|tojson(indent=9000000000) }}", "bytes");
  expect_refused("{% set a = 'x' * 100000 %}{{ a.replace('x', a) }}", "bytes");
  expect_refused("{% set a = 'x' * 100000 %}{{ a.replace('', a) }}", "bytes");
  expect_refused("{% set a = ['x' * 1000] * 100000 %}{{ a|join('y' * 1000) }}", "bytes");
  expect_refused("{% set a = 'x' * 30000000 %}{{ a ~ a }}", "bytes");
  expect_refused("{{ ('x' * 10000000)|list }}", "");
  expect_refused("{{ [1]|batch(9000000000, 1)|list }}", "bytes");
  expect_refused("{{ range(5)|slice(9000000000)|list }}", "");
  expect_refused(
      "{% set a = ('x ' * 1000000) %}{% for i in range(1000) %}{% set b = a.split() %}{% endfor %}", "");
}

TEST(Budget, PrintingTooMuchIsRefused) {
  expect_refused("{% set a = 'x' * 1000000 %}{% for i in range(1000) %}{{ a }}{% endfor %}",
                 "prompt grows beyond");
  expect_refused("{% set a %}{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}{% endset %}", "bytes");
}

TEST(Budget, RecursionEnds) {
  expect_refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested deeper");
  expect_refused("{% macro m() %}{% call m() %}{% endcall %}{{ caller }}{% endmacro %}{{ m() }}",
                 "nested deeper");
  expect_refused("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
                 "nested deeper");
  expect_refused("{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}", "nested deeper");
  expect_refused("{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}", "nested deeper");
  expect_refused(
      "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}",
      "nested deeper than 200");
  expect_refused(
      "{% set ns = namespace(l=1) %}{% for i in range(100000) %}{% set ns.l = {'a': ns.l} %}{% endfor %}",
      "nested deeper than 200");
}

TEST(Budget, SourcesTooDeepOrTooLongAreRefused) {
  using test::joined;
  expect_refused(joined({repeated("{% if 1 %}", 5000), repeated("{% endif %}", 5000)}), "nested deeper");
  expect_refused(repeated("{% for a in b %}", 5000), "nested deeper");
  expect_refused(joined({"{{ ", repeated("(", 5000), "1", repeated(")", 5000), " }}"}), "nested deeper");
  expect_refused(joined({"{{ ", repeated("[", 5000), repeated("]", 5000), " }}"}), "nested deeper");
  expect_refused(joined({"{{ ", repeated("-", 5000), "1 }}"}), "nested deeper");
  expect_refused(joined({"{{ ", repeated("not ", 5000), "1 }}"}), "nested deeper");
  expect_refused(joined({"{{ 1", repeated(" + 1", 5000), " }}"}), "operations inside each other");
  expect_refused(joined({"{{ a", repeated(".a", 5000), " }}"}), "operations inside each other");
  expect_refused(joined({"{{ a", repeated("|e", 5000), " }}"}), "operations inside each other");
  expect_refused(joined({"{{ a", repeated("()", 5000), " }}"}), "operations inside each other");
  expect_refused(joined({"{{ 1", repeated(" if 1 else 1", 5000), " }}"}), "");
  expect_refused(joined({"{% set ", repeated("(", 5000), "a", repeated(")", 5000), " = 1 %}"}),
                 "nested deeper");
  expect_refused(repeated("x", std::size_t{20} << 20U), "at most 262144");
}

TEST(Budget, LimitsAreTheCallers) {
  jinja::Limits limits;
  limits.steps = 100;
  EXPECT_THAT(test::render_error("{% for i in range(100) %}{{ i }}{% endfor %}", "{}", limits),
              HasSubstr("more than 100 steps"));
  limits = {};
  limits.output = 10;
  EXPECT_THAT(test::render_error("{% for i in range(100) %}{{ i }}{% endfor %}", "{}", limits),
              HasSubstr("beyond 10 bytes"));
  EXPECT_EQ(test::render_text("0123456789", "{}", limits).bytes(), "0123456789");
}

TEST(Budget, MemoryThatIsFreedCanBeUsedAgain) {
  // A megabyte a hundred times, never more than a few at once.
  EXPECT_EQ(test::render("{% for i in range(100) %}{% set a = 'x' * 1000000 %}{% endfor %}ok"), "ok");
}

TEST(Budget, DeepInputIsRefused) {
  EXPECT_THROW(jinja::parse_json(repeated("[", 100000), "x"), UsageError);
  EXPECT_THROW(jinja::parse_json(test::joined({repeated("[", 100000), repeated("]", 100000)}), "x"),
               UsageError);
  EXPECT_THROW(jinja::parse_json(repeated("{\"a\":", 100000), "x"), UsageError);
  const auto deep = test::joined({repeated("[", 150), repeated("]", 150)});
  EXPECT_EQ(test::render("{{ x|tojson }}", test::joined({"{\"x\": ", deep, "}"})), deep);
}

}  // namespace
}  // namespace inferno
