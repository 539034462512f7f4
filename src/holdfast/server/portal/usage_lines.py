"""How much of what there is is used: the lines that bars are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.scheduling.placement import Amount, Quota, show_bytes
from holdfast.core.verdicts import Used

from .visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class UseLine:
    label: str
    used: float
    limit: float | None  # None: no bound
    text: str


def quota_lines(visit: Visit, used: Amount, quota: Quota) -> tuple[UseLine, ...]:
    """In use, of what may be."""
    form = visit.say("{used} of {limit}")
    texts = {
        "cpu": (visit.say("CPU"), _cores(used.cpu), _number(quota.cpu)),
        "memory": (
            visit.say("Memory"),
            show_bytes(used.memory),
            "∞" if quota.memory is None else show_bytes(quota.memory),
        ),
        "gpu": (visit.say("GPU"), f"{used.gpu}", _number(quota.gpu)),
    }
    return tuple(
        UseLine(
            label=label, used=getattr(used, name), limit=getattr(quota, name), text=form.format(used=one, limit=other)
        )
        for name, (label, one, other) in texts.items()
    )


def machine_lines(visit: Visit, free: Amount, whole: Amount) -> tuple[UseLine, ...]:
    """In use, of all there is; without GPUs where there are none."""
    lines = quota_lines(visit, whole.minus(free), Quota(cpu=whole.cpu, memory=whole.memory, gpu=whole.gpu))
    return lines if whole.gpu else lines[:2]


def used_lines(visit: Visit, used: Used) -> tuple[UseLine, ...]:
    """What a job used of what it asked for; what was not measured is left out."""
    found = [(visit.say("CPU"), used.cpu_used, used.cpu_asked, _cores), (visit.say("Memory"), *_memory(used))]
    if used.gpu_asked:
        found.append((visit.say("GPU"), used.gpu_used, used.gpu_asked, _cores))
    form = visit.say("{used} of {limit} ({percent} %)")
    return tuple(
        UseLine(
            label=label,
            used=min(have, asked),
            limit=asked,
            text=form.format(used=show(have), limit=show(asked), percent=round(100 * have / asked)),
        )
        for label, have, asked, show in found
        if have is not None and asked
    )


def _memory(used: Used) -> tuple[float | None, float, Callable[[float], str]]:
    return used.memory_peak, used.memory_asked, lambda count: show_bytes(int(count))


def _cores(cpu: float) -> str:
    """What sums of fractions leave behind is nothing; nor is it less than nothing."""
    return f"{round(cpu, 3) + 0.0:g}"


def _number(limit: float | None) -> str:
    return "∞" if limit is None else f"{limit:g}"
