"""Lines of usage bars: resources in use, and their limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.core.scheduling.placement import Quota, ResourceAmount, format_bytes
from holdfast.core.verdicts import ResourceUsage

from .visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine:
    label: str
    used: float
    limit: float | None  # None: no limit
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageBars:
    """Usage of a group, a machine, a job or a role."""

    name: str
    lines: tuple[UsageLine, ...]
    mine: tuple[UsageLine, ...] = ()  # if there is a limit per user


def build_quota_lines(visit: Visit, used: ResourceAmount, quota: Quota) -> tuple[UsageLine, ...]:
    _ = visit.translate_text
    rows = (
        (_("CPU"), used.cpu, quota.cpu, _format_cores(used.cpu), _format_limit(quota.cpu)),
        (_("Memory"), used.memory, quota.memory, format_bytes(used.memory), _format_size_limit(quota.memory)),
        (_("GPU"), used.gpu, quota.gpu, f"{used.gpu}", _format_limit(quota.gpu)),
    )
    template = _("{used} of {limit}")
    return tuple(
        UsageLine(label=label, used=amount, limit=limit, text=template.format(used=used_text, limit=limit_text))
        for label, amount, limit, used_text, limit_text in rows
    )


def build_node_lines(visit: Visit, free: ResourceAmount, capacity: ResourceAmount) -> tuple[UsageLine, ...]:
    """Build lines of usage and capacity of a machine, without GPUs if it has none."""
    lines = build_quota_lines(
        visit, capacity.minus(free), Quota(cpu=capacity.cpu, memory=capacity.memory, gpu=capacity.gpu)
    )
    return lines if capacity.gpu else lines[:2]


def build_efficiency_lines(visit: Visit, used: ResourceUsage) -> tuple[UsageLine, ...]:
    """Build lines of usage and request of a job, for measured resources only."""
    _ = visit.translate_text
    rows: list[tuple[str, float | None, float, Callable[[float], str]]] = [
        (_("CPU"), used.cpu_used, used.cpu_asked, _format_cores),
        (_("Memory"), used.memory_peak, used.memory_asked, lambda count: format_bytes(int(count))),
        (_("GPU"), used.gpu_used, used.gpu_asked, _format_cores),
    ]
    template = _("{used} of {limit} ({percent} %)")
    return tuple(
        UsageLine(
            label=label,
            used=min(amount, requested),
            limit=requested,
            text=template.format(used=show(amount), limit=show(requested), percent=round(100 * amount / requested)),
        )
        for label, amount, requested, show in rows
        if amount is not None and requested
    )


def _format_cores(cpu: float) -> str:
    """Format cores. Rounding errors of sums are shown as 0."""
    return f"{round(cpu, 3) + 0.0:g}"


def _format_size_limit(limit: int | None) -> str:
    return "∞" if limit is None else format_bytes(limit)


def _format_limit(limit: float | None) -> str:
    return "∞" if limit is None else f"{limit:g}"
