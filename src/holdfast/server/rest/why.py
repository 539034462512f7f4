"""/jobs/{ref}/why: why a job waits, failed or is slow; /schedules/{id}/why: what its next run waits for."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.api import why as api
from holdfast.core.scheduling.blockers import Ahead, Blocker, Estimate, Holder, Wait
from holdfast.core.scheduling.placement import Amount
from holdfast.core.verdicts import Diagnosis, Efficiency, Finding, Used
from holdfast.services.why.service import Why

from ..answers import answer
from ..auth import Ask, Caller
from .addresses import rest_router
from .views import show_message, show_messages, show_time

router = rest_router("jobs")


@router.get("/jobs/{ref}/why", response_model=api.Why)
async def why_job(ref: str, actor: Caller, services: Ask) -> Response:
    """Why it waits, with every blocker, who has what it lacks and what would help; why it failed, with evidence and
    remedy; what slows it down; what it used of what it asked for."""
    return answer(show_why(await services.reasons.of(actor, ref)))


@router.get("/schedules/{id}/why", response_model=api.Wait)
async def why_schedule(id: str, actor: Caller, services: Ask) -> Response:
    """Why no job of it runs now: the job that a run waits for by its overlap rule, a pause, a fault; or when the next
    one is due."""
    return answer(_wait(await services.schedule_waits.of(actor, id)))


def show_why(why: Why) -> dict[str, Any]:
    summary = why.job.summary
    return {
        "job": summary.id,
        "name": summary.name,
        "state": summary.state.value,
        **show_message("message", summary.message),
        "verdict": why.verdict,
        "waiting": _wait(why.waiting) if why.waiting else None,
        "failure": _failure(why.failure) if why.failure else None,
        "slow": [_finding(each) for each in why.slow],
        "efficiency": _efficiency(why.efficiency) if why.efficiency else None,
        "debugger": why.debugger,
    }


def _wait(wait: Wait) -> dict[str, Any]:
    estimate = wait.estimate
    return {
        "blockers": [_blocker(each) for each in wait.blockers],
        "ahead": [_ahead(each) for each in wait.ahead],
        "ahead_count": wait.ahead_count,
        **show_messages("helps", wait.helps),
        "estimate": _estimate(estimate) if estimate else None,
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {"at": show_time(estimate.at), **show_message("basis", estimate.basis), "likely": show_time(estimate.likely)}


def _blocker(blocker: Blocker) -> dict[str, Any]:
    return {
        "kind": blocker.kind.value,
        **show_message("text", blocker.text),
        "lacks": _amount(blocker.lacks) if blocker.lacks else None,
        "holders": [_holder(each) for each in blocker.holders],
        "more_holders": blocker.more_holders,
    }


def _holder(holder: Holder) -> dict[str, Any]:
    return {
        "job": holder.job_id,
        "name": holder.name,
        "user": holder.user,
        "group": holder.group,
        "has": _amount(holder.has),
        "since": show_time(holder.since),
        "until": show_time(holder.until),
        "held": holder.held,
    }


def _ahead(ahead: Ahead) -> dict[str, Any]:
    return {
        "job": ahead.job_id,
        "name": ahead.name,
        "user": ahead.user,
        "group": ahead.group,
        "asks": _amount(ahead.asks),
    }


def _amount(amount: Amount) -> dict[str, Any]:
    return {"cpu": amount.cpu, "memory": amount.memory, "gpu": amount.gpu}


def _failure(found: Diagnosis) -> dict[str, Any]:
    frame = found.frame
    return {
        "fault": found.fault.value,
        **show_message("title", found.title),
        **show_message("explanation", found.explanation),
        "confidence": found.confidence.value,
        "evidence": [
            {"kind": each.kind.value, **show_message("text", each.text), "task": each.task, "offset": each.offset}
            for each in found.evidence
        ],
        **show_messages("remedies", found.remedies),
        "task": found.task,
        "attempt": found.attempt,
        "followers": list(found.followers),
        "frame": {"file": frame.file, "line": frame.line, "function": frame.function, "code": frame.code}
        if frame
        else None,
        "rule": found.rule,
    }


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "kind": found.kind.value,
        **show_message("text", found.text),
        **show_message("remedy", found.remedy),
        "tasks": list(found.tasks),
        "figures": dict(found.figures),
    }


def _efficiency(found: Efficiency) -> dict[str, Any]:
    return {
        "whole": _used(found.whole),
        "roles": {name: _used(used) for name, used in found.roles.items()},
        **show_messages("advice", found.advice),
    }


def _used(used: Used) -> dict[str, Any]:
    return {
        "tasks": used.tasks,
        "seconds": used.seconds,
        "cpu_asked": used.cpu_asked,
        "cpu_used": used.cpu_used,
        "memory_asked": used.memory_asked,
        "memory_peak": used.memory_peak,
        "gpu_asked": used.gpu_asked,
        "gpu_used": used.gpu_used,
        "gpu_memory_peak": used.gpu_memory_peak,
    }
