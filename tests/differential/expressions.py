#!/usr/bin/python3
"""Compares millwright's expressions with Python's Jinja2 over generated ones.

    expressions.py DRIVER [--seed N] [--count N]

Every expression is evaluated by both. They agree when the values are the same, types included, or when both fail.
Where the two differ on purpose, KNOWN below says why; a difference that no entry explains fails the test.
"""

import argparse
import json
import math
import random
import re
import subprocess
import sys

import jinja2
from jinja2 import filters as jinja_filters

# --- what differs on purpose -----------------------------------------------------------------------------------------
# (what millwright says, why it is right that Jinja2 has a value there)
KNOWN = [
    (r"beyond 64 bits", "integers have 64 bits here; wrapping or turning into floats would lose digits silently"),
    (r"is not defined here|there is no item|has no item|there is no (first|last) item|no 'else'",
     "undefined is always an error here; Jinja2 lets tests such as `is none` and lists pass it on"),
    (r"cannot be used on a text and", "no % formatting of texts; '~' joins"),
    (r"a key must be a text", "values are JSON: keys of mappings are texts"),
    (r"has no attribute", "map(attribute=...) and sort(attribute=...) do not hand on undefined items"),
    (r"takes (no|one) argument", "tests do not take arguments they ignore"),
    (r"result is too large", "results are limited, so that a playbook cannot fill the memory"),
]
# upper and lower change ASCII letters only; no other letters are generated.
# Python fails and millwright has a value: only where a path through something undefined meets `default`, which Jinja2
# refuses without ChainableUndefined; and for none.x and the like, which are undefined there too.
LENIENT = re.compile(r"\|\s*(default|d)\b|is (not )?(un)?defined")
# `x is defined if y else z`, `x is string in y`: Jinja2 takes the word for an argument of the test and fails.
TEST_THEN_WORD = re.compile(r"\bis (not )?\w+ (if|in|not in)\b")
# Jinja2 folds constants while compiling, so a missing item of a constant fails also where it is never reached.
CONSTANT_ITEM = re.compile(r"\((True|False|true|false|[\d.e]+)\)\[")


def listed(name):
    """Jinja2's lazy filters give generators, which equal nothing; here they are lists."""
    original = jinja_filters.FILTERS[name]

    def wrapper(*args, **kwargs):
        return list(original(*args, **kwargs))

    if hasattr(original, "jinja_pass_arg"):
        wrapper.jinja_pass_arg = original.jinja_pass_arg
    return wrapper


def quote(value):
    text = str(value).replace("\0", "")
    if text and re.fullmatch(r"[A-Za-z0-9_./:=@%+,-]+", text):
        return text
    return "'" + text.replace("'", "'\\''") + "'"


def split(value, sep=None, maxsplit=-1):
    if not isinstance(value, str):
        raise TypeError("split needs a text")
    return value.split(sep, maxsplit)


