"""What is wrong with a job file, in the words of the validator that OpenPAI's clients know.

OpenPAI checks in steps: the text, its shape, then names and references. Only the second step tells everything it
found, as a list in the message; so we answer a file in which nothing but names is wrong with one sentence. `problems`
beside the message always has all of it, with lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from holdfast.core.errors import InvalidJob, Problem

# Rules of the later steps, in their order.
_SENTENCES = ("uniqueNames", "reference", "placement")

_STEP = re.compile(r'\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\.?([\w$~-]+)')
_PLAIN = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)

_Words = Callable[[Any], tuple[dict[str, Any], str]]


def _limit(words: str) -> _Words:
    return lambda limit: ({"limit": limit}, words.format(limit))


def _compare(sign: str) -> _Words:
    return lambda limit: ({"comparison": sign, "limit": limit, "exclusive": False}, f"should be {sign} {limit}")


# Rule -> what is said of it, by what it asks for. All others keep our words.
_WORDS: dict[str, _Words] = {
    "required": lambda key: ({"missingProperty": key}, f"should have required property '{key}'"),
    "additionalProperties": lambda key: ({"additionalProperty": key}, "should NOT have additional properties"),
    "type": lambda wanted: ({"type": wanted}, f"should be {wanted}"),
    "enum": lambda words: ({"allowedValues": list(words)}, "should be equal to one of the allowed values"),
    "pattern": lambda pattern: ({"pattern": pattern}, f'should match pattern "{pattern}"'),
    "minimum": _compare(">="),
    "maximum": _compare("<="),
    "minItems": _limit("should NOT have fewer than {} items"),
    "maxItems": _limit("should NOT have more than {} items"),
    "minProperties": _limit("should NOT have fewer than {} properties"),
    "maxProperties": _limit("should NOT have more than {} properties"),
    "minLength": _limit("should NOT be shorter than {} characters"),
    "maxLength": _limit("should NOT be longer than {} characters"),
}
_ABOUT_PARENT = ("required", "additionalProperties")


def tell(invalid: InvalidJob) -> dict[str, Any]:
    """The body of the answer."""
    shown = [show(problem) for problem in invalid.problems]
    return {"code": "InvalidProtocolError", "message": _message(invalid.problems, shown), "problems": shown}


def show(problem: Problem) -> dict[str, Any]:
    steps = list(_steps(problem.field))
    if problem.rule in _ABOUT_PARENT:
        steps = steps[:-1]
    words = _WORDS.get(problem.rule)
    params, said = words(problem.expected) if words else ({}, problem.message)
    return {
        "keyword": problem.rule or "rule",
        "dataPath": "".join(map(_data_step, steps)),
        "schemaPath": "#" + "".join(map(_schema_step, steps)) + f"/{problem.rule or 'rule'}",
        "params": params,
        "message": said,
        "line": problem.line,
        "hint": " ".join(filter(None, (sentence(problem) if words else None, problem.hint))) or None,
    }


def sentence(problem: Problem) -> str:
    """A problem by itself, in our words."""
    said = problem.message if problem.message.endswith((".", "?", "!")) else f"{problem.message}."
    if not problem.field or said[:1].isupper():
        return said
    return f"{problem.field} {said}"


def _message(problems: Sequence[Problem], shown: list[dict[str, Any]]) -> str:
    first = problems[0]
    if first.rule == "syntax":
        where = f"Line {first.line}: " if first.line is not None else ""
        return " ".join(filter(None, (f"{where}{sentence(first)}", first.hint)))
    if all(problem.rule in _SENTENCES for problem in problems):
        return sentence(min(problems, key=lambda problem: _SENTENCES.index(problem.rule)))
    return json.dumps(shown, ensure_ascii=False)


# -- paths: taskRoles.worker.commands[2] -> .taskRoles.worker.commands[2], #/properties/taskRoles/…


def _steps(field: str) -> Iterator[str | int]:
    for number, quoted, plain in _STEP.findall(field):
        yield int(number) if number else json.loads(quoted) if quoted else plain


def _data_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if _PLAIN.fullmatch(step):
        return f".{step}"
    return "['" + step.replace("\\", "\\\\").replace("'", "\\'") + "']"


def _schema_step(step: str | int) -> str:
    if isinstance(step, int):
        return "/items"
    return "/properties/" + step.replace("~", "~0").replace("/", "~1")
