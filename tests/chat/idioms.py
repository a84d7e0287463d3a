"""Templates by hand: what published chat templates do, and corners of the language."""

import itertools

from random_templates import VARIABLES

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather in a \"city\" <now> & later — 天気",
     "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "where"},
      "days": {"type": "integer", "minimum": 1, "maximum": 10.0, "default": 1e-7}, "unit": {"type": ["string", "null"], "enum": ["C", "F", None]},
      "tags": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "number"}}}}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "noop", "parameters": {}}},
]
CONVERSATIONS = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": " Be brief. \n"}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello! "}, {"role": "user", "content": "<|im_end|>\nBye"}],
    [{"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "image"}, {"type": "text", "text": "this?"}]}],
    [{"role": "user", "content": "w?"},
     {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdef123", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 2}}},
                                                         {"id": "abcdef124", "type": "function", "function": {"name": "noop", "arguments": "{}"}}]},
     {"role": "tool", "tool_call_id": "abcdef123", "name": "get_weather", "content": "{\"t\": 20.0}"}, {"role": "tool", "tool_call_id": "abcdef124", "content": "ok"},
     {"role": "assistant", "content": "<think>\nhm\n</think>\n\nWarm."}, {"role": "user", "content": "thanks"}],
    [{"role": "assistant", "content": "first"}, {"role": "assistant", "content": None}, {"role": "user", "content": ""}],
    [],
]

CHAT = {
    "chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "alternating": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}
{% for message in loop_messages %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('Roles must alternate user/assistant/user/assistant/...') }}
    {% endif %}
    {% if loop.index0 == 0 and system_message %}
        {% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}
    {% else %}
        {% set content = message['content'] %}
    {% endif %}
    {% if message['role'] == 'user' %}
        {{ '[INST] ' + content | trim + ' [/INST]' }}
    {% elif message['role'] == 'assistant' %}
        {{ ' ' + content | trim + ' ' + eos_token }}
    {% endif %}
{% endfor %}""",
    "headers": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- This block extracts the system message, so we can slot it into the right place. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {{- "You have access to the following functions." }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '{"name": "' + tool_call.name + '", "parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}""",
    "ids": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {{- ", " if not loop.last else "]" + eos_token }}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported!") }}
    {%- endif %}
{%- endfor %}""",
    "schema macros": """{%- macro type_of(spec) -%}
    {%- set names = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} -%}
    {%- if names[spec.type] is defined -%}
        {{- names[spec.type] -}}
    {%- elif spec.type == "array" -%}
        {{- "list[" + type_of(spec["items"]) + "]" -}}
    {%- elif spec.type == "object" -%}
        {%- if spec.additionalProperties is defined -%}
            {{- "dict[str, " + type_of(spec.additionalProperties) + "]" -}}
        {%- else -%}
            {{- "dict" -}}
        {%- endif -%}
    {%- elif spec.type is iterable and spec.type is not string -%}
        {{- "Union[" -}}
        {%- for t in spec.type -%}
            {{- type_of({"type": t}) -}}
            {%- if not loop.last -%}{{- "," -}}{%- endif -%}
        {%- endfor -%}
        {{- "]" -}}
    {%- else -%}
        {{- "Any" -}}
    {%- endif -%}
{%- endmacro -%}
{%- macro properties(schema, depth=0) -%}
    {%- for name, spec in (schema.properties or {})|dictsort -%}
        {{ "\\n" }}{{ "  " * depth }}- {{ name }}: {{ type_of(spec) }}{% if name in (schema.required or []) %} (required){% endif %}
        {%- if spec["default"] is defined %} = {{ spec.default }}{% endif %}
        {%- if spec.enum %} one of {{ spec.enum | map("tojson") | join(" | ") }}{% endif %}
        {%- if spec["items"] is defined and spec["items"].properties is defined -%}{{ properties(spec["items"], depth + 1) }}{%- endif -%}
    {%- endfor -%}
{%- endmacro -%}
{%- for tool in tools or [] %}
{% if tool.function is defined %}{% set tool = tool.function %}{% endif %}
def {{ tool.name }}({% for p in tool.parameters.properties %}{{ p }}{{ ", " if not loop.last }}{% endfor %}):
    \"\"\"{{ tool.description | default("no description") | indent(4) }}{{ properties(tool.parameters, 1) }}\"\"\"
{% endfor %}
{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}""",
    "parts": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\n'}}
{%- endif -%}""",
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{% set x = 1 %}{{ m.content }}{{ x }}{% endgeneration %}{{ x }}{% else %}<{{ m.role }}>{{ m.content }}{% endif %}\n{% endfor %}",
    "loop controls": "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ loop.index }}:{{ m.content }}{% if loop.index0 >= 2 %}{% break %}{% endif %};{% else %}none{% endfor %}",
    "last user": "{% set ns = namespace(last=-1) %}{% for m in messages[::-1] %}{% if ns.last == -1 and m.role == 'user' %}{% set ns.last = messages|length - 1 - loop.index0 %}{% endif %}{% endfor %}{{ ns.last }} {{ messages | map(attribute='role') | join(',') }} {{ (messages | selectattr('role', 'in', ['user', 'tool']) | list | last).content }}",
}

