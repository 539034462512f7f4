"""Problems of a job file, with the messages of OpenPAI's validator.

OpenPAI validates in steps: the text, its shape, then names and references. Only the second step reports all problems,
as a list in the message; so a file with wrong names only gets one sentence. `problems` beside the message always has
all of them, with lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from holdfast.core.errors import InvalidJob, Problem

# Rules of the later steps, in their order.
_LATER_RULES = ("uniqueNames", "reference", "placement")

_STEP_PATTERN = re.compile(r'\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\.?([\w$~-]+)')
_PLAIN_NAME_PATTERN = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)

_RuleDescriber = Callable[[Any], tuple[dict[str, Any], str]]


def _make_limit_describer(words: str) -> _RuleDescriber:
    return lambda limit: ({"limit": limit}, words.format(limit))


def _make_comparison_describer(sign: str) -> _RuleDescriber:
    return lambda limit: ({"comparison": sign, "limit": limit, "exclusive": False}, f"should be {sign} {limit}")


# Rule -> OpenPAI's message. Other rules keep our message.
_RULE_MESSAGES: dict[str, _RuleDescriber] = {
    "required": lambda key: ({"missingProperty": key}, f"should have required property '{key}'"),
    "additionalProperties": lambda key: ({"additionalProperty": key}, "should NOT have additional properties"),
    "type": lambda wanted: ({"type": wanted}, f"should be {wanted}"),
    "enum": lambda words: ({"allowedValues": list(words)}, "should be equal to one of the allowed values"),
    "pattern": lambda pattern: ({"pattern": pattern}, f'should match pattern "{pattern}"'),
    "minimum": _make_comparison_describer(">="),
    "maximum": _make_comparison_describer("<="),
    "minItems": _make_limit_describer("should NOT have fewer than {} items"),
    "maxItems": _make_limit_describer("should NOT have more than {} items"),
    "minProperties": _make_limit_describer("should NOT have fewer than {} properties"),
    "maxProperties": _make_limit_describer("should NOT have more than {} properties"),
    "minLength": _make_limit_describer("should NOT be shorter than {} characters"),
    "maxLength": _make_limit_describer("should NOT be longer than {} characters"),
}
_PARENT_RULES = ("required", "additionalProperties")


def build_problem_body(invalid: InvalidJob) -> dict[str, Any]:
    shown = [problem_to_json(problem) for problem in invalid.problems]
    return {"code": "InvalidProtocolError", "message": _build_message(invalid.problems, shown), "problems": shown}


def problem_to_json(problem: Problem) -> dict[str, Any]:
    steps = list(_iter_path_steps(problem.field))
    if problem.rule in _PARENT_RULES:
        steps = steps[:-1]
    words = _RULE_MESSAGES.get(problem.rule)
    params, description = words(problem.expected) if words else ({}, problem.message)
    return {
        "keyword": problem.rule or "rule",
        "dataPath": "".join(map(_format_data_step, steps)),
        "schemaPath": "#" + "".join(map(_format_schema_step, steps)) + f"/{problem.rule or 'rule'}",
        "params": params,
        "message": description,
        "line": problem.line,
        "hint": " ".join(filter(None, (problem_to_sentence(problem) if words else None, problem.hint))) or None,
    }


def problem_to_sentence(problem: Problem) -> str:
    """Return one problem as a sentence of our own."""
    message = problem.message if problem.message.endswith((".", "?", "!")) else f"{problem.message}."
    if not problem.field or message[:1].isupper():
        return message
    return f"{problem.field} {message}"


def _build_message(problems: Sequence[Problem], shown: list[dict[str, Any]]) -> str:
    first = problems[0]
    if first.rule == "syntax":
        where = f"Line {first.line}: " if first.line is not None else ""
        return " ".join(filter(None, (f"{where}{problem_to_sentence(first)}", first.hint)))
    if all(problem.rule in _LATER_RULES for problem in problems):
        return problem_to_sentence(min(problems, key=lambda problem: _LATER_RULES.index(problem.rule)))
    return json.dumps(shown, ensure_ascii=False)


# -- paths: taskRoles.worker.commands[2] -> .taskRoles.worker.commands[2], #/properties/taskRoles/…


def _iter_path_steps(field: str) -> Iterator[str | int]:
    for number, quoted, plain in _STEP_PATTERN.findall(field):
        yield int(number) if number else json.loads(quoted) if quoted else plain


def _format_data_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if _PLAIN_NAME_PATTERN.fullmatch(step):
        return f".{step}"
    return "['" + step.replace("\\", "\\\\").replace("'", "\\'") + "']"


def _format_schema_step(step: str | int) -> str:
    if isinstance(step, int):
        return "/items"
    return "/properties/" + step.replace("~", "~0").replace("/", "~1")
