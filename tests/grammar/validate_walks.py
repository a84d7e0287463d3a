#!/usr/bin/env python3
"""Checks JSON lines {"schema": ..., "text": ...}: each text is strict JSON that its schema allows."""

import json
import math
import sys
import warnings

warnings.simplefilter("ignore", DeprecationWarning)
import jsonschema


def no_constants(name):
    raise ValueError(f"{name} is no JSON")


def members(pairs):
    return dict(pairs)


def finite(text):
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def main() -> int:
    failures = 0
    formats = jsonschema.FormatChecker(["date", "ipv4", "ipv6", "email", "uuid"])
    for line in open(sys.argv[1], encoding="utf-8"):
        case = json.loads(line)
        try:
            value = json.loads(case["text"], parse_constant=no_constants, object_pairs_hook=members, parse_float=finite)
            case["text"].encode("utf-8")
            # Surrogates come in pairs, so that every string has a UTF-8 form.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
            jsonschema.Draft202012Validator(case["schema"], format_checker=formats).validate(value)
        except (ValueError, jsonschema.ValidationError) as error:
            failures += 1
            if failures < 20:
                print(json.dumps(case["schema"]), case["text"], error, sep="\n", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
