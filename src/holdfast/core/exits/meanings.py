"""Meaning of an exit, as shown to users. Where OpenPAI's row is only the generic one, the exit code gives the meaning.
The texts for OpenPAI's clients are in `specs`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from ..messages import join_messages
from .exit import Exit, ExitKind
from .specs import expand_solution, load_data_file
from .table import find_spec

_UNSPECIFIED_CODE = 255  # the generic row: "failed with its own exit code"


class Meaning(NamedTuple):
    reason: str
    solution: tuple[str, ...]


class MeaningTable(NamedTuple):
    shell: Mapping[int, Meaning]  # by exit code, for codes with the same meaning in every shell
    signals: Mapping[int, str]  # reasons, by the exit code of a signal
    common: Mapping[int, str]  # reasons, by the program's exit code
    causes: Mapping[str, str]  # reasons
    other: Meaning


@cache
def load_meanings() -> MeaningTable:
    data = load_data_file("meanings")
    return MeaningTable(
        shell={int(code): _make_meaning(**known) for code, known in data["shell"].items()},
        signals={int(code): reason for code, reason in data["signals"].items()},
        common={int(code): reason for code, reason in data["common"].items()},
        causes=data["causes"],
        other=_make_meaning(**data["other"]),
    )


def _make_meaning(reason: str, solution: list[str]) -> Meaning:
    return Meaning(reason, expand_solution(solution))


def find_meaning(exit: Exit) -> Meaning:
    spec, code, known = find_spec(exit), exit.code or 0, load_meanings()
    if exit.kind is ExitKind.USER_ERROR and spec.code == code and code in known.signals:
        return Meaning(known.signals[code], spec.solution)
    if exit.kind is not ExitKind.USER_ERROR or spec.code != _UNSPECIFIED_CODE:
        return Meaning(spec.reason, spec.solution)
    if exit.cause in known.causes:
        return Meaning(known.causes[exit.cause], spec.solution)
    return known.shell.get(code) or known.other._replace(reason=known.common.get(code, known.other.reason))


def explain_shell_code(exit: Exit) -> str:
    """Return meaning and solution of a shell's exit code; empty for other codes, or if the cause is known."""
    if exit.kind is not ExitKind.USER_ERROR or exit.cause or exit.code is None:
        return ""
    known = load_meanings().shell.get(exit.code)
    return join_messages(" ", (known.reason, *known.solution)) if known else ""
