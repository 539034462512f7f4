"""What an exit means, in the plain words that people are shown: where OpenPAI's row for it only says that no row fits,
the exit code itself tells more. What OpenPAI's clients are told stays in `specs`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from ..messages import join_messages
from .exit import Exit, ExitKind
from .specs import expand_solution, load_data
from .table import spec_of

_NO_ROW = 255  # "failed with a code of its own"


class Meaning(NamedTuple):
    reason: str
    solution: tuple[str, ...]


class Meanings(NamedTuple):
    shell: Mapping[int, Meaning]  # by a code to which every shell gives this meaning
    signals: Mapping[int, str]  # reasons, by the code that a shell gives for a signal
    common: Mapping[int, str]  # reasons, by the program's own code
    causes: Mapping[str, str]  # reasons
    other: Meaning


@cache
def load_meanings() -> Meanings:
    data = load_data("meanings")
    return Meanings(
        shell={int(code): _make_meaning(**known) for code, known in data["shell"].items()},
        signals={int(code): reason for code, reason in data["signals"].items()},
        common={int(code): reason for code, reason in data["common"].items()},
        causes=data["causes"],
        other=_make_meaning(**data["other"]),
    )


def _make_meaning(reason: str, solution: list[str]) -> Meaning:
    return Meaning(reason, expand_solution(solution))


def meaning_of(exit: Exit) -> Meaning:
    spec, code, known = spec_of(exit), exit.code or 0, load_meanings()
    if exit.kind is ExitKind.USER_ERROR and spec.code == code and code in known.signals:
        return Meaning(known.signals[code], spec.solution)
    if exit.kind is not ExitKind.USER_ERROR or spec.code != _NO_ROW:
        return Meaning(spec.reason, spec.solution)
    if exit.cause in known.causes:
        return Meaning(known.causes[exit.cause], spec.solution)
    return known.shell.get(code) or known.other._replace(reason=known.common.get(code, known.other.reason))


def known_code(exit: Exit) -> str:
    """What a code that every shell gives means and what to try; empty where only the program knows, or more is told."""
    if exit.kind is not ExitKind.USER_ERROR or exit.cause or exit.code is None:
        return ""
    known = load_meanings().shell.get(exit.code)
    return join_messages(" ", (known.reason, *known.solution)) if known else ""
