"""The longest time limit that each partition allows.

A job requests some time more than its limit, in which it can end by itself. A job whose limit just fits its partition
must not exceed it by that.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.engines.base import LaunchSpec

from .commands import SlurmCommands, SlurmUnavailable
from .jobs import SEPARATOR
from .options import SlurmOptions

TIME_LIMIT_FORMAT = SEPARATOR.join(("%P", "%l"))
_REFRESH_INTERVAL = 300.0  # seconds
_PATTERN = re.compile(r"(?:(?:([0-9]+)-)?([0-9]+):)?([0-9]+):([0-9]+)")


def parse_time_limits(text: str) -> dict[str, float]:
    """Return the seconds that each partition allows, from `sinfo`; the default partition also as "". Those without a
    limit are left out."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        name, _, limit = line.partition(SEPARATOR)
        parsed = _PATTERN.fullmatch(limit.strip())
        if parsed is None:
            continue
        days, hours, minutes, seconds = (int(part or 0) for part in parsed.groups())
        found[name.rstrip("*")] = total = ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds
        if name.endswith("*"):
            found[""] = total
    return found


def fit_time_limit(launch: LaunchSpec, options: SlurmOptions, limits: Mapping[str, float]) -> LaunchSpec:
    """Return the launch with a time limit that fits its partitions with the grace period, if it does without."""
    if launch.time_limit is None:
        return launch
    partitions = (launch.engine_options.get("partition") or options.partition).split(",")
    longest = min((limits[name] for name in partitions if name in limits), default=None)
    if longest is None or not launch.time_limit <= longest < launch.time_limit + options.grace:
        return launch
    return replace(launch, time_limit=longest - options.grace)


class PartitionLimits:
    def __init__(self, commands: SlurmCommands, options: SlurmOptions) -> None:
        self._commands = commands
        self._options = options
        self._limits: Mapping[str, float] = {}
        self._read_at = float("-inf")  # in the event loop's time

    async def fit_all(self, launches: Sequence[LaunchSpec]) -> list[LaunchSpec]:
        now = asyncio.get_running_loop().time()
        if any(launch.time_limit is not None for launch in launches) and now - self._read_at > _REFRESH_INTERVAL:
            try:
                self._limits = parse_time_limits(await self._commands.read_time_limits(TIME_LIMIT_FORMAT))
                self._read_at = now
            except SlurmUnavailable:
                pass  # then sbatch says so
        return [fit_time_limit(launch, self._options, self._limits) for launch in launches]
