"""One verdict on a job that failed."""

from __future__ import annotations

from holdfast.core.exits import ExitKind
from holdfast.core.verdicts import Confidence, Diagnosis, Evidence, EvidenceKind, Fault

from .case import Case

_KINDS = {
    ExitKind.OUT_OF_MEMORY: Fault.OUT_OF_MEMORY,
    ExitKind.TIME_LIMIT: Fault.TIME_LIMIT,
    ExitKind.REFUSED: Fault.IMPOSSIBLE,
    ExitKind.PLATFORM: Fault.PLATFORM,
}


def judge(case: Case) -> Diagnosis | None:
    """None where there is nothing that failed."""
    task = case.tasks[0] if case.tasks else None
    exit = task.exit if task else case.exit
    if exit is None or exit.kind in (ExitKind.SUCCEEDED, ExitKind.CANCELLED, ExitKind.ATTEMPT_OVER):
        return None
    name = task.task if task else None
    return Diagnosis(
        fault=_KINDS.get(exit.kind, Fault.UNKNOWN),
        title=exit.message,
        explanation="",
        confidence=Confidence.CERTAIN if exit.kind in _KINDS else Confidence.POSSIBLE,
        evidence=(Evidence(kind=EvidenceKind.EXIT, text=exit.message, task=name),),
        task=name,
        attempt=case.attempt,
    )
