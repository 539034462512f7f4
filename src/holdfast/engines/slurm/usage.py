"""The usage of a task, as `runtime/slurm_task.sh` writes it with each heartbeat. Pure."""

from __future__ import annotations

import re

from holdfast.core.metrics.samples import Reading

USAGE_FILE = "usage"  # in the report folder
MAX_USAGE_SIZE = 500  # bytes
_TICKS_PER_SECOND = 100  # of Linux, in /proc
_UNLIMITED_MEMORY = 1 << 60  # cgroups of version 1 express it by a number
_NUMBER = "[0-9]{1,18}"  # a task that is not isolated can write anything
_PATTERN = re.compile(
    rf"([0-9]{{1,9}}(?:\.[0-9]{{1,6}})?) ({_NUMBER}) ({_NUMBER}) ({_NUMBER}) (-|{_NUMBER}) (-|[0-9]{{1,19}})\n?"
)


def parse_usage(text: str) -> Reading | None:
    """Return what a task has used; None if it is not known. The time is that of the node, after its boot."""
    found = _PATTERN.fullmatch(text)
    if found is None:
        return None
    limit = None if found[6] == "-" else int(found[6])
    return Reading(
        at=float(found[1]),
        cpu=int(found[2]) / _TICKS_PER_SECOND,
        processes=int(found[3]),
        memory=int(found[4] if found[5] == "-" else found[5]),
        memory_limit=None if limit is None or limit >= _UNLIMITED_MEMORY else limit,
    )
