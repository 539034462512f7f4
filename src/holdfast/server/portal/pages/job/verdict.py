"""Verdicts on a job for its page: why it is pending, why it failed, why it is slow, and its efficiency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from holdfast.core.scheduling.blockers import Blocker, JobAhead, ResourceHolder, WaitExplanation
from holdfast.core.scheduling.placement import ResourceAmount, format_nonzero_amount
from holdfast.core.verdicts import (
    Confidence,
    Diagnosis,
    Efficiency,
    Evidence,
    EvidenceKind,
    Fault,
    Finding,
    Frame,
    ResourceUsage,
)

from ...usage_lines import UsageBars, build_efficiency_lines
from ...visit import Visit
from .view import encode_query


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceQuote:
    """Lines of a log and their address."""

    text: str
    task: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    known: bool  # more is known than the exit code
    title: str
    explanation: str
    confidence: str
    quotes: tuple[EvidenceQuote, ...]
    facts: tuple[str, ...]  # evidence outside of logs
    remedies: tuple[str, ...]
    task: str | None
    affected_tasks: tuple[str, ...]  # that failed because of it
    frame: Frame | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedJob:
    """Another job that holds, or is ahead for, the needed resources. No id if the visitor cannot see it."""

    id: str
    name: str
    user: str
    group: str
    amount: str
    since: datetime | None = None
    until: datetime | None = None
    held: bool = False
    outside: str = ""  # engine whose system has the jobs of this user
    job_count: int = 1  # with `outside`


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockerView:
    text: str
    holders: tuple[RelatedJob, ...]
    more: int  # holders not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitView:
    blockers: tuple[BlockerView, ...]
    ahead: tuple[RelatedJob, ...]
    ahead_more: int
    suggestions: tuple[str, ...]
    start_at: datetime | None
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingView:
    text: str
    remedy: str
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EfficiencyView:
    total: UsageBars
    roles: tuple[UsageBars, ...]  # if there are several
    advice: tuple[str, ...]


# -- why it failed


def build_failure_view(visit: Visit, job_id: str, found: Diagnosis | None) -> FailureView | None:
    if found is None:
        return None
    return FailureView(
        known=found.fault is not Fault.UNKNOWN,
        title=visit.translate_message(found.title),
        explanation=visit.translate_message(found.explanation),
        confidence=_build_confidence_labels(visit)[found.confidence],
        quotes=tuple(_build_quote(job_id, found, each) for each in found.evidence if each.kind is EvidenceKind.LOG),
        facts=tuple(visit.translate_message(text) for text in _list_facts(found)),
        remedies=tuple(map(visit.translate_message, found.remedies)),
        task=found.task,
        affected_tasks=found.followers,
        frame=found.frame,
    )


def _list_facts(found: Diagnosis) -> list[str]:
    """Return the evidence outside of logs that is not in the title."""
    others = [each.text for each in found.evidence if each.kind is not EvidenceKind.LOG]
    return [text for text in others if (text.partition(": ")[2] or text) not in found.title]


def _build_confidence_labels(visit: Visit) -> Mapping[Confidence, str]:
    return {
        Confidence.CERTAIN: visit.translate_text("certain"),
        Confidence.LIKELY: visit.translate_text("likely"),
        Confidence.POSSIBLE: visit.translate_text("possible"),
    }


def _build_quote(job_id: str, found: Diagnosis, evidence: Evidence) -> EvidenceQuote:
    task = evidence.task or found.task or ""
    query = {"task": task, "attempt": found.attempt, "start": evidence.offset}
    address = f"/jobs/{job_id}/log?{encode_query(query)}"
    return EvidenceQuote(text=evidence.text, task=task, address=address)


# -- why it is pending


def build_wait_view(visit: Visit, found: WaitExplanation | None) -> WaitView | None:
    if found is None:
        return None
    return WaitView(
        blockers=tuple(_build_blocker_view(visit, each) for each in found.blockers),
        ahead=tuple(_build_related_job(visit, each, each.asks) for each in found.ahead),
        ahead_more=max(0, found.ahead_count - len(found.ahead)),
        suggestions=tuple(map(visit.translate_message, found.helps)),
        start_at=found.estimate.at if found.estimate else None,
        basis=visit.translate_message(found.estimate.basis) if found.estimate else "",
    )


def _build_blocker_view(visit: Visit, blocker: Blocker) -> BlockerView:
    holders = tuple(_build_holder_job(visit, each) for each in blocker.holders)
    return BlockerView(text=visit.translate_message(blocker.text), holders=holders, more=blocker.more_holders)


def _build_holder_job(visit: Visit, holder: ResourceHolder) -> RelatedJob:
    job = _build_related_job(visit, holder, holder.has)
    return replace(
        job,
        since=holder.since,
        until=holder.until,
        held=holder.held,
        outside=holder.outside,
        job_count=holder.job_count,
    )


def _build_related_job(visit: Visit, job: ResourceHolder | JobAhead, amount: ResourceAmount) -> RelatedJob:
    return RelatedJob(
        id=job.job_id if job.name else "",
        name=job.name,
        user=job.user,
        group=job.group,
        amount=visit.translate_message(format_nonzero_amount(amount)),
    )


# -- why it is slow, and its efficiency


def build_finding_views(visit: Visit, found: Sequence[Finding]) -> tuple[FindingView, ...]:
    return tuple(
        FindingView(
            text=visit.translate_message(each.text), remedy=visit.translate_message(each.remedy), tasks=each.tasks
        )
        for each in found
    )


def build_efficiency_view(visit: Visit, found: Efficiency | None) -> EfficiencyView | None:
    """Build the view; None if nothing was measured."""
    if found is None or not _has_measurements(found.whole):
        return None
    roles = found.roles if len(found.roles) > 1 else {}
    return EfficiencyView(
        total=UsageBars(name="", lines=build_efficiency_lines(visit, found.whole)),
        roles=tuple(UsageBars(name=name, lines=build_efficiency_lines(visit, used)) for name, used in roles.items()),
        advice=tuple(map(visit.translate_message, found.advice)),
    )


def _has_measurements(used: ResourceUsage) -> bool:
    return used.cpu_used is not None or used.memory_peak is not None
