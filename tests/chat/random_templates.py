"""Templates made by chance: expressions of every kind over the same variables, statements around them, blanks and
tags in all combinations."""

VARIABLES = {
    "s": "Hello, World",
    "t": "  two\tblanks \n and lines\r\nhere ",
    "e": "",
    "u": "naïve Ünïcode ß ŉ 日本語 🙂 ΑΣ",
    "q": 'it\'s "quoted" \\ <b> & \x01\x7f\u2028',
    "i": 7,
    "z": 0,
    "neg": -13,
    "big": 9007199254740993,
    "f": 2.5,
    "g": -0.1,
    "h": 1e20,
    "k": 3.0,
    "b": True,
    "nb": False,
    "n": None,
    "l": [3, 1, 2],
    "el": [],
    "ls": ["b", "a", "C", "a"],
    "m": [1, "1", 1.0, True, None, [1], {"a": 1}],
    "d": {"a": 1, "b": "x", "get": 5, "c d": [1, 2], "_p": 1},
    "ed": {},
    "users": [
        {"name": "Bob", "age": 30, "tags": ["x", "y"], "ok": True},
        {"name": "alice", "age": 25, "tags": [], "ok": False},
        {"name": "Carol", "age": 30, "tags": ["z"], "ok": True, "extra": {"deep": [1, 2]}},
    ],
}

STRINGS = ["s", "t", "e", "u", "q", "'lit'", "'a,b,,c'", "'%'", "'x' 'y'", "'\\n\\t\\x41\\u00e9\\\\'", "ls[0]", "users[0].name"]
NUMBERS = ["i", "z", "neg", "big", "f", "g", "h", "k", "b", "0", "1", "2", "3", "10", "1.5", "1e3", "0x1f", "1_000", "l[0]", "users[1].age"]
LISTS = ["l", "el", "ls", "m", "users", "[1, 2, 3]", "range(5)", "range(2, 10, 3)", "range(5, 0, -2)", "(1, 2)", "('a',)", "d.items()", "d.keys()|list", "d.values()|list", "d['c d']", "s|list", "'b a c'.split()"]
DICTS = ["d", "ed", "users[0]", "users[2].extra", "{'k': 1, 2: 'two', none: 3}", "dict(a=1, b=2)"]
UNDEFINED = ["nope", "d.nope", "l[99]", "s.nope", "users[0].nope", "ed['x']"]


