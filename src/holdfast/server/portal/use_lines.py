"""How much of what there is is used: the lines that bars are drawn from."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.placement import Amount, Quota, show_bytes

from .visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class UseLine:
    label: str
    used: float
    limit: float | None  # None: no bound
    text: str


def quota_lines(visit: Visit, used: Amount, quota: Quota) -> tuple[UseLine, ...]:
    """In use, of what may be."""
    return _lines(visit, used, quota, visit.say("{used} of {limit}"), used)


def machine_lines(visit: Visit, free: Amount, whole: Amount) -> tuple[UseLine, ...]:
    """Free, of all there is; without GPUs where there are none."""
    there = Quota(cpu=whole.cpu, memory=whole.memory, gpu=whole.gpu)
    lines = _lines(visit, whole.minus(free), there, visit.say("{used} of {limit} free"), free)
    return lines if whole.gpu else lines[:2]


def _lines(visit: Visit, used: Amount, bound: Quota, form: str, told: Amount) -> tuple[UseLine, ...]:
    texts = {
        "cpu": (visit.say("CPU"), _cores(told.cpu), _number(bound.cpu)),
        "memory": (
            visit.say("Memory"),
            show_bytes(told.memory),
            "∞" if bound.memory is None else show_bytes(bound.memory),
        ),
        "gpu": (visit.say("GPU"), f"{told.gpu}", _number(bound.gpu)),
    }
    return tuple(
        UseLine(
            label=label, used=getattr(used, name), limit=getattr(bound, name), text=form.format(used=one, limit=other)
        )
        for name, (label, one, other) in texts.items()
    )


def _cores(cpu: float) -> str:
    """What sums of fractions leave behind is nothing; nor is it less than nothing."""
    return f"{round(cpu, 3) + 0.0:g}"


def _number(limit: float | None) -> str:
    return "∞" if limit is None else f"{limit:g}"
