"""Templates filled with what is known of a task: the words of a verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from holdfast.core.exits.exit import SIGNAL_NAMES, ExitKind
from holdfast.core.job import GIB, MIB
from holdfast.core.messages import Message, map_text, msg
from holdfast.core.scheduling.placement import show_bytes
from holdfast.core.verdicts import Confidence, Diagnosis, Evidence, EvidenceKind, Fault

from . import phrases
from .case import Case, TaskCase
from .phrases import Words

_BLANK = re.compile(r"\{([a-z_0-9]+)\}")
MAX_LENGTH = 200  # characters of what is put into a sentence
MAX_TITLE_LENGTH = 240
FAR_BELOW = 0.7  # of the limit: with less in use, more of it does not help
_KILL = 9
_HOST = "host"  # the image that is the machine itself: its Python takes no packages


def fill(template: str, values: Mapping[str, str]) -> Message:
    used = {found[1]: values.get(found[1], "") for found in _BLANK.finditer(template)}
    return Message(template, {name: map_text(value, lambda text: text[:MAX_LENGTH]) for name, value in used.items()})


@dataclass(frozen=True, slots=True)
class Wording:
    """How things are called in one task's job, and its figures."""

    case: Case
    task: TaskCase | None

    def diagnosis(
        self,
        fault: Fault,
        words: Words,
        confidence: Confidence,
        values: Mapping[str, str] | None = None,
        *,
        rule: str = "",
        evidence: Iterable[Evidence] = (),
    ) -> Diagnosis:
        known = {**self._values(), **(values or {})}
        remedies = (fill(self._remedy(remedy, known), known) for remedy in words.remedies)
        return Diagnosis(
            fault=fault,
            title=one_line(fill(words.title, known)),
            explanation=fill(words.explanation, known),
            confidence=confidence,
            evidence=tuple(evidence),
            remedies=tuple(remedy for remedy in remedies if remedy),
            task=self.task.task if self.task else None,
            attempt=self.case.attempt,
            rule=rule,
        )

    @property
    def has_memory_left(self) -> bool:
        """It was refused memory, and not by the limit of the job: it was far from that."""
        task = self.task
        if task is None or not task.memory_peak or not task.memory_limit:
            return False
        killed = task.exit.kind is ExitKind.OUT_OF_MEMORY or task.exit.signal == _KILL
        return not killed and task.memory_peak < FAR_BELOW * task.memory_limit

    def exit_evidence(self) -> Evidence | None:
        exit = self.task.exit if self.task else self.case.exit
        if exit is None:
            return None
        if self.task is None or exit.code is None:
            return Evidence(kind=EvidenceKind.EXIT, text=exit.message, task=self.task.task if self.task else None)
        template = phrases.ENDED_BY if exit.signal in SIGNAL_NAMES else phrases.ENDED
        return Evidence(kind=EvidenceKind.EXIT, text=fill(template, self._values()), task=self.task.task)

    def memory_evidence(self) -> Evidence | None:
        if self.task is None or not self.task.memory_peak or not self.task.memory_limit:
            return None
        return Evidence(kind=EvidenceKind.MEMORY, text=fill(phrases.MEMORY, self._values()), task=self.task.task)

    def kernel_evidence(self) -> Evidence | None:
        if self.task is None or self.task.watched:
            return None
        return Evidence(kind=EvidenceKind.KERNEL, text=fill(phrases.KERNEL, self._values()), task=self.task.task)

    def _remedy(self, remedy: str, known: Mapping[str, str]) -> str:
        if not remedy.startswith("@"):
            return remedy
        if remedy[1:] in CHOSEN:
            return CHOSEN[remedy[1:]](self, known)
        if remedy == "@memory" and self.has_memory_left:
            return phrases.ONLY_OWN_LIMIT
        return phrases.BY_DIALECT[remedy[1:]][self.case.job.dialect]

    def _values(self) -> dict[str, str]:
        task, role = self.task, self.task.role if self.task else self.case.job.roles[0]
        exit = task.exit if task else self.case.exit
        limit = (task.memory_limit if task else None) or role.resources.memory
        peak = task.memory_peak if task and task.memory_peak else 0
        signal = exit.signal if exit else None
        return {
            "job": self.case.ref,
            "task": task.task if task else "",
            "role": role.name,
            "image": role.image,
            "gpus": str(role.resources.gpu),
            "code": str(exit.code) if exit and exit.code is not None else "",
            "signal": SIGNAL_NAMES.get(signal, msg("signal {signal}", signal=signal)) if signal else "",
            "memory_limit": show_bytes(limit),
            "memory_peak": show_bytes(min(peak, limit) if peak else limit),
            "memory_more": show_bytes(more_memory(limit)),
            "time_limit": show_span(self.case.time_limit),
        }


def _inside(wording: Wording, _known: Mapping[str, str]) -> str:
    return phrases.INSIDE_HELD if wording.task and wording.task.held else phrases.INSIDE


def _own_limit(wording: Wording, _known: Mapping[str, str]) -> str:
    return "" if wording.has_memory_left else phrases.OWN_LIMIT


def _command(_wording: Wording, known: Mapping[str, str]) -> str:
    return phrases.PYTHON3 if known.get("command") == "python" else phrases.SPELLED


def _pip(_wording: Wording, known: Mapping[str, str]) -> str:
    return phrases.VENV if known["image"] == _HOST else phrases.PIP


# Remedies that depend on what is known of the task, by what stands for them in rules.
CHOSEN: Mapping[str, Callable[[Wording, Mapping[str, str]], str]] = {
    "inside": _inside,
    "own-limit": _own_limit,
    "command": _command,
    "pip": _pip,
}


def one_line(text: str) -> str:
    text = map_text(text, lambda part: " ".join(part.split())).removesuffix(":")
    return text if len(text) <= MAX_TITLE_LENGTH else text[: MAX_TITLE_LENGTH - 1] + "…"


def with_evidence(diagnosis: Diagnosis, *more: Evidence | None) -> Diagnosis:
    return replace(diagnosis, evidence=(*diagnosis.evidence, *(each for each in more if each is not None)))


def more_memory(limit: int) -> int:
    """What to try next: half as much again, in round numbers."""
    wanted, step = limit * 3 // 2, GIB if limit >= 2 * GIB else 256 * MIB if limit >= 256 * MIB else 64 * MIB
    return -(-wanted // step) * step


def show_span(span: timedelta | None) -> str:
    """3600 s -> 1h; 90 s -> 1m30s."""
    seconds = int(span.total_seconds()) if span else 0
    units = (seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")
    return "".join(f"{count}{unit}" for count, unit in units if count) or "0s"