def environment():
    env = jinja2.Environment(undefined=jinja2.StrictUndefined)
    for name in ("map", "select", "unique"):
        env.filters[name] = listed(name)
    # Not in Jinja2: quote, split, to_json and to_yaml come from us, with names that Ansible's users know.
    env.filters["quote"] = quote
    env.filters["split"] = split
    env.filters["to_json"] = lambda v: json.dumps(v, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return env


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *options):
        return self.random.choice(options)

    def literal(self):
        kind = self.random.randrange(9)
        if kind < 3:
            return str(self.pick(0, 1, 2, 3, 7, 10, 64, 255, 1000, 2**31, 2**53 + 1, 2**62))
        if kind == 3:
            return self.pick("0.0", "1.5", "2.0", "0.1", "1e3", "1e16", "1.5e-7", "123456.75", "1e300")
        if kind == 4:
            return self.pick("true", "false", "none", "True", "False", "None", "0x1F", "0o17", "0b101")
        if kind < 8:
            return self.text()
        return self.pick("[]", "{}", "[1, 2, 3]", "['b', 'a', 'B']", "{'a': 1, 'b': [2]}")

    def text(self):
        value = self.pick("", "a", "abc", "A b  C", "12", " 7 ", "-3", "1.5", "1e3", "0x1F", "x,y,,z", "it's", "€😀", "true",
                          "a\nb", "\\", "nan", "say \"x\"", "UPPER", "a.b/c:d", "$HOME; rm", "€")
        quoted = repr(value)
        return quoted if not self.random.randrange(2) or '"' in value else '"' + quoted[1:-1].replace("\\'", "'") + '"'

    def path(self):
        return self.pick("inputs.model", "inputs['model']", "inputs.count", "inputs.ratio", "inputs.flag", "inputs.empty",
                         "inputs.none", "hosts", "hosts[0]", "hosts[-1]", "hosts[5]", "users", "users[0].name", "users.1.age",
                         "inputs.tags", "inputs.tags[0]", "inputs.tags[inputs.zero]", "inputs.map", "inputs.map.k",
                         "inputs.map['x y']", "inputs.missing", "missing", "missing.deep", "inputs[inputs.key]", "numbers",
                         "inputs.model[0]", "mixed", "nested[1][0]", "floats", "numbers[true]")

    def expression(self, depth):
        if depth <= 0:
            return self.pick(self.literal, self.path, self.path)()
        make = self.pick(self.binary, self.binary, self.compare, self.logic, self.inline_if, self.filtered, self.filtered,
                         self.filtered, self.test, self.unary, self.list, self.mapping, self.parentheses, self.concat,
                         self.subscript)
        return make(depth - 1)

    def sub(self, depth):
        return self.expression(self.random.randint(-1, depth))

    def binary(self, depth):
        return f"{self.sub(depth)} {self.pick('+', '-', '*', '/', '//', '%', '**', '+', '*')} {self.sub(depth)}"

    def concat(self, depth):
        return f"{self.sub(depth)} ~ {self.sub(depth)}"

    def compare(self, depth):
        out = self.sub(depth)
        for _ in range(self.pick(1, 1, 1, 2)):
            out += f" {self.pick('==', '!=', '<', '<=', '>', '>=', 'in', 'not in')} {self.sub(depth)}"
        return out

    def logic(self, depth):
        return f"{self.sub(depth)} {self.pick('and', 'or')} {self.pick('', 'not ')}{self.sub(depth)}"

    def inline_if(self, depth):
        otherwise = f" else {self.sub(depth)}" if self.random.randrange(5) else ""
        return f"{self.sub(depth)} if {self.sub(depth)}{otherwise}"

    def unary(self, depth):
        return f"{self.pick('-', '+', 'not ')}{self.sub(depth)}"

    def list(self, depth):
        return "[" + ", ".join(self.sub(depth - 1) for _ in range(self.random.randrange(4))) + "]"

    def mapping(self, depth):
        keys = sorted(self.random.sample(["a", "b", "k", "x y"], self.random.randrange(3)))
        return "{" + ", ".join(f"'{key}': {self.sub(depth - 1)}" for key in keys) + "}"

    def parentheses(self, depth):
        return f"({self.sub(depth)})"

    def subscript(self, depth):
        return f"({self.sub(depth)})[{self.pick('0', '1', '-1', repr('a'), self.sub(0))}]"

    def filtered(self, depth):
        value = self.sub(depth)
        if not re.fullmatch(r"[\w.\[\]']+", value) and self.random.randrange(3):
            value = f"({value})"
        for _ in range(self.pick(1, 1, 2)):
            value += self.pick("|", " | ") + self.filter(depth)
        return value

    def filter(self, depth):
        argument = lambda: self.expression(min(depth - 1, 1))
        return self.pick(
            lambda: "default", lambda: f"default({argument()})", lambda: f"default({argument()}, true)",
            lambda: f"d({argument()}, boolean={self.pick('true', 'false')})", lambda: "join", lambda: "join(', ')",
            lambda: f"join({argument()})", lambda: "join('-', attribute='name')", lambda: "length", lambda: "count",
            lambda: "lower", lambda: "upper", lambda: f"replace({self.text()}, {self.text()})",
            lambda: f"replace({self.text()}, {argument()}, {self.pick('0', '1', '2', '-1')})", lambda: "replace('a', 'bb')",
            lambda: "split", lambda: f"split({self.text()})", lambda: "split(',', 1)", lambda: "split(none, 1)",
            lambda: "quote", lambda: "to_json", lambda: "sort", lambda: "sort(reverse=true)",
            lambda: "sort(case_sensitive=true)", lambda: "sort(attribute='age')", lambda: "sort(true, false, 'name')",
            lambda: "sort(attribute='age,name')", lambda: "unique", lambda: "unique(true)",
            lambda: "unique(attribute='name')", lambda: "map('upper')", lambda: "map(attribute='name')",
            lambda: "map(attribute='nick', default='?')", lambda: "map('default', 1, true)", lambda: "map('int')",
            lambda: "map('replace', 'a', 'b')", lambda: "map('length')", lambda: "select", lambda: "select('defined')",
            lambda: "select('none')", lambda: f"select('equalto', {argument()})", lambda: "select('>', 1)",
            lambda: f"select('in', {argument()})", lambda: "select('string')", lambda: "select('odd')", lambda: "first",
            lambda: "last", lambda: "int", lambda: f"int({argument()})", lambda: "int(0, 16)", lambda: "int(7, 8)",
            lambda: "float", lambda: f"float({argument()})")()

    def test(self, depth):
        name = self.pick("defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping",
                         "sequence", "iterable", "odd", "even", "true", "false", "lower", "upper", "divisibleby 3",
                         "divisibleby(2)", "equalto 1", "eq 'a'", "ne none", "lt 3", "gt(2)", "in [1, 2, 'a']", "ge 2", "le 1.5")
        return f"({self.sub(depth)}) is {self.pick('', 'not ')}{name}"


