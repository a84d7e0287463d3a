// Errors name the line, what was found and what to do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "chat/chat_template.hpp"
#include "chat/jinja/globals.hpp"
#include "chat/jinja/parser.hpp"
#include "chat/render.hpp"

namespace inferno {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Expected {
  std::string source, line, message;
};

void expect_all(std::initializer_list<Expected> cases) {
  for (const auto& [source, line, message] : cases) {
    EXPECT_THAT(test::render_error(source),
                AllOf(HasSubstr(test::joined({"line ", line, ":"})), HasSubstr(message)))
        << source;
  }
}

TEST(TemplateErrors, SyntaxErrorsNameLineAndConstruct) {
  expect_all({
      {"a\n{{ 1 + }}", "2", "expected a value, found the end of the expression"},
      {"{% if a %}\n\nb", "3", "{% elif or else or endif %}"},
      {"{% nope %}", "1", "unknown tag \"nope\""},
      {"\n\n{{ x|frobnicate }}", "3", "no filter \"frobnicate\""},
      {"\n{{ x is frobnicated }}", "2", "no test \"frobnicated\""},
      {"{% include 'other' %}", "1", "include"},
      {"{{ 'abc }}", "1", "has no end"},
      {"{# abc", "1", "comment has no end"},
      {"{% raw %}abc", "1", "endraw"},
      {"{{ (1] }}", "1", "unexpected ']', expected ')'"},
      {"{{ $ }}", "1", "unexpected character \"$\""},
      {"{% break %}", "1", "outside of a loop"},
      {"{{ 99999999999999999999 }}", "1", "64 bits"},
      {"{{ '\\ud83d' }}", "1", "U+D83D"},
      {"{% for loop in x %}{% endfor %}", "1", "loop"},
      {"a\n\xFF", "2", "not valid UTF-8"},
  });
}

TEST(TemplateErrors, RunningErrorsNameTheLine) {
  expect_all({
      {"\n{{ nope.x }}", "2", "'nope' is undefined"},
      {"{% set d = {} %}\n\n{{ d.a.b }}", "3", "has no attribute \"a\""},
      {"{{ 1 }}\n{{ 'a' + 1 }}", "2", "str and int"},
      {"{{\n'a' +\n1 }}", "2", "str and int"},
      {"{% for x in 5 %}{% endfor %}", "1", "a int cannot be gone through"},
      {"\n{{ [].append(1) }}", "2", "may only read"},
      {"{{ {}.update({}) }}", "1", "may only read"},
      {"{{ ''.__class__.__mro__ }}", "1", "not safe"},
      {"{{ ''['__class__']() }}", "1", "not safe"},
      {"{{ '{0.__class__.x}'.format('a') }}", "1", "not safe"},
      {"{{ 1 // 0 }}", "1", "division by zero"},
      {"{{ 9223372036854775807 + 1 }}", "1", "64 bits"},
      {"{{ -(-9223372036854775807 - 1) }}", "1", "64 bits"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", "1", "64 bits"},
      {"{{ 2 ** 64 }}", "1", "64 bits"},
      {"{{ range(100001) }}", "1", "at most 100000"},
      {"{% macro m(a) %}{% endmacro %}{{ m(b=1) }}", "1", "no argument named \"b\""},
      {"{{ 'a'|replace('b') }}", "1", "needs the argument \"new\""},
      {"{% if true %}\n{{ x|frobnicate }}{% endif %}", "2", "no filter \"frobnicate\""},
  });
}

TEST(TemplateErrors, ARefusalIsTheCallersMistake) {
  try {
    test::render("{{ raise_exception('only ' ~ x ~ ' please') }}", R"({"x": "users"})");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "only users please");
  }
}

TEST(TemplateErrors, HostileNamesInMessagesAreEscaped) {
  const auto message = test::render_error("{% \x1b[31m %}");
  EXPECT_THAT(message, testing::Not(HasSubstr("\x1b")));
}

TEST(Globals, TimeIsTheCallers) {
  const auto body = jinja::parse_template("{{ strftime_now('%Y-%m-%d') }}|{{ strftime_now('%%|%f|%Z%z') }}");
  const jinja::Variables none;
  jinja::Interpreter interpreter({}, none, 1699963200);
  EXPECT_EQ(interpreter.run(body).bytes(), "2023-11-14|%|000000|");
}

}  // namespace
}  // namespace inferno
