#!/usr/bin/env python3
"""Renders templates with the real Jinja2, in the environment that Hugging Face renders chat templates in, and writes
templates, inputs and results as JSON: what the project's own engine is compared with.

usage: generate_cases.py OUT.json

Every run writes the same file. Needs Jinja2 3.1 (Debian: python3-jinja2).
"""

import datetime
import json
import pathlib
import random
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import idioms  # noqa: E402
import random_templates  # noqa: E402


class Generation(Extension):
    """{% generation %}, which marks what the model wrote, prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class Refused(Exception):
    pass


def environment():
    def raise_exception(message):
        raise Refused(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(0).strftime(form)
    return env


def render(env, template, variables):
    """{"rendered": …}, {"refused": message} or {"failed": type}."""
    try:
        text = env.from_string(template).render(**variables)
        text.encode()
        return {"rendered": text}
    except Refused as error:
        return {"refused": str(error.args[0])}
    except Exception as error:  # noqa: BLE001 - whatever it is, the other engine must fail, too
        return {"failed": type(error).__name__}


def main():
    env = environment()
    cases = []
    for name, template, variables in [*idioms.cases(), *random_templates.cases(random.Random(20240607))]:
        # What goes over as JSON is what the other side gets.
        variables = json.loads(json.dumps(variables))
        result = render(env, template, variables)
        if " at 0x" in result.get("rendered", ""):
            continue  # an address, which no two runs share
        if result.get("failed") == "NameError":
            continue  # Jinja compiles an infinite constant to a name that it does not define
        cases.append({"name": name, "template": template, "input": variables, **result})
    pathlib.Path(sys.argv[1]).write_text(json.dumps(cases, indent=0), encoding="utf-8")


if __name__ == "__main__":
    main()
