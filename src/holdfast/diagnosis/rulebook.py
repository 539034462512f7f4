"""The rules: what lines in a log mean. They are data, a file per family in `rules/`.

A pattern is a regular expression for one line. `<name:path>` stands for a named part of a kind; what it held can be
used in the rule's texts as `{name}`. Logs are written by anyone: every repeat has a bound, and a rule is tried only on
lines that hold one of its literals.
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

_OF_PATH = r"[^\s'\"`‘’:;,()<>]"  # a character of a path
# What `<name:kind>` stands for.
KINDS = {
    "word": r"[\w.+-]{1,100}",
    "path": rf"{_OF_PATH}{{1,200}}",
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
_PART = re.compile(r"<([a-z_]+):([a-z]+)>")
_PATH_FIRST = re.compile(r"^((?:\(\?:)*(?:\[[^\]]+\]\?)?)<([a-z_]+):path>")
_PIECE = re.compile(r"<[a-z_]+:[a-z]+>|\\.|\[(?:\\.|[^\]\\])+\]|\{[0-9,]+\}|.")
_ESCAPED = re.compile(r"\\[^A-Za-z0-9]")
_SIGNS = frozenset("?*+(){}|.^$")
_MIN_LENGTH = 5  # letters of a literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Lines of a log that the rule is, or is not, to be found in; and how that program ended."""

    text: str
    code: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    id: str
    family: str
    fault: Fault
    patterns: tuple[re.Pattern[str], ...]
    literals: tuple[bytes, ...]  # in lower case; one of them is in every line that a pattern fits
    title: str
    explanation: str
    remedies: tuple[str, ...]
    confidence: Confidence = Confidence.CERTAIN
    priority: int = 50  # among errors that stand together, the highest is the cause
    codes: tuple[int, ...] = ()  # only beside these exit codes; none: any
    follower: bool = False  # it tells that something else failed, here or in another task
    last: int | None = None  # only among so many last lines
    leads_to: tuple[Fault, ...] = ()  # when one of these comes later, this was its cause
    exception: bool = False  # only where a traceback names its exception
    within: tuple[str, ...] = ()  # and only where its last frame is there: file:function
    positive: tuple[Sample, ...] = ()
    negative: tuple[Sample, ...] = ()


@cache
def load_rules() -> tuple[Rule, ...]:
    """All of them, in the order of their files."""
    folder = files(__package__) / "rules"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return tuple(rule for name in names for rule in _family(name, (folder / name).read_text("utf-8")))


def _family(name: str, text: str) -> Iterator[Rule]:
    for data in tomllib.loads(text)["rule"]:
        try:
            yield read_rule(name.removesuffix(".toml"), data)
        except (KeyError, TypeError, ValueError, re.error) as error:
            raise ValueError(f"{name}: the rule {data.get('id')} cannot be read: {error!r}") from error


def read_rule(family: str, data: Mapping[str, Any]) -> Rule:
    data = dict(data)
    sources = data.pop("patterns")
    literals = _literals(sources, data.pop("find", ()))
    code = (data.get("codes") or (1,))[0]
    return Rule(
        family=family,
        fault=Fault(data.pop("fault")),
        confidence=Confidence(data.pop("confidence", "certain")),
        patterns=tuple(re.compile(expand(source)) for source in sources),
        literals=literals,
        remedies=tuple(data.pop("remedies", ())),
        codes=tuple(data.pop("codes", ())),
        within=tuple(data.pop("within", ())),
        leads_to=tuple(Fault(fault) for fault in data.pop("leads_to", ())),
        positive=tuple(_sample(sample, code) for sample in data.pop("positive")),
        negative=tuple(_sample(sample, code) for sample in data.pop("negative")),
        **data,
    )


def expand(source: str) -> str:
    """A path at the beginning of a pattern is looked for only where a path may begin: not again at each of its
    letters."""
    source = _PATH_FIRST.sub(lambda found: f"{found[1]}(?<!{_OF_PATH})(?P<{found[2]}>{_OF_PATH}{{1,300}})", source)
    return _PART.sub(lambda found: f"(?P<{found[1]}>{KINDS[found[2]]})", source)


def _literals(sources: Sequence[str], given: Sequence[str]) -> tuple[bytes, ...]:
    """What to look for before any pattern is tried: plain text of each pattern, and what the rule names besides."""
    found = set(given)
    for source in sources:
        longest = max(_plain_runs(source), key=len)
        if len(longest) >= _MIN_LENGTH:
            found.add(longest)
        elif not given:
            raise ValueError(f"{source!r} has no plain text to look for; give some with `find`")
    lowered = {literal.lower().encode() for literal in found}
    return tuple(sorted(one for one in lowered if not any(other in one for other in lowered - {one})))


def _plain_runs(source: str) -> Iterator[str]:
    run, depth = "", 0
    for piece in _PIECE.findall(source):
        if piece == "|" and depth == 0:
            raise ValueError(f"{source!r}: each alternative is a pattern of its own")
        plain = depth == 0 and (piece not in _SIGNS if len(piece) == 1 else _ESCAPED.fullmatch(piece))
        if plain:
            run += piece[-1]
            continue
        yield run[:-1] if piece[0] in "?*{" else run
        run = ""
        depth += (piece == "(") - (piece == ")")
    yield run


def _sample(data: str | Mapping[str, Any], code: int) -> Sample:
    if isinstance(data, str):
        return Sample(text=data, code=code)
    return Sample(text=data["text"], code=data.get("code", code))