class Maker:
    def __init__(self, rng):
        self.rng = rng

    def pick(self, *options):
        return self.rng.choice(options)

    def maybe(self, text, chance=0.5):
        return text if self.rng.random() < chance else ""

    def string(self, depth):
        if depth <= 0 or self.rng.random() < 0.2:
            return self.rng.choice(STRINGS)
        s = self.string(depth - 1)
        o = self.string(depth - 1)
        n = self.small()
        return self.pick(
            f"({s} + {o})", f"({s} ~ {self.any(depth - 1)})", f"({s})[{self.slice()}]", f"({s})|upper", f"({s})|lower",
            f"({s})|title", f"({s})|capitalize", f"({s})|trim", f"({s})|trim({o})", f"({s}).strip()", f"({s}).strip({o})",
            f"({s}).lstrip()", f"({s}).rstrip({o})", f"({s}).replace({o}, {self.string(0)})",
            f"({s})|replace({o}, {self.string(0)}, {n})", f"({s}).replace({o}, '-', {n})", f"({s}).title()",
            f"({s}).upper()", f"({s}).lower()", f"({s}).capitalize()", f"({s}).swapcase()", f"({s}).casefold()",
            f"({s}).center({n}0, '*')", f"({s}).ljust({n}0)", f"({s}).rjust({n}0, '.')", f"({s}).zfill({n}5)",
            f"({s}).expandtabs({n})", f"({s}) * {n}", f"({s})|indent({n})", f"({s})|indent({n}, true, true)",
            f"({s})|indent('> ', first=true)", f"({s})|truncate({n}, true, '')", f"({s})|truncate(9)", f"({s})|reverse",
            f"({s})|escape", f"({s})|e|string", f"({s})|string", f"({self.any(depth - 1)})|string",
            f"({self.list(depth - 1)})|join({o})", f"{o}.join({self.list(depth - 1)}|map('string'))",
            f"({s}).split({self.separator()})[{self.pick(0, -1)}]", f"({s}).partition(' ')[{self.pick(0, 1, 2)}]",
            f"({s}).rpartition('a')[2]", f"({s}).removeprefix({o})", f"({s}).removesuffix({o})",
            f"'%s-%s'|format({s}, {self.any(depth - 1)})", f"'%5s|%-7s|%.2s' % ({s}, {o}, {s})",
            f"'%d %5.2f %x %05d %+d %e %g' % ({self.number(0)}|int, {self.number(0)}, {n}, {n}, {n}, {self.number(0)}, {self.number(0)})",
            f"'{{}} {{!r}} {{:>12}} {{:^9}}|'.format({self.any(depth - 1)}, {s}, {o}, {self.string(0)})",
            f"'{{0:05d}} {{1:.3f}} {{a:,}} {{2[0]}}'.format({n}, {self.number(0)}, {self.list(0)}, a={self.number(0)})",
            f"({self.any(depth - 1)})|tojson", f"({self.any(depth - 1)})|tojson(indent={n})",
            f"({self.any(depth - 1)})|tojson(ensure_ascii={self.pick('true', 'false')})",
            f"({self.any(depth - 1)})|tojson(separators=(',', ':'), sort_keys={self.pick('true', 'false')})",
            f"({s}|safe) + {o}", f"({self.any(depth - 1)}) | default({o})", f"{s} if {self.bool(depth - 1)} else {o}",
        )

    def number(self, depth):
        if depth <= 0 or self.rng.random() < 0.25:
            return self.rng.choice(NUMBERS)
        a, b = self.number(depth - 1), self.number(depth - 1)
        s = self.string(depth - 1)
        return self.pick(
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / {b})", f"({a} // {b})", f"({a} % {b})",
            f"({self.small()} ** {self.small()})", f"({a} ** {self.pick('-1', '0.5', '2')})", f"-({a})", f"(+{a})", f"({a})|abs", f"({a})|round", f"({a})|round({self.small()})",
            f"({a})|round(1, 'floor')", f"({a})|round(0, 'ceil')", f"({a})|int", f"({a})|float", f"({s})|int", f"({s})|int(default=5)",
            f"'{self.pick('42', ' 7 ', '1_0', '0x1f', '-3', '2.9', '1e2', 'x')}'|int", f"'0x1f'|int(0, 16)",
            f"'{self.pick('4.25', ' 7 ', 'nan', '-1e-7', 'x')}'|float", f"({self.list(depth - 1)})|length",
            f"({self.list(depth - 1)})|count", f"({s})|length", f"({s})|wordcount", f"({s}).find({self.string(0)})",
            f"({s}).rfind('a', {self.small()})", f"({s}).count({self.string(0)})", f"({s}).index('l')",
            f"({self.numbers()})|sum", f"({self.numbers()})|sum(start={a})", f"users|sum('age')", f"({self.numbers()})|max", f"({self.numbers()})|min",
            f"({self.list(0)}|list).index({self.pick(1, 2)})", f"({self.list(0)}|list).count('a')",
            f"({self.dict(0)}).get({self.string(0)}, {a})", f"{a} if {self.bool(depth - 1)} else {b}",
        )

    def bool(self, depth):
        if depth <= 0:
            return self.pick("b", "nb", "true", "false", "True", "none is none", "i > 3")
        a, b = self.any(depth - 1), self.any(depth - 1)
        s, o = self.string(depth - 1), self.string(depth - 1)
        x, y, z = self.number(depth - 1), self.number(depth - 1), self.number(0)
        test = self.pick("defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false",
                         "mapping", "sequence", "iterable", "callable", "not defined", "not none", "not string")
        return self.pick(
            f"({a} == {b})", f"({a} != {b})", f"({x} < {y})", f"({x} <= {y} < {z})", f"({s} > {o})", f"({s} in {o})", f"({s} not in {o})",
            f"({a} in {self.list(0)})", f"({s} in {self.dict(0)})", f"not {a}", f"({self.bool(depth - 1)} and {self.bool(0)})",
            f"({self.bool(depth - 1)} or {self.bool(0)})", f"({a} is {test})", f"({s}).startswith({o})", f"({s}).endswith({o})",
            f"({s}).startswith(('H', 'n'), {self.small()})", f"({s}) is {self.pick('lower', 'upper')}", f"({s}).{self.pick('isalpha', 'isdigit', 'isalnum', 'isspace', 'isupper', 'islower', 'istitle', 'isnumeric', 'isdecimal', 'isascii', 'isidentifier', 'isprintable')}()",
            f"({x}) is {self.pick('odd', 'even')}", f"({x}) is divisibleby {self.pick(1, 2, 3)}", f"({a}) is {self.pick('eq', 'equalto', 'ne')}({b})",
            f"({x}) is {self.pick('gt', 'ge', 'lt', 'le')} {z}", f"({s}) is in {self.list(0)}", f"'{self.pick('upper', 'nope')}' is filter", f"'{self.pick('odd', 'nope')}' is test",
        )

    def list(self, depth):
        if depth <= 0 or self.rng.random() < 0.25:
            return self.rng.choice(LISTS)
        l = self.list(depth - 1)
        return self.pick(
            f"({l})[{self.slice()}]", f"({l})|list", f"({l})|reverse|list", f"({l})|unique|list", f"({self.numbers()})|sort", f"({self.numbers()})|sort(reverse=true)",
            f"ls|sort", f"ls|sort(case_sensitive=true)", f"users|sort(attribute='age,name')", f"users|sort(attribute='name', reverse=true)|map(attribute='name')|list",
            f"({l})|map('{self.pick('string', 'tojson', 'default', 'list', 'length', 'upper')}')|list", f"users|map(attribute='{self.pick('name', 'tags', 'tags.0', 'extra.deep')}', default='?')|list",
            f"({l})|select|list", f"({l})|reject|list", f"({l})|select('{self.pick('string', 'number', 'defined', 'none', 'mapping', 'iterable')}')|list",
            f"({l})|reject('{self.pick('string', 'number', 'none')}')|list", f"({l})|select('in', {self.list(0)})|list", f"({self.numbers()})|select('gt', 1)|list",
            f"users|selectattr('ok')|map(attribute='name')|list", f"users|rejectattr('ok')|list", f"users|selectattr('age', 'equalto', 30)|list", f"users|rejectattr('extra', 'defined')|list",
            f"({l})|batch({self.small()}1)|list", f"({l})|batch(2, '-')|list", f"({l})|slice(2)|list", f"({l})|slice(3, 'f')|list", f"({l})|list + {self.list(0)}|list", f"({self.pick('[1]', '(1, 2)')}) * {self.small()}",
            f"({self.dict(0)})|dictsort", f"d|dictsort(by='key', reverse=true)", f"({self.dict(0)}).items()|list", f"({self.dict(0)})|items|list", f"users|groupby('age')|map('first')|list",
            f"users|groupby('age')|map(attribute='list')|map('length')|list", f"({self.string(depth - 1)}).split({self.separator()})", f"({self.string(depth - 1)}).rsplit({self.separator()}, {self.small()})",
            f"({self.string(depth - 1)}).split(none, {self.small()})", f"({self.string(depth - 1)}).splitlines({self.pick('', 'true')})", f"[{self.any(depth - 1)}, {self.any(depth - 1)}]",
            f"({self.any(depth - 1)}, {self.any(0)})", f"({self.list(0)}|list).copy()", f"[{self.list(0)}|first, {self.list(0)}|list|last]", f"[l|max, ls|min, e|first|default('none')]",
        )

    def dict(self, depth):
        if depth <= 0 or self.rng.random() < 0.5:
            return self.rng.choice(DICTS)
        return self.pick(f"{{'x': {self.any(depth - 1)}, 'y': {self.any(depth - 1)}}}", f"dict({self.dict(0)}, z={self.any(depth - 1)})", f"{{{self.string(0)}: 1, {self.number(0)}: 2}}", f"dict([('a', 1), ('b', {self.any(0)})])")

    def numbers(self):
        return self.pick("l", "[1, 2.5, -3]", "range(4)", "[]", "[i, f, z]", "users|map(attribute='age')|list", "(b, nb, 2)")

    def small(self):
        return self.rng.choice([0, 1, 2, 3])

    def separator(self):
        return self.pick("", "' '", "','", "'a'", "'\\n'", "'lo'")

    def slice(self):
        bound = lambda: self.pick("", "0", "1", "2", "-1", "-3", "99", "-99")  # noqa: E731
        return self.pick(self.pick("0", "1", "-1", "-2", "50"), f"{bound()}:{bound()}", f"{bound()}:{bound()}:{self.pick('', '1', '2', '-1', '-2')}")

    def any(self, depth):
        if self.rng.random() < 0.06:
            return self.rng.choice(UNDEFINED)
        if self.rng.random() < 0.05:
            return "n"
        return self.pick(self.string, self.number, self.bool, self.list, self.dict)(depth)

    # Statements.

    def blank(self):
        return self.pick("", "", " ", "\n", "\n  ", "text", " text\n", "\t", "x\n\n", "é\u00a0", "\r\n")

    def tag(self, content):
        return "{%" + self.pick("", "", "-", "+") + " " + content + " " + self.pick("", "", "-", "+") + "%}"

    def output(self, expression):
        return "{{" + self.pick("", "", "-", "+" if self.rng.random() < 0.1 else "") + " " + expression + " " + self.pick("", "", "-") + "}}"

    def statement(self, depth, names, in_loop):
        around = self.blank
        body = lambda loop=in_loop, more=(): self.body(depth - 1, [*names, *more], loop)  # noqa: E731
        if depth <= 0:
            return around() + self.output(self.pick(*(names or ["s"]), self.any(1)))
        kind = self.rng.randrange(14)
        if kind <= 2:
            return around() + self.output(self.any(2))
        if kind == 3:
            return around() + self.tag(f"if {self.bool(1)}") + body() + self.maybe(self.tag(f"elif {self.any(1)}") + body()) + self.maybe(self.tag("else") + body()) + self.tag("endif")
        if kind <= 6:
            name = self.pick("x", "y")
            loop_value = self.pick("index", "index0", "first", "last", "length", "revindex", "revindex0", "depth", "previtem", "nextitem", "cycle('a', 'b')", f"changed({name})")
            condition = self.maybe(f" if {name} is {self.pick('defined', 'string', 'number', 'not none')}", 0.3)
            extra = self.output(f"loop.{loop_value}")
            jump = self.maybe(self.tag(f"if {self.pick('loop.index > 2', 'x is string', 'loop.last')}") + self.tag(self.pick("break", "continue")) + self.tag("endif"), 0.3)
            return around() + self.tag(f"for {name} in {self.list(1)}{condition}") + extra + jump + body(True, [name, "loop.index"]) + self.maybe(self.tag("else") + body(), 0.3) + self.tag("endfor")
        if kind == 7:
            return around() + self.tag(f"for k, v in {self.pick('d.items()', 'users[0].items()', 'ed|items', 'd|dictsort', '[(1, 2), (3, 4)]')}") + body(True, ["k", "v"]) + self.tag("endfor")
        if kind == 8:
            return around() + self.tag(f"set {self.pick('r', 'w', 'x')} = {self.any(1)}") + self.maybe(self.output("w")) + body()
        if kind == 9:
            return around() + self.tag(self.pick("set w", "set w | upper", "set w | trim | length")) + body() + self.tag("endset") + self.output("w")
        if kind == 10:
            return around() + self.tag(f"with w = {self.any(1)}, x = {self.any(0)}") + body(in_loop, ["w", "x"]) + self.tag("endwith") + self.maybe(self.output("w"))
        if kind == 11:
            return around() + self.tag(f"filter {self.pick('upper', 'trim', 'title', 'indent(2, true)|lower', 'tojson')}") + body() + self.tag("endfilter")
        if kind == 12:
            return around() + self.tag("set ns = namespace(v=0, s='')") + self.tag(f"for x in {self.list(0)}") + self.tag("set ns.v = ns.v + 1") + self.tag("set ns.s = ns.s ~ x") + self.tag("endfor") + self.output("ns.v") + self.output("ns.s")
        name = self.pick("m1", "m2")
        return (around() + self.tag(f"macro {name}(a, c='dflt')") + self.body(depth - 1, ["a", "c"], False) + self.maybe(self.output("caller()"), 0.3) + self.tag("endmacro")
                + self.pick(self.output(f"{name}({self.any(0)})"), self.output(f"{name}({self.any(0)}, c={self.any(0)})"), self.tag(f"call {name}(1)") + body() + self.tag("endcall"), self.output(f"{name}()")))

    def body(self, depth, names, in_loop):
        text = self.blank()
        for _ in range(self.rng.choice([1, 1, 2])):
            text += self.statement(depth, names, in_loop)
        if self.rng.random() < 0.15:
            text += self.pick("{# note #}", "{#- note -#}", "{%- raw %}{{ raw }}{% endraw %}", "{# a\nb #}\n", "{#+ x +#}\n", "{% raw -%} r {%- endraw -%} ")
        return text + self.blank()


def cases(rng):
    maker = Maker(rng)
    for number in range(2500):
        kind = number % 5
        make = [maker.string, maker.number, maker.bool, maker.list, maker.any][kind]
        yield f"expression {number}", "{{ " + make(1 + number % 3) + " }}", VARIABLES
    for number in range(900):
        yield f"statements {number}", maker.body(1 + number % 3, [], False), VARIABLES
