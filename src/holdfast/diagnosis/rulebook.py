"""Rules for lines in a log. They are data, one file per family in `rules/`.

A pattern is a regular expression for one line. `<name:path>` is a named part of the type `path`; the rule's texts can
use its value as `{name}`. Logs are untrusted input: every repeat has a bound, and a rule is tried only on lines that
contain one of its literals.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from holdfast.core.verdicts import Confidence, Fault

_PATH_CHARACTER_PATTERN = r"[^\s'\"`‘’:;,()<>]"  # a character of a path
# Patterns of `<name:kind>`.
PART_PATTERNS = {
    "word": r"[\w.+-]{1,100}",
    "path": rf"{_PATH_CHARACTER_PATTERN}{{1,200}}",
    "quoted": r"[^'\"`‘’“”]{1,200}",
    "port": r"[0-9]{2,5}",
    "number": r"[0-9]{1,15}",
    "size": r"[0-9.]{1,12} ?[KMGTkmgt]?i?(?:[Bb]|bytes)?",
    "text": r".{1,200}?",
    "rest": r".{0,200}",
    "dataset": r"/datasets/[^\s'\"`:;,()<>]{1,200}",
    "syntax": r"(?:Syntax|Indentation|Tab)Error",
    "jvm": r"(?:[\w$]{1,60}\.){1,12}[\w$]{1,80}",
    "js": r"[A-Z]\w{0,40}Error",
    "script": r"/[^'\"]{1,200}\.[cm]?[jt]s",
    "upper": r"[A-Z_][A-Z0-9_]{1,60}",
}
_NAMED_PART_PATTERN = re.compile(r"<([a-z_]+):([a-z]+)>")
_LEADING_PATH_PATTERN = re.compile(r"^((?:\(\?:)*(?:\[[^\]]+\]\?)?)<([a-z_]+):path>")
_REGEX_TOKEN_PATTERN = re.compile(r"<[a-z_]+:[a-z]+>|\\.|\[(?:\\.|[^\]\\])+\]|\{[0-9,]+\}|.")
_ESCAPED_CHARACTER_PATTERN = re.compile(r"\\[^A-Za-z0-9]")
_METACHARACTERS = frozenset("?*+(){}|.^$")
_MIN_LITERAL_LENGTH = 5  # letters of a literal


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSample:
    """Log lines that the rule must or must not match, and the exit code of that program."""

    text: str
    code: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    id: str
    family: str
    fault: Fault
    patterns: tuple[re.Pattern[str], ...]
    literals: tuple[bytes, ...]  # in lower case; every matching line contains one of them
    title: str
    explanation: str
    remedies: tuple[str, ...]
    confidence: Confidence = Confidence.CERTAIN
    priority: int = 50  # within a block of errors, the highest is the cause
    codes: tuple[int, ...] = ()  # only with these exit codes; empty: any
    follower: bool = False  # a secondary failure: something else failed first, in this or another task
    last: int | None = None  # only among this many last lines
    leads_to: tuple[Fault, ...] = ()  # faults that this one causes later in the log
    exception: bool = False  # only for the exception of a traceback
    within: tuple[str, ...] = ()  # and only if its last frame is one of these, as file:function
    positive: tuple[LogSample, ...] = ()
    negative: tuple[LogSample, ...] = ()


@cache
def load_rules() -> tuple[Rule, ...]:
    """Load all rules, in the order of their files."""
    folder = files(__package__) / "rules"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return tuple(rule for name in names for rule in _parse_rule_file(name, (folder / name).read_text("utf-8")))


def _parse_rule_file(name: str, text: str) -> Iterator[Rule]:
    for data in tomllib.loads(text)["rule"]:
        try:
            yield parse_rule(name.removesuffix(".toml"), data)
        except (KeyError, TypeError, ValueError, re.error) as error:
            raise ValueError(f"{name}: rule {data.get('id')} is invalid: {error!r}") from error


def parse_rule(family: str, data: Mapping[str, Any]) -> Rule:
    data = dict(data)
    sources = data.pop("patterns")
    literals = _collect_literals(sources, data.pop("find", ()))
    code = (data.get("codes") or (1,))[0]
    return Rule(
        family=family,
        fault=Fault(data.pop("fault")),
        confidence=Confidence(data.pop("confidence", "certain")),
        patterns=tuple(re.compile(expand_pattern(source)) for source in sources),
        literals=literals,
        remedies=tuple(data.pop("remedies", ())),
        codes=tuple(data.pop("codes", ())),
        within=tuple(data.pop("within", ())),
        leads_to=tuple(Fault(fault) for fault in data.pop("leads_to", ())),
        positive=tuple(_parse_sample(sample, code) for sample in data.pop("positive")),
        negative=tuple(_parse_sample(sample, code) for sample in data.pop("negative")),
        **data,
    )


def expand_pattern(source: str) -> str:
    """Replace named parts by their patterns. A path at the start of a pattern is tried only where a path can start."""
    source = _LEADING_PATH_PATTERN.sub(
        lambda found: f"{found[1]}(?<!{_PATH_CHARACTER_PATTERN})(?P<{found[2]}>{_PATH_CHARACTER_PATTERN}{{1,300}})",
        source,
    )
    return _NAMED_PART_PATTERN.sub(lambda found: f"(?P<{found[1]}>{PART_PATTERNS[found[2]]})", source)


def _collect_literals(sources: Sequence[str], given: Sequence[str]) -> tuple[bytes, ...]:
    """Return the literals to search for before any pattern: plain text of the patterns, and the rule's `find`."""
    found = set(given)
    for source in sources:
        longest = max(_split_plain_text(source), key=len)
        if len(longest) >= _MIN_LITERAL_LENGTH:
            found.add(longest)
        elif not given:
            raise ValueError(f"{source!r} has no plain text to search for; add some with `find`")
    lowered = {literal.lower().encode() for literal in found}
    return tuple(sorted(one for one in lowered if not any(other in one for other in lowered - {one})))


def _split_plain_text(source: str) -> Iterator[str]:
    run, depth = "", 0
    for piece in _REGEX_TOKEN_PATTERN.findall(source):
        if piece == "|" and depth == 0:
            raise ValueError(f"{source!r}: write each alternative as a separate pattern")
        plain = depth == 0 and (
            piece not in _METACHARACTERS if len(piece) == 1 else _ESCAPED_CHARACTER_PATTERN.fullmatch(piece)
        )
        if plain:
            run += piece[-1]
            continue
        yield run[:-1] if piece[0] in "?*{" else run
        run = ""
        depth += (piece == "(") - (piece == ")")
    yield run


def _parse_sample(data: str | Mapping[str, Any], code: int) -> LogSample:
    if isinstance(data, str):
        return LogSample(text=data, code=code)
    return LogSample(text=data["text"], code=data.get("code", code))
