"""Texts of a verdict: templates filled with the values of a task."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from holdfast.core.exits.exit import SIGNAL_NAMES, ExitKind
from holdfast.core.job import GIB, MIB
from holdfast.core.messages import Message, map_text, msg
from holdfast.core.scheduling.placement import format_bytes
from holdfast.core.verdicts import Confidence, Diagnosis, Evidence, EvidenceKind, Fault

from . import verdict_texts
from .case import JobDiagnosisInput, TaskDiagnosisInput
from .verdict_texts import VerdictText

_PLACEHOLDER_PATTERN = re.compile(r"\{([a-z_0-9]+)\}")
MAX_VALUE_LENGTH = 200  # characters of a value in a sentence
MAX_TITLE_LENGTH = 240
MAX_MEMORY_SHARE = 0.7  # share of the limit; below it, a higher limit does not help
_SIGKILL = 9
_HOST_IMAGE = "host"  # the image of the host itself: no packages can be installed into its Python


def fill_message_template(template: str, values: Mapping[str, str]) -> Message:
    used = {found[1]: values.get(found[1], "") for found in _PLACEHOLDER_PATTERN.finditer(template)}
    return Message(
        template, {name: map_text(value, lambda text: text[:MAX_VALUE_LENGTH]) for name, value in used.items()}
    )


@dataclass(frozen=True, slots=True)
class VerdictBuilder:
    """Builder of diagnoses with the values of one task and its job."""

    case: JobDiagnosisInput
    task: TaskDiagnosisInput | None

    def build_diagnosis(
        self,
        fault: Fault,
        words: VerdictText,
        confidence: Confidence,
        values: Mapping[str, str] | None = None,
        *,
        rule: str = "",
        evidence: Iterable[Evidence] = (),
    ) -> Diagnosis:
        known = {**self._collect_values(), **(values or {})}
        remedies = (fill_message_template(self._resolve_remedy(remedy, known), known) for remedy in words.remedies)
        return Diagnosis(
            fault=fault,
            title=to_one_line(fill_message_template(words.title, known)),
            explanation=fill_message_template(words.explanation, known),
            confidence=confidence,
            evidence=tuple(evidence),
            remedies=tuple(remedy for remedy in remedies if remedy),
            task=self.task.task if self.task else None,
            attempt=self.case.attempt,
            rule=rule,
        )

    @property
    def has_memory_left(self) -> bool:
        """Whether an allocation failed although usage was far below the job's limit."""
        task = self.task
        if task is None or not task.memory_peak or not task.memory_limit:
            return False
        killed = task.exit.kind is ExitKind.OUT_OF_MEMORY or task.exit.signal == _SIGKILL
        return not killed and task.memory_peak < MAX_MEMORY_SHARE * task.memory_limit

    def build_exit_evidence(self) -> Evidence | None:
        exit = self.task.exit if self.task else self.case.exit
        if exit is None:
            return None
        if self.task is None or exit.code is None:
            return Evidence(kind=EvidenceKind.EXIT, text=exit.message, task=self.task.task if self.task else None)
        template = verdict_texts.EXITED_BY_SIGNAL if exit.signal in SIGNAL_NAMES else verdict_texts.EXITED
        return self._build_evidence(EvidenceKind.EXIT, template)

    def build_memory_evidence(self) -> Evidence | None:
        if self.task is None or not self.task.memory_peak or not self.task.memory_limit:
            return None
        return self._build_evidence(EvidenceKind.MEMORY, verdict_texts.MEMORY_USAGE)

    def build_kernel_evidence(self) -> Evidence | None:
        if self.task is None or self.task.watched:
            return None
        return self._build_evidence(EvidenceKind.KERNEL, verdict_texts.KERNEL_KILL)

    def _build_evidence(self, kind: EvidenceKind, template: str) -> Evidence:
        task = self.task.task if self.task else None
        return Evidence(kind=kind, text=fill_message_template(template, self._collect_values()), task=task)

    def _resolve_remedy(self, remedy: str, known: Mapping[str, str]) -> str:
        if not remedy.startswith("@"):
            return remedy
        if remedy[1:] in REMEDY_RESOLVERS:
            return REMEDY_RESOLVERS[remedy[1:]](self, known)
        if remedy == "@memory" and self.has_memory_left:
            return verdict_texts.ONLY_PROGRAM_LIMIT
        return verdict_texts.REMEDIES_BY_FORMAT[remedy[1:]][self.case.job.dialect]

    def _collect_values(self) -> dict[str, str]:
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
            "memory_limit": format_bytes(limit),
            "memory_peak": format_bytes(min(peak, limit) if peak else limit),
            "memory_more": format_bytes(compute_suggested_memory(limit)),
            "time_limit": format_time_limit(self.case.time_limit),
        }


# Remedies that depend on the task, by their names in rules.
REMEDY_RESOLVERS: Mapping[str, Callable[[VerdictBuilder, Mapping[str, str]], str]] = {
    "inside": lambda wording, known: (
        verdict_texts.SHELL_ON_HOLD if wording.task and wording.task.held else verdict_texts.SHELL_WITH_HOLD
    ),
    "own-limit": lambda wording, known: "" if wording.has_memory_left else verdict_texts.PROGRAM_LIMIT,
    "command": lambda wording, known: (
        verdict_texts.USE_PYTHON3 if known.get("command") == "python" else verdict_texts.CHECK_SPELLING
    ),
    "pip": lambda wording, known: (
        verdict_texts.VENV_INSTALL if known["image"] == _HOST_IMAGE else verdict_texts.PIP_INSTALL
    ),
}


def to_one_line(text: str) -> str:
    text = map_text(text, lambda part: " ".join(part.split())).removesuffix(":")
    return text if len(text) <= MAX_TITLE_LENGTH else text[: MAX_TITLE_LENGTH - 1] + "…"


def add_evidence(diagnosis: Diagnosis, *more: Evidence | None) -> Diagnosis:
    """Add evidence, unless the same text is there already."""
    known = {each.text for each in diagnosis.evidence}
    new = (each for each in more if each is not None and each.text not in known)
    return replace(diagnosis, evidence=(*diagnosis.evidence, *new))


def compute_suggested_memory(limit: int) -> int:
    """Return one and a half times the limit, rounded up."""
    wanted, step = limit * 3 // 2, GIB if limit >= 2 * GIB else 256 * MIB if limit >= 256 * MIB else 64 * MIB
    return -(-wanted // step) * step


def format_time_limit(span: timedelta | None) -> str:
    """3600 s -> 1h; 90 s -> 1m30s."""
    seconds = int(span.total_seconds()) if span else 0
    units = (seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")
    return "".join(f"{count}{unit}" for count, unit in units if count) or "0s"
