"""What Holdfast concludes about a job, for its page: why it waits, why it failed, what slows it down, what it used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from holdfast.core.scheduling.blockers import Ahead, Blocker, Holder, Wait
from holdfast.core.scheduling.placement import show_parts
from holdfast.core.verdicts import (
    Confidence,
    Diagnosis,
    Efficiency,
    Evidence,
    EvidenceKind,
    Fault,
    Finding,
    Frame,
    Used,
)

from ...usage_lines import UseLine, used_lines
from ...visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """Lines of a log, and where they stand."""

    text: str
    task: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureView:
    known: bool  # there is more to say than its exit code does
    title: str
    explanation: str
    confidence: str
    quotes: tuple[Quote, ...]
    facts: tuple[str, ...]  # evidence that is in no log
    remedies: tuple[str, ...]
    task: str | None
    followers: tuple[str, ...]
    frame: Frame | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """Another job that has, or wants, what this one waits for. Without an id where the visitor may not see it."""

    id: str
    name: str
    user: str
    group: str
    amount: str
    since: datetime | None = None
    until: datetime | None = None
    held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockerView:
    text: str
    holders: tuple[JobLine, ...]
    more: int  # holders that are not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitView:
    blockers: tuple[BlockerView, ...]
    ahead: tuple[JobLine, ...]
    ahead_more: int
    helps: tuple[str, ...]
    start_at: datetime | None
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowView:
    text: str
    remedy: str
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UseView:
    """Used against asked: of the whole job, or of a role."""

    name: str
    lines: tuple[UseLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EfficiencyView:
    whole: UseView
    roles: tuple[UseView, ...]  # where there are several
    advice: tuple[str, ...]


# -- why it failed


def failure_view(visit: Visit, job_id: str, found: Diagnosis | None) -> FailureView | None:
    if found is None:
        return None
    return FailureView(
        known=found.fault is not Fault.UNKNOWN,
        title=visit.tell(found.title),
        explanation=visit.tell(found.explanation),
        confidence=_confidence_words(visit)[found.confidence],
        quotes=tuple(_quote(job_id, found, each) for each in found.evidence if each.kind is EvidenceKind.LOG),
        facts=tuple(visit.tell(text) for text in _facts(found)),
        remedies=tuple(map(visit.tell, found.remedies)),
        task=found.task,
        followers=found.followers,
        frame=found.frame,
    )


def _facts(found: Diagnosis) -> list[str]:
    """Evidence that is in no log, and that the title does not say."""
    others = [each.text for each in found.evidence if each.kind is not EvidenceKind.LOG]
    return [text for text in others if (text.partition(": ")[2] or text) not in found.title]


def _confidence_words(visit: Visit) -> Mapping[Confidence, str]:
    return {
        Confidence.CERTAIN: visit.say("certain"),
        Confidence.LIKELY: visit.say("likely"),
        Confidence.POSSIBLE: visit.say("possible"),
    }


def _quote(job_id: str, found: Diagnosis, evidence: Evidence) -> Quote:
    task = evidence.task or found.task or ""
    query = {"task": task, "attempt": found.attempt, "start": evidence.offset}
    said = {name: value for name, value in query.items() if value not in (None, "")}
    return Quote(text=evidence.text, task=task, address=f"/jobs/{job_id}/log?{urlencode(said)}")


# -- why it waits


def wait_view(visit: Visit, found: Wait | None) -> WaitView | None:
    if found is None:
        return None
    return WaitView(
        blockers=tuple(_blocker(visit, each) for each in found.blockers),
        ahead=tuple(_ahead(visit, each) for each in found.ahead),
        ahead_more=max(0, found.ahead_count - len(found.ahead)),
        helps=tuple(map(visit.tell, found.helps)),
        start_at=found.estimate.at if found.estimate else None,
        basis=visit.tell(found.estimate.basis) if found.estimate else "",
    )


def _blocker(visit: Visit, blocker: Blocker) -> BlockerView:
    holders = tuple(_holder(visit, each) for each in blocker.holders)
    return BlockerView(text=visit.tell(blocker.text), holders=holders, more=blocker.more_holders)


def _holder(visit: Visit, holder: Holder) -> JobLine:
    return JobLine(
        id=holder.job_id if holder.name else "",
        name=holder.name,
        user=holder.user,
        group=holder.group,
        amount=visit.tell(show_parts(holder.has)),
        since=holder.since,
        until=holder.until,
        held=holder.held,
    )


def _ahead(visit: Visit, ahead: Ahead) -> JobLine:
    shown = visit.tell(show_parts(ahead.asks))
    id = ahead.job_id if ahead.name else ""
    return JobLine(id=id, name=ahead.name, user=ahead.user, group=ahead.group, amount=shown)


# -- what slows it down, and what it used


def slow_views(visit: Visit, found: Sequence[Finding]) -> tuple[SlowView, ...]:
    return tuple(
        SlowView(text=visit.tell(each.text), remedy=visit.tell(each.remedy), tasks=each.tasks) for each in found
    )


def efficiency_view(visit: Visit, found: Efficiency | None) -> EfficiencyView | None:
    """None as long as nothing was measured."""
    if found is None or not _measured(found.whole):
        return None
    roles = found.roles if len(found.roles) > 1 else {}
    return EfficiencyView(
        whole=UseView(name="", lines=used_lines(visit, found.whole)),
        roles=tuple(UseView(name=name, lines=used_lines(visit, used)) for name, used in roles.items()),
        advice=tuple(map(visit.tell, found.advice)),
    )


def _measured(used: Used) -> bool:
    return used.cpu_used is not None or used.memory_peak is not None