EXPRESSIONS = """
1 + 2 * 3 ** 2 - -4
2 ** 3 ** 2
-2 ** 2
7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 % -3, 7.5 // 2, -7.5 % 2, 1 / 3, 4 / 2
1e16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 0.1 + 0.2, -0.0, 1e22, 1.5e300, 5e-324, 100.0, 1e100
10 ** 18, 10 ** -2, 2 ** 0.5, true + true, true * 3
true and 0, 0 or 'x', '' or [] or none, not '', 1 and 2 and 3
1 < 2 < 3, 1 < 3 < 2, 1 == 1.0 == true, 'a' < 'b' != 'c', 3 > 2 >= 2
'a' in 'abc', 'd' not in 'abc', 1 in [1, 2], 'a' in d, 'z' in ed, none in [none]
[1, 'a', none, true, 1.0, [], {}, (), (1,), 'it\\'s', "q\\"q", 'both\\'"', '\\n\\t\\\\', '\\x00\\x7f\\xa0\\u200b日本']
{'a': 1, 2: [3], none: none, true: 'x', 1.5: ()}
{1: 'a', true: 'b', 1.0: 'c'}
s[0], s[-1], s[100], s[2:5], s[::-1], s[-5:], s[:-5], s[10:2], u[1], u[::2], u[5:8]
l[0], l[-1], l[5], l[1:], l[::-1], l[:2], range(10)[3], range(10)[2:8:3], (1, 2, 3)[1:]
n[1:]
5[1:]
d[1:]
none[1:]
[1].x[1:]
d.a[1:]
d['zz'][1:]
(s|length)[1:]
l[0][1:]
5[l[0]:]
(1.5)[:2]
true[::2]
none[:3] is defined
{}[:]
(l|map('string'))[1:]
loop_messages[1:]
l.0, l[true], users.0.name, users[0]['name'], d.a, d['a'], d.get('a'), d.get('zz'), d.get('zz', 3), d['get'], d.items
nope, nope.x
nope is defined, nope is undefined, nope is none, d.nope is defined, (nope|default('x')), (d.nope|default(0)), ('' | default('y', true)), (n|default('z')), (n|default('z', boolean=true))
nope + 1
nope ~ 'x' ~ 1 ~ none ~ true ~ 1.0 ~ [1]
nope == nope, nope == none, nope != 1, not nope, nope|length, nope|list, nope|join, nope|string, (nope|upper), (nope|int(3))
for_ if false, ('a' if true), ('a' if false), ('a' if false else 'b' if false else 'c')
d is mapping, l is mapping, l is sequence, s is sequence, d is sequence, range(3) is sequence, 1 is sequence, d.items() is sequence, (l|map('string')) is sequence, (l|map('string')) is iterable
1 is number, true is number, 1.5 is number, '1' is number, 1 is integer, true is integer, 1.0 is integer, 1.0 is float, true is boolean, 0 is boolean, 1 is true, true is true, false is false
3 is odd, 4 is even, 9 is divisibleby 3, 9 is divisibleby(2), 1 is eq 1, 1 is ne 2, 1 is lt 2, 2 is gt 1, 'a' is in 'abc', 'a' is in ['b'], 5 is not odd, 5 is not none
s is string, s is not string, 'abc' is lower, 'ABC' is upper, 'Abc' is lower, range is callable, s is callable, none is none, nope is not defined and s is defined
s|length, u|length, l|length, d|length, ''|length, (range(5)|length)
5|length
(l|map('string'))|length
l|map('string')|first, l|first, l|last, []|first, ''|last, s|first, s|last, d|first, d|last
l|map('string')|last
l|join, l|join('-'), ls|join(', '), users|join('|', attribute='name'), 'abc'|join('.'), d|join, [1, none, true, 2.5]|join(' ')
l|sort, l|sort(reverse=true), ls|sort, ls|sort(true), ls|sort(case_sensitive=true), ['b', 'A', 'a', 'B']|sort, users|map(attribute='name')|sort
[1, 'a']|sort
ls|unique|list, ls|unique(true)|list, m|unique|list
[3, 1, 2]|min, [3, 1, 2]|max, ['b', 'A']|min, ['b', 'A']|max(case_sensitive=true), []|min, users|min(attribute='age'), 'hello'|max
l|sum, []|sum, l|sum(start=10), users|sum(attribute='age'), [1.5, 2]|sum, [[1], [2]]|sum(start=[])
['a']|sum
l|reverse|list, s|reverse, (l|map('string')|reverse|list), d|reverse|list
users|map(attribute='name')|list, users|map(attribute='tags.0')|list, users|map(attribute='nope', default='-')|list, users|map('length')|list, l|map('abs')|list, ls|map('upper')|list, ls|map('replace', 'a', 'b')|list
users|selectattr('ok')|map(attribute='name')|list, users|rejectattr('ok')|map(attribute='name')|list, users|selectattr('age', 'gt', 26)|list|length, users|selectattr('name', '==', 'Bob')|list|length, users|selectattr('nope')|list, users|selectattr('extra', 'defined')|list|length
l|select('odd')|list, l|reject('odd')|list, l|select|list, m|select('string')|list, l|select('in', [1, 2])|list, l|select('divisibleby', 2)|list
l|select('nope')|list
l|map('nope')|list
users|groupby('age')|list
users|groupby('age')|map(attribute='grouper')|list, users|groupby('age')|map(attribute='list')|map('length')|list
l|batch(2)|list, l|batch(2, 'x')|list, l|slice(2)|list, l|slice(2, 'x')|list, range(7)|batch(3)|map('list')|list
d|dictsort, d|dictsort(false, 'key', true), {'b': 2, 'A': 1}|dictsort, {'b': 1, 'a': 2}|dictsort(by='value')
d|items|list, ed|items|list, nope|items|list
5|items
d.items()|list, d.keys(), d.values(), d.items(), d.keys()|list, d.values()|list, 'a' in d.keys(), 1 in d.values(), d.items()|length
d.items()[0]
5|abs, -5|abs, (-5)|abs, (-2.5)|abs, (0 - 3)|abs
2.5|round, 3.5|round, 2.567|round(2), 2.5|round(0, 'ceil'), 2.5|round(method='floor'), 1234.5|round(-2), 5|round, 0.125|round(2), 2.675|round(2), -2.5|round
'12'|int, ' 12 '|int, '12.9'|int, 'x'|int, 'x'|int(7), 12.9|int, -12.9|int, true|int, none|int, '1e3'|int, '0x1f'|int(base=16), '101'|int(0, 2), []|int(9), '1_000'|int, ''|int, '-'|int
'1.5'|float, 'x'|float, 'x'|float(2.5), 3|float, 'inf'|float, 'nan'|float, '1_0.5'|float, none|float, ' -1e3 '|float
'abc'|upper, 'ABC'|lower, 'hello world-foo (bar) [baz] <q>'|title, 'hELLO wORLD'|capitalize, "it's me"|title, "it's me".title(), 'ǆ ß ŉ ﬁ'|upper, 'ǆ ß'.title(), 'ΑΣ ΑΣΑ'|lower, 'İ'|lower, 'ß'.casefold()
'  x  '|trim, 'xxaxx'|trim('x'), '\\u3000x\\u2003'|trim, 5|trim, none|upper
'a b  c'.split(), 'a b  c'.split(' '), 'a,b,c'.split(',', 1), ' a b '.rsplit(none, 1), 'a,b,c'.rsplit(',', 1), 'abc'.split('x'), ''.split(), ''.split(','), '  '.split(), 'a\\nb\\r\\nc\\n'.splitlines(), 'a\\n\\nb'.splitlines(true)
'abc'.split('')
'a-b-c'.partition('-'), 'a-b-c'.rpartition('-'), 'abc'.partition('-'), 'abc'.rpartition('-')
'aXbX'.replace('X', ''), 'aaa'.replace('a', 'b', 2), 'abc'.replace('', '-'), 'aaa'|replace('a', 'b', 2), 5|replace(5, 6), ''.replace('', 'x'), 'abc'|replace('b', none)
'hello'.find('l'), 'hello'.rfind('l'), 'hello'.find('z'), 'hello'.find('l', 3), 'hello'.find('', 9), 'naïve'.find('v'), 'hello'.count('l'), 'aaa'.count('aa'), 'abc'.count(''), 'hello'.index('e')
'hello'.index('z')
'hello'.startswith('he'), 'hello'.startswith(('x', 'he')), 'hello'.endswith('lo'), 'hello'.startswith('l', 2), 'hello'.endswith('l', 0, 3), ''.startswith(''), 'a'.startswith('', 5)
'x'.center(5), 'x'.center(4, '*'), 'xx'.center(5, '-'), 'x'.ljust(3, '.'), 'x'.rjust(3), '-5'.zfill(4), '5'.zfill(3), 'a\\tb'.expandtabs(), 'a\\tbc\\td'.expandtabs(4), 'x'|center(5), 'abc'|center
'abc'.isalpha(), '12'.isdigit(), '½'.isnumeric(), '²'.isdigit(), '²'.isdecimal(), ' '.isspace(), ''.isalpha(), 'aB'.isupper(), 'AB1'.isupper(), 'Ab Cd'.istitle(), 'a_1'.isidentifier(), '1a'.isidentifier(), 'é'.isascii(), '\\n'.isprintable()
'prefix-x'.removeprefix('prefix-'), 'x.txt'.removesuffix('.txt'), 'x'.removeprefix('y'), 'aBc'.swapcase()
','.join(['a', 'b']), ''.join('abc'), ', '.join(d), '-'.join(ls|map('upper'))
','.join([1, 2])
'%s %r %d %5.1f %-5s| %05d %x %o %X %e %g %%' % ('a', 'b', 3, 2.25, 'c', 42, 255, 8, 255, 12345.678, 0.0001)
'%s' % 'x', '%s' % [1], '%(a)s-%(b)d' % {'a': 1, 'b': 2}, '%s and %s'|format('a', 'b'), '%(x)s'|format(x=5), '%c' % 'x', '%5s|%-5s|%.2s' % ('a', 'b', 'abcdef'), '%+d % d %#x' % (1, 2, 255), '%s' % none, '%d' % 2.9, '%.3d' % 5
'%d' % 'x'
'%s %s' % 'x'
'%s' % ('a', 'b')
'{} {}'.format(1, 'a'), '{0}{1}{0}'.format('a', 'b'), '{x}'.format(x=1), '{:>5}|{:<5}|{:^5}|{:*^5}'.format('a', 'b', 'c', 'd'), '{:05d} {:,} {:_} {:+} {:x} {:#x} {:b}'.format(42, 1234567, 1234567, 5, 255, 255, 5)
'{:.2f} {:e} {:g} {:%} {:10.3f}| {:.3}'.format(3.14159, 12345.678, 0.0001, 0.25, 2.5, 'abcdef'), '{!r} {!s}'.format('a', 'b'), '{0[a]} {1.name}'.format(d, users[0]), '{{}}'.format(), '{:{w}}|'.format('a', w=4), '{:.1f}'.format(2), '{}'.format(none), '{:5}|{:<5}|'.format(42, 42)
'{}'.format()
'{a}'.format(b=1)
'{:d}'.format('x')
'{0.__class__}'.format(s)
s.format_map({'a': 1}), '{a}'.format_map({'a': 1})
'{} {1}'.format(1, 2)
'{1} {}'.format(1, 2)
'{} {} {a}'.format(1, 2, a=3), '{1} {0} {1}'.format(1, 2), '{0[0]} {}'.format('ab', 2), '{:{}}|'.format('x', 4), '{0:{1}}|'.format('x', 4)
'{0:{}}'.format('x', 4)
('%s'|safe) % '<', ('%s%%'|safe) % ('<b>'|safe), ('%s %s %d'|safe) % ('<', '<i>'|safe, 3), ('%(a)s'|safe) % {'a': '&'}, ('%r'|safe) % '<', ('<%s>'|safe)|format('<'), '%s' % ('<'|safe), ('%5s|'|safe) % 'a', ('%s'|safe) % [1, '<'], (('%s'|safe) % '<') ~ '<'
('{}'|safe).format('<'), ('{} {}'|safe).format('<', '<i>'|safe), ('{!r}'|safe).format('<'), ('{a:>3}|'|safe).format(a='<'), ('<{}>'|safe).format(1), ('{a}'|safe).format_map({'a': '&'})
('{:>3}'|safe).format('<i>'|safe)
'<a&"\\'>'|e, '<a>'|escape|escape, '<a>'|forceescape, ('<a>'|safe), ('<a>'|safe) ~ '<b>', ('<a>'|safe) + '<b>', '<b>' + ('<a>'|safe), ('<a>'|safe)|upper, ['<a>'|e]
'a b c'|wordcount, 'it\\'s a_b 中文 x'|wordcount, ''|wordcount
'a\\nb\\n\\nc'|indent, 'a\\nb'|indent(2, true), 'a\\n\\nb'|indent(2, false, true), 'a\\nb'|indent('>> '), 'a'|indent(first=true), 'a\\n'|indent
'hello big world'|truncate(9), 'hello big world'|truncate(9, true), 'hello'|truncate(9), 'hello big world'|truncate(11, false, '…', 0)
users[0]|tojson, m|tojson, d|tojson(indent=2), ed|tojson(indent=2), [[]]|tojson(indent=1), u|tojson, u|tojson(ensure_ascii=true), q|tojson, d|tojson(sort_keys=true), d|tojson(separators=(',', ':')), (1, 2)|tojson, {1: 2, none: 3, true: 4, 1.5: 5}|tojson, [1e20, 1e-7, 0.1, big]|tojson, d|tojson(true), l|tojson(indent='\\t')
nope|tojson
range(3)|tojson
(l|map('string'))|tojson
s|tojson|tojson, ('<a>'|safe)|tojson, 'nan'|float|tojson, 'inf'|float|tojson
range(5), range(1, 5), range(0, 10, 2), range(5, 0, -1)|list, range(0), range(3) == range(3), 2 in range(5), range(5)|last, range(0)|first
range(1, 5, 0)
range(100001)
range(100000)|length
[1] + [2], (1,) + (2,), [1] * 3, 2 * 'ab', 'ab' * 0, 'ab' * -1, [[]] * 2
[1] + (2,)
'a' + 1
'a' * 'b'
1 + none
[] < {}
1 < 'a'
[1, 2] < [1, 3], (1, 2) == (1, 2), [1] == (1,), {'a': 1} == {'a': 1.0}, 'a' == 'a', none == false, 'é' < 'z'
1 / 0
1 % 0
1 // 0.0
s.nope, s.nope is defined, l.nope is defined, 5 .nope is defined, none.x is defined
none['x'], none.x.y
s.__class__, s.__class__ is defined, s['__class__'], l.__len__ is defined
s.__class__.__mro__
l.append(1)
d.update({'x': 1})
d.pop('a')
l.sort()
l.append, d.clear is defined
l.index(1), l.count(3), l.copy(), d.copy(), (1, 2, 1).count(1), (1, 2).index(2), (2.0).is_integer(), 7 .bit_length()
l.index(99)
d._p, d['_p'], users[0]._x is defined
namespace(a=1, b='x').a, namespace({'k': 2}).k, namespace().nope is defined, namespace(a=1)['a'], dict(a=1)|tojson, dict([('x', 1)], y=2), dict({'x': 1}, x=3)
cycler('a', 'b').next(), joiner('|')()
s|attr('upper') is defined, d|attr('a') is defined, d|attr('items') is defined
raise_exception('no ' ~ s)
strftime_now('%Y-%m-%d')
s()
d.a()
nope()
upper(s)
'a' 'b' "c", 'tab\\tq\\'q', "d\\"d", '\\d \\é \\x41\\u0042\\U00000043\\103 \\/', 'line\\
continued'
0x1F, 0o17, 0b101, 1_000_000, 1_0.5, 1e3, 1E-3, 0, 00
(1), (1,), (), [1,], {'a': 1,}, [[1, 2], [3]][1][0]
[1, 2, 3][1:][0], (s ~ '!')[-1], ('a' ~ 'b')|upper, -l[0], not l, -(1 + 2)|abs, (1, 2)|join, 3 is odd and 4 is even, not 3 is odd
s|replace('l', 'L')|upper|length, 'a,b'.split(',')|map('upper')|join('-'), s|default('x')|lower
l|map(attribute='x')|list, [{'a': 1}, {}]|map(attribute='a')|list, [[1, 2], [3]]|map('first')|list, [[1, 2], [3]]|map(attribute=0)|list, [[1, 2]]|map(attribute='1')|list
m|map('default', 'q')|list, m|map('string')|join(','), [1, 2]|map('float')|list, ['1', 'b']|map('int', 5)|list
loop, super
caller
f(1), f.x
true.x, True, False, None, none, TRUE
1 if 0, 2 if 1 else 3, (1 if b else 2) + 1
[x for x in l]
l | sort | first, l|length > 2, s|length == 12 and not e, i|string + 'x', 1|string|length, 1 ~ 2, 1~2|string
'é' ~ 'e\\u0301', ('é' == 'e\\u0301'), '🙂'|length, '🙂'[0], '👨‍👩‍👧'|length, '日本語'[1:], 'aé🙂'|reverse, 'aé🙂'|list
s == 'Hello, World' and s != '', s|lower == 'hello, world', (s, i)|string, s in [s], s in s
"{{ not a tag }}", '{% nor this %}', '{# or this #}'
{'a': {'b': {'c': [1, 2, {'d': 'x'}]}}}.a.b.c[2].d, {'a': 1}['a'], {'items': 5}['items'], {'items': 5}.items is callable, {'x': {'y': 1}}.x['y']
1.5.real, i.real, i.numerator, 5|float|string, 3.0|int|string, h|int, 1e15|int
h|string, (h * 10)|string, 2.0 ** 70, -1e-5, 1/3*3, 1e308 * 10, -1e308 * 10, 0.1 * 3, 100 * 1.1, 3.0 // 0.7, 5.5 % -2, -5.5 % 2
"a" if s else "b", "a" if e else "b", "a" if z else "b", "a" if el else "b", "a" if ed else "b", "a" if n else "b", "a" if range(0) else "b", "a" if k else "b", "a" if (l|map('string')) else "b"
""".strip().replace("\\\n", "\\\x00").split("\n")