SCOPE = {
    "inputs": {"model": "hf:Qwen", "count": 3, "ratio": 2.5, "flag": True, "empty": "", "none": None, "zero": 0,
               "key": "model", "tags": ["b", "a", "c", "a"], "map": {"k": "v", "x y": [1, {"z": 2}]}},
    "hosts": ["gpu2", "gpu1", "Gpu3"],
    "users": [{"age": 30, "name": "bob"}, {"age": 25, "name": "Al"}, {"age": 30, "name": "al"}],
    "numbers": [3, 1, 2, 1, 10],
    "mixed": [1, "a", None, 2.0, True, [1], "1"],
    "nested": [[1, 2], [3], []],
    "floats": [1.0, 0.5, -2.25, 1],
}


def is_big(value):
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return not -2**63 <= value < 2**63
    if isinstance(value, (list, tuple)):
        return any(map(is_big, value))
    return isinstance(value, dict) and any(map(is_big, value.values()))


def has_undefined(value):
    if isinstance(value, jinja2.Undefined):
        return True
    if isinstance(value, (list, tuple)):
        return any(map(has_undefined, value))
    return isinstance(value, dict) and any(map(has_undefined, value.values()))


def tagged(value):
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, (list, tuple)):
        return [tagged(item) for item in value]
    if isinstance(value, dict):
        return {"mapping": {key: tagged(item) for key, item in value.items()}}
    return value


def same(a, b):
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict) and "float" in a and "float" in b:
        x, y = float(a["float"]), float(b["float"])
        return x == y or (math.isnan(x) and math.isnan(y))
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a == b


# Would be slow or huge in Python; here they are errors, which the unit tests check.
TOO_MUCH = re.compile(r"\*\*[^*]*\*\*|\*.*(2147483648|9007199254740993|4611686018427387904)|"
                      r"(2147483648|9007199254740993|4611686018427387904).*\*")


def python_value(env, expression):
    try:
        value = env.compile_expression(expression, undefined_to_none=False)(**SCOPE)
        if has_undefined(value):
            return None, "undefined"
        if is_big(value):
            return None, "beyond 64 bits"
        if isinstance(value, tuple):
            return None, "a tuple"
        return tagged(value), None
    except Exception as error:  # whatever a template can raise is "an error" here
        return None, f"{type(error).__name__}: {error}"


def explains(expression, error):
    """Jinja2 fails and millwright has a value: is that one of the known cases?"""
    if "UndefinedError" in error and LENIENT.search(expression):
        return True
    if re.search("object'? has no", error) and CONSTANT_ITEM.search(expression):
        return True
    return TEST_THEN_WORD.search(expression) is not None and re.search(
        "TemplateSyntaxError|'if' is undefined|'in' is undefined|takes .* positional argument", error) is not None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("driver")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=6000)
    options = parser.parse_args()

    env = environment()
    generator = Generator(options.seed)
    expressions = []
    while len(expressions) < options.count:
        expression = generator.expression(generator.pick(0, 1, 2, 2, 3, 4))
        if not TOO_MUCH.search(expression):
            expressions.append(expression)
    lines = "".join(json.dumps({"expression": e, "scope": SCOPE}) + "\n" for e in expressions)
    done = subprocess.run([options.driver], input=lines, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"driver ended with {done.returncode}\n{done.stderr[-2000:]}")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(expressions):
        sys.exit(f"{len(expressions)} questions, {len(answers)} answers")

    counts = {"same value": 0, "both fail": 0, "known": 0}
    differ = []
    for expression, ours in zip(expressions, answers):
        value, error = python_value(env, expression)
        if error is None and "value" in ours and same(ours["value"], value):
            counts["same value"] += 1
        elif error is not None and "error" in ours:
            counts["both fail"] += 1
        elif error is None and "error" in ours and any(re.search(known, ours["error"]) for known, _ in KNOWN):
            counts["known"] += 1
        elif error is not None and "value" in ours and explains(expression, error):
            counts["known"] += 1
        else:
            differ.append((expression, error or value, ours))
    print(f"seed {options.seed}: {len(expressions)} expressions, {counts}, {len(differ)} differ")
    for expression, theirs, ours in differ[:40]:
        print(f"  {expression}\n    jinja2:     {json.dumps(theirs, ensure_ascii=False)}\n    millwright: {json.dumps(ours, ensure_ascii=False)}")
    # A generator that mostly makes errors would prove little.
    if counts["same value"] < options.count // 5:
        sys.exit("too few expressions have a value")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
