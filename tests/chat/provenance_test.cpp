// Who wrote what: text from a caller stays marked through every operation of the language. [Brackets] mark
// it.

#include <gtest/gtest.h>
#include <string>

#include "chat/jinja/json.hpp"
#include "chat/render.hpp"

namespace inferno {
namespace {

const char* const kInput =
    R"({"x": "user", "n": 5, "l": ["p", "q"], "d": {"key": "val"}, "b": " a<b ", "u": "ß\n\"é"})";

struct Expected {
  std::string source, marked;
};

TEST(Provenance, IsCarriedThroughEveryOperation) {
  const Expected cases[] = {
      {"<{{ x }}>", "<[user]>"},
      {"{{ 'a' + x + 'b' }}{{ x ~ '|' ~ x }}", "a[user]b[user]|[user]"},
      {"{{ x[0] }}{{ x[1:3] }}{{ x[::-1] }}{{ ('ab' ~ x ~ 'cd')[1:-1] }}", "[useresu]b[user]c"},
      {"{{ ('ab' ~ x)[::-2] }}", "[rs]b"},
      {"{{ x * 2 }}{{ ('a' ~ x) * 2 }}", "[useruser]a[user]a[user]"},
      {"{{ x|upper }}{{ x.title() }}{{ (x ~ 'y')|capitalize }}{{ u|upper }}", "[USERUserUser]y[SS\n\"É]"},
      {"{{ x.replace('s', '<s>') }}{{ '-s-'.replace('s', x) }}{{ x|replace('user', 'sys') }}",
       "[u]<s>[er]-[user]-sys"},
      {"{{ l|join('+') }}{{ '+'.join(l) }}{{ ['a', x]|join(x) }}", "[p]+[qp]+[q]a[useruser]"},
      {"{{ x.split('s')[1] }}{{ 'a s b'.split()[1] }}{{ (x ~ ',t').split(',')|join('/') }}", "[er]s[user]/t"},
      {"{{ b|trim }}{{ (' ' ~ x ~ ' ').strip() }}{{ (x ~ 'rr').rstrip('r') }}", "[a<buseruse]"},
      {"{{ d|tojson }}", "{\"[key]\": \"[val]\"}"},
      {"{{ u|tojson }}{{ u|tojson(ensure_ascii=true) }}", "\"[ß\\n\\\"é]\"\"[\\u00df\\n\\\"\\u00e9]\""},
      {"{{ l }}{{ d }}{{ (x, 'y') }}", "['[p]', '[q]']{'[key]': '[val]'}('[user]', 'y')"},
      {"{{ '%s-%5s-%r' % (x, 'y', x) }}{{ '%s'|format(x) }}{{ x % () }}", "[user]-    y-'[user]'[useruser]"},
      {"{{ '{}{:>6}{!r}'.format(x, x, x) }}{{ x.format() }}", "[user]  [user]'[user]'[user]"},
      {"{{ b|e }}{{ ('<' ~ b)|escape }}{{ ('<i>'|safe) + b }}", "[ a&lt;b ]&lt;[ a&lt;b ]<i>[ a&lt;b ]"},
      {"{{ (x ~ '\nz')|indent(2) }}{{ x.center(8, '.') }}{{ x.ljust(5) }}{{ x|truncate(3, true, '', 0) }}",
       "[user]\n  z..[user]..[user] [use]"},
      {"{{ x|list|join }}{{ x|reverse }}{{ l|sort|first }}{{ l|map('upper')|join }}{{ [x, "
       "'k']|unique|join('.') }}",
       "[userresupPQuser].k"},
      {"{% set y %}a{{ x }}b{% endset %}{{ y }}{% filter upper %}c{{ x }}{% endfilter %}", "a[user]bC[USER]"},
      {"{% macro m(a) %}({{ a }}{{ caller() }}){% endmacro %}{% call m(x) %}c{{ x }}{% endcall %}",
       "([user]c[user])"},
      {"{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}{% for c in x %}{{ c }}.{% endfor %}",
       "[key]=[valu].[s].[e].[r]."},
      {"{{ {'user': '<|sys|>'}[x] }}{{ '<|im|>' if x == 'user' }}{{ x|default('z') }}{{ nope|default(x) }}",
       "<|sys|><|im|>[useruser]"},
      {"{{ n }}{{ n + 1 }}{{ x|length }}{{ x is string }}", "564True"},
      {"{{ x.partition('s') }}{{ x.removeprefix('us') }}{{ x.splitlines() }}{{ x.zfill(6) }}",
       "('[u]', '[s]', '[er]')[er]['[user]']00[user]"},
      {"{% set ns = namespace(t='') %}{% for i in l %}{% set ns.t = ns.t ~ i ~ ';' %}{% endfor %}{{ ns.t }}",
       "[p];[q];"},
      {"{{ dict(a=x)|tojson }}{{ [x]|batch(1)|first }}{{ {x: 1}|dictsort }}{{ l|groupby(0)|length }}",
       "{\"a\": \"[user]\"}['[user]'][('[user]', 1)]2"},
      {"{{ x|string|safe }}{{ x.casefold() }}{{ x.swapcase() }}{{ x.expandtabs() }}{{ x|title }}",
       "[useruserUSERuserUser]"},
  };
  for (const auto& [source, marked] : cases) {
    EXPECT_EQ(test::marked(test::render_text(source, kInput)), marked) << source;
  }
}

TEST(Provenance, CharactersMadeOfNumbersAreNotTrusted) {
  EXPECT_EQ(test::marked(test::render_text("{{ '%c' % 60 }}{{ '{:c}'.format(62) }}")), "[<>]");
}

TEST(Provenance, TheStringOfAToolIsText) {
  const auto text = test::render_text("{% for t in tools %}{{ t|tojson(indent=1) }}{% endfor %}",
                                      R"({"tools": [{"<|im_end|>": ["<|im_start|>", 1.5, true]}]})");
  EXPECT_EQ(test::marked(text), "{\n \"[<|im_end|>]\": [\n  \"[<|im_start|>]\",\n  1.5,\n  true\n ]\n}");
}

TEST(Provenance, EmptyPiecesLeaveNoStretches) {
  const auto text = test::render_text("{{ '' }}{{ x[:0] }}a{{ x[9:] }}b", kInput);
  ASSERT_EQ(text.stretches().size(), 1U);
  EXPECT_TRUE(text.all_trusted());
}

}  // namespace
}  // namespace inferno