STATEMENTS = [
    "{% for x in [1, 2, 3] %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "{% for x in [] %}x{% else %}empty{% endfor %}|{% for x in nope %}x{% else %}none{% endfor %}",
    "{% for x in [1, 2, 3, 4] if x is even %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}no{% endfor %}{% for x in [1] if x > 5 %}{% else %}nothing{% endfor %}",
    "{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}-{{ b }} {% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% for x in 5 %}{{ x }}{% endfor %}",
    "{% for x in none %}{{ x }}{% endfor %}",
    "{% for c in 'aé🙂' %}[{{ c }}]{% endfor %}{% for k in d %}{{ k }},{% endfor %}{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for x in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('o', 'e') }}{{ loop.changed(x // 2) }};{% endfor %}",
    "{% for x in [1, 2] %}{% for y in 'ab' %}{{ loop.index }}{{ y }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in [1, 2] %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% set t = [{'v': 1, 'c': [{'v': 2, 'c': []}, {'v': 3}]}] %}{% for n in t recursive %}{{ n.v }}@{{ loop.depth }}({{ loop(n.c) if n.c }}){% endfor %}",
    "{% for x in [1, [2, [3]]] recursive %}{{ loop(x) if x is not number else x }},{% endfor %}",
    "{% for x in [1] %}{{ loop([2]) }}{% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}!",
    "{% set ns = namespace(n=0) %}{% for x in [1, 2, 3, 4, 5] if ns.n < 2 %}{% set ns.n = ns.n + 1 %}{{ x }}{% endfor %}!",
    "{% set ns = namespace(n=0) %}{% for x in [1, 2, 3, 4, 5] if ns.n < 2 %}{{ loop.length }}{% set ns.n = ns.n + 1 %}{{ x }}{% endfor %}!",
    "{% set ns = namespace(n=0) %}{% for x in [1, 2, 3, 4, 5] if ns.n < 2 %}{% set ns.n = ns.n + 1 %}{{ x }}{{ ',' if not loop.last }}{% endfor %}!",
    "{% set ns = namespace(n=0) %}{% for x in [1, 2, 3, 4, 5] if ns.n < 3 %}{{ x }}{{ loop.nextitem }}{% set ns.n = ns.n + 1 %}{{ loop.previtem }}{{ loop.revindex }}{% else %}none{% endfor %}!",
    "{% set ns = namespace(seen=[]) %}{% for m in messages if m.role not in ns.seen %}{% set ns.seen = ns.seen + [m.role] %}{{ loop.index }}{{ m.role }}{% endfor %}",
    "{% set ns = namespace(n=0) %}{% macro bump() %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{% endmacro %}{% for x in [5, 6, 7, 8] if bump()|int is odd %}{{ x }}:{{ ns.n }}/{{ loop.length }} {% endfor %}{% for x in [5, 6, 7, 8] if bump()|int is odd %}{% if x > 6 %}{% break %}{% endif %}{{ x }}{% endfor %}{{ ns.n }}",
    "{% set ns = namespace(l=0) %}{% for x in [1, 2, 3] if ns.l == 0 or ns.l.length > 0 %}{% set ns.l = loop %}{{ x }}{% endfor %}",
    "{% for x in [1, [2, [3, 0]]] if x recursive %}{{ loop(x) if x is not number else x }}{{ loop.length }},{% endfor %}",
    "{% for x in [1, 2] %}{% for y in [1, 2, 3] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}",
    "{% break %}",
    "{% if 1 %}{% continue %}{% endif %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% if false %}{% set w = 2 %}{% endif %}{{ w is defined }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = (3, 4) %}{{ c }}{{ d2 }}{% set x = 1, %}{{ x }}",
    "{% set a, b = 1 %}",
    "{% set ns = namespace(x=0) %}{% for i in range(3) %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{% set ns.y = 'new' %}{{ ns.y }}{{ ns.z is defined }}",
    "{% set d.x = 1 %}",
    "{% set nope.x = 1 %}",
    "{% set ns = namespace() %}{% set ns.a %}block {{ 1 }}{% endset %}{{ ns.a }}",
    "{% set x %}a{{ 1 }}b{% endset %}{{ x }}{{ x is string }}{{ x|length }}",
    "{% set x | upper | replace('A', 'z') %}abca{% endset %}{{ x }}",
    "{% set x %}{% set inner = 1 %}{% endset %}{{ inner is defined }}[{{ x }}]",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}{{ a is defined }}{{ c is defined }}",
    "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}{% with %}{% set q = 1 %}{{ q }}{% endwith %}",
    "{% macro m(a, b=2, *c) %}{% endmacro %}",
    "{% macro m(a, b='x') %}<{{ a }}|{{ b }}>{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{{ m() }}{{ m(a=1) | upper }}{{ m(1)|length }}",
    "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m(1) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
    "{% macro m(a, b=a ~ '!') %}{{ b }}{% endmacro %}{{ m('x') }}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ m() }}",
    "{% set x = 1 %}{% macro m() %}{% set x = 2 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}",
    "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body{% endcall %}{{ m.name }}{{ m.arguments }}{{ m.caller }}{{ m.catch_kwargs }}",
    "{% macro m() %}{{ caller('x', 2) }}{% endmacro %}{% call(a, b, c=3) m() %}{{ a }}{{ b }}{{ c }}{% endcall %}",
    "{% macro m() %}x{% endmacro %}{% call m() %}body{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}{{ m() }}{% call m() %}c{% endcall %}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% set y = 7 %}{% macro m() %}{{ caller() }}{% endmacro %}{% for x in [1, 2] %}{% call m() %}{{ x }}{{ y }}{% endcall %}{% endfor %}",
    "{% call 5 %}{% endcall %}",
    "{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b')|upper %}banana{% endfilter %}",
    "{% raw %}{{ x }} {% if %} {# c #}{% endraw %}",
    "{%- raw -%}  {{ x }}  {%- endraw -%}  y",
    "{% print 1, 'a', s %}",
    "{% block b %}in {{ s }}{% endblock %}{% block c scoped %}x{% endblock c %}",
    "{% for x in [1] %}{% block b %}{{ x is defined }}{% endblock %}{% endfor %}",
    "{% if 1 %}a{% elif 2 %}b{% else %}c{% endif %}{% if 0 %}a{% elif 2 %}b{% else %}c{% endif %}{% if 0 %}a{% elif 0 %}b{% else %}c{% endif %}{% if 0 %}a{% endif %}",
    "{% if x is defined and x %}{% endif %}{% if nope %}a{% else %}b{% endif %}",
    "{% if nope.x %}{% endif %}",
    "{% if 1, %}tuple{% endif %}",
    "{{ 1, 2 }}{{ 1, }}",
    "{{ }}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{{ [1 }}", "{{ 'a }}", "{{ a b }}", "{{ 1 2 }}", "{{ a..b }}", "{{ a.1b }}", "{{ | upper }}", "{{ a | }}", "{{ a is }}", "{{ a is not }}", "{{ a[] }}", "{{ a[:::] }}", "{{ f(a=1, 2) }}", "{{ f(*a, 1) }}", "{{ f(**a, b=1) }}", "{{ a if }}", "{{ not }}", "{{ 1 is odd is even }}", "{{ ! a }}", "{{ a && b }}", "{{ a ? b : c }}", "{{ 'a' 'b }}", "{{ @ }}", "{{ a; b }}", "{{ {a} }}", "{{ {'a': } }}", "{{ {,} }}", "{{ [,] }}", "{{ lambda: 1 }}", "{{ a = 1 }}", "{{ a := 1 }}",
    "{% %}", "{% if %}{% endif %}", "{% if a %}", "{% endif %}", "{% if a %}{% endfor %}", "{% for %}{% endfor %}", "{% for x %}{% endfor %}", "{% for x in %}{% endfor %}", "{% for 1 in l %}{% endfor %}", "{% for x.y in l %}{% endfor %}", "{% for loop in l %}{% endfor %}", "{% set %}", "{% set 1 = 2 %}", "{% set x = %}", "{% set true = 1 %}", "{% set x %}", "{% nope %}", "{% macro %}{% endmacro %}", "{% macro m %}{% endmacro %}", "{% macro m( %}{% endmacro %}", "{% else %}", "{% elif a %}", "{% if a %}{% else %}{% else %}{% endif %}", "{% raw %}", "{# open", "{{ open", "{% open", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% endraw %}", "{% call m() %}", "{% filter %}{% endfilter %}", "{% filter nope %}{% endfilter %}", "{% do 1 %}", "{% with a %}{% endwith %}", "{% if a %}{% endif %}}", "{{ a }}}", "{ { a } }", "{{{ 'a' }}}", "{{ {'a': 1} }}", "{{ {'a': {'b': 1}}.a.b }}", "{{ '}}' }}{{ \"%}\" }}", "{% if '%}' == '%}' %}y{% endif %}",
    "{{ s|nope }}", "{{ s is nope }}", "{% if false %}{{ s|nope }}{% endif %}ok", "{% if true %}{{ s|nope }}{% endif %}", "{{ s|nope if false else 'ok' }}", "{% if false %}{% for x in l %}{{ x|nope }}{% endfor %}{% endif %}", "{% if false %}{{ s is nope }}{% endif %}ok", "{% macro m() %}{{ s|nope }}{% endmacro %}", "{{ s|upper.nope }}",
    "{{ f(*[1]) }}", "{{ range(*[1, 4])|list }}{{ dict(**{'a': 1}) }}{{ range(*(2,))|list }}", "{{ range(**5) }}", "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'b': 1, 'a': 2}) }}{{ m(1, **{'b': 3}) }}",
    "{% set c = cycler('a', 'b', 'c') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}", "{% set j = joiner(', ') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}",
    "{% set g = l|map('string') %}{{ g|list }}{{ g|list }}", "{% set g = l|select %}{% for x in g %}{{ x }}{% endfor %}{% for x in g %}{{ x }}{% else %}spent{% endfor %}",
    "{% set x = 'a' %}{% set x = x ~ 'b' %}{{ x }}", "{{ s }}{% set s = 'changed' %}{{ s }}", "{% for s in [1] %}{{ s }}{% endfor %}{{ s }}",
    "{% for x in l %}{% set y = x %}{% endfor %}{{ y is defined }}", "{% for x in l %}{{ y is defined }}{% set y = x %}{% endfor %}", "{% set found = false %}{% for x in l %}{% set found = true %}{% endfor %}{{ found }}",
    "{{ loop is defined }}{% for x in l %}{{ loop is defined }}{% endfor %}{{ loop is defined }}", "{% for x in l if loop is defined %}{{ x }}{% else %}none{% endfor %}",
    "{% set ns = namespace(items=[]) %}{% for x in l %}{% set ns.items = ns.items + [x * 2] %}{% endfor %}{{ ns.items }}",
    "{% set q = {'a': 1} %}{% set q = dict(q, b=2) %}{{ q }}", "{% set ns = namespace(d={}) %}{% for k in ['a', 'b'] %}{% set ns.d = dict(ns.d, **{k: loop.index}) %}{% endfor %}{{ ns.d|tojson }}",
    "{%- macro pad(t, n) -%}{{ ('%-' ~ n ~ 's') | format(t) }}{%- endmacro -%}[{{ pad('ab', 5) }}]",
    "a\r\nb\rc\n", "a\n", "a\n\n", "\n", "", "   ", "{% if 1 %}\n\n{% endif %}", "x {% if 1 -%}  y  {%- endif %} z", "x\n  {%- if 1 +%}\n  y\n  {%+ endif %}\nz", "  {% if 1 %}\n  a\n  {% endif %}\n  b", "a  {% if 1 %}b{% endif %}  c", "\t{% set x = 1 %}\n\t{{ x }}\n\t{# c #}\n\td", "{#- a -#} b {#+ c +#} d", "{{- 1 -}} 2 {{- 3 }}\n{{ 4 }}\n", "{% for x in l -%}\n  {{ x }}\n{%- endfor %}\n", "{% for x in l %}\n  {{ x }}\n{% endfor %}\n", "  {{ 1 }}\n  {{- 2 }}", "{{ 1 +}}", "{{+ 1 }}", "{%+ if 1 %}a{% endif +%}\nb", "\u3000{% if 1 %}a{% endif %}", "x\u00a0{%- if 1 -%}\u2003a{% endif %}", "{# a #}\n{# b #}\nc", "{# {% if %} #}x", "{##}x", "{% raw %}\n  a\n{% endraw %}\nb", "  {% raw %}a{% endraw %}  b", "{%raw%}a{%endraw%}", "{% raw -%}  a  {%- endraw %}", "{%if 1%}a{%endif%}", "{%\nif 1\n%}a{%\nendif\n%}", "{{\n1\n}}", "a{{ '' }}\n\n{{ '' }}b",
    "{{ 'a\r\nb' }}|{{ 'a\nb' }}", "{{ s # not a comment }}", "{{ 1 {# c #} }}",
    "{{ [1, 2,\n 3] }}{{ {'a':\n1} }}", "{% set x = [\n  'a',\n  'b',\n] %}{{ x }}",
    "{% for x in [1, 2, 3] %}{% if loop.first %}{% set p = 'first' %}{% else %}{% set p = 'rest' %}{% endif %}{{ p }} {% endfor %}",
    "{% if messages is defined %}{% endif %}{{ tools is none }}{{ (tools or [])|length }}", "{% if not (1 == 2) and not false %}ok{% endif %}", "{% if 1 is not string and s is string and not (n is not none) %}ok{% endif %}",
    "{{ users | map(attribute='name') | map('upper') | join(', ') }}", "{{ users|selectattr('tags')|map(attribute='tags')|map('join', '+')|join(';') }}", "{{ (users|selectattr('name', 'equalto', 'Bob')|first).age }}", "{{ users|map('attr', 'nope')|list|length }}",
]


def cases():
    for (name, template), (number, messages), tools, prompt in itertools.product(CHAT.items(), enumerate(CONVERSATIONS), [None, TOOLS], [True, False]):
        yield f"{name} {number}", template, {"messages": messages, "tools": tools, "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>"}
    for line in EXPRESSIONS:
        line = line.replace("\x00", "\n")
        yield line, "{{ " + line + " }}", VARIABLES
        for part in split(line):
            yield part, "{{ " + part + " }}", VARIABLES
            yield "str " + part, "{{ (" + part + ")|string|length }}{{ [" + part + "] }}", VARIABLES
    for template in STATEMENTS:
        yield template, template, VARIABLES


def split(line):
    """The parts between commas outside of brackets and strings."""
    parts, depth, quote, start = [], 0, "", 0
    position = 0
    while position < len(line):
        c = line[position]
        if quote:
            if c == "\\":
                position += 1
            elif c == quote:
                quote = ""
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(line[start:position].strip())
            start = position + 1
        position += 1
    parts.append(line[start:].strip())
    return parts if len(parts) > 1 else []
