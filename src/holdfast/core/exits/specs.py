"""OpenPAI's exit specification: all exits of OpenPAI, with reasons and solutions.

It is data in `data/`: one file per family of exits, with the fields of OpenPAI's own specification. The files are
loaded once, when they are first needed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from .exit import RetryBehaviour

EXIT_FAMILIES = ("platform", "signals", "logs", "runtime")
LEGACY_FAMILY = "legacy"  # of OpenPAI before 1.0
_REACTIONS_BY_BEHAVIOUR = {
    RetryBehaviour.TRANSIENT: "ALWAYS_RETRY",
    RetryBehaviour.TRANSIENT_CONFLICT: "ALWAYS_BACKOFF_RETRY",
    RetryBehaviour.PERMANENT: "NEVER_RETRY",
    RetryBehaviour.UNKNOWN: "RETRY_TO_MAX",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitSpec:
    code: int  # what OpenPAI's clients see as exit code
    phrase: str
    issuer: str
    causer: str
    type: str
    stage: str
    behaviour: RetryBehaviour
    reaction: str
    reason: str
    repro: tuple[str, ...]
    solution: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseSpec:
    code: int  # of its ExitSpec
    words: str = ""  # added to the message after the exit code, for causes found in a log
    hint: str = ""  # used instead of the solution of its ExitSpec


@cache
def load_specs() -> Mapping[int, ExitSpec]:
    return {spec.code: spec for family in (*EXIT_FAMILIES, LEGACY_FAMILY) for spec in load_family_specs(family)}


@cache
def load_family_specs(family: str) -> tuple[ExitSpec, ...]:
    return tuple(_build_spec(data) for data in load_data_file(family)["exit"])


@cache
def load_cause_specs() -> Mapping[str, CauseSpec]:
    """Load all causes by name, as stores keep it."""
    return {name: CauseSpec(**data) for name, data in load_data_file("causes").items()}


@cache
def load_data_file(name: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "data" / f"{name}.toml").read_text("utf-8"))


def expand_solution(texts: Iterable[str]) -> tuple[str, ...]:
    """Replace references such as `@wait` by their texts."""
    shared = load_data_file("solutions")
    return tuple(shared[text[1:]] if text.startswith("@") else text for text in texts)


def _build_spec(data: Mapping[str, Any]) -> ExitSpec:
    behaviour = RetryBehaviour(data["behaviour"])
    made = {
        "behaviour": behaviour,
        "reaction": _REACTIONS_BY_BEHAVIOUR[behaviour] if data["code"] != 0 else "NEVER_RETRY",
        "repro": tuple(data["repro"]),
        "solution": expand_solution(data["solution"]),
    }
    return ExitSpec(**{**data, **made})
