"""Asks Slurm's accounting database about jobs that the queue has forgotten, where the cluster has one.

It is never needed. Each task is asked about once. An error or a timeout means that nothing is known about it, and that
the database is not asked again for a while.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from .commands import SlurmCommands, SlurmUnavailable
from .jobs import FINAL_STATES, SEPARATOR, QueuedJob, choose_job

_TIMEOUT = 5.0  # seconds for sacct
_RETRY_INTERVAL = 300.0  # seconds without a question after a failed one
_CONFIG_INTERVAL = 600.0  # seconds until it is checked again whether there is a database
_MAX_NAMES = 200  # of one question
_MAX_ASKED = 10_000  # names that are remembered
_FIELDS = ("JobID", "JobIDRaw", "JobName", "State", "ExitCode", "Reason", "NodeList", "UID")
_EXIT_PATTERN = re.compile(r"([0-9]+):([0-9]+)")


@dataclass(frozen=True, slots=True)
class AccountedJob:
    """A job, or one component of a heterogeneous job, in the database."""

    job: QueuedJob
    exit: tuple[int, int] | None  # code and signal


def build_arguments(names: Collection[str], since: datetime, now: datetime) -> list[str]:
    """Return the arguments of sacct. Without a start it only finds jobs of today."""
    days = max(0, (now - since).days) + 2  # in any time zone, and with a wrong clock
    return [
        "--allocations",
        "--noheader",
        "--parsable2",
        f"--delimiter={SEPARATOR}",
        "--allusers",
        f"--starttime=now-{days}days",
        f"--name={','.join(names)}",
        f"--format={','.join(_FIELDS)}",
    ]


def parse_accounted_jobs(text: str) -> dict[str, list[AccountedJob]]:
    """Return the jobs by name, without lines that cannot be read."""
    found: dict[str, list[AccountedJob]] = {}
    for line in text.splitlines():
        fields = line.split(SEPARATOR)
        if len(fields) == len(_FIELDS) and fields[1].isdigit():
            accounted = _make_job(fields)
            found.setdefault(accounted.job.name, []).append(accounted)
    return found


def _make_job(fields: Sequence[str]) -> AccountedJob:
    shown, number, name, state, code, reason, nodes, uid = fields
    leader, _, offset = shown.partition("+")
    is_component = leader.isdigit() and offset.isdigit()
    exit = _EXIT_PATTERN.fullmatch(code)
    job = QueuedJob(
        number=int(number),
        leader=int(leader) if is_component else int(number),
        offset=int(offset) if is_component else 0,
        name=name,
        state=state.partition(" ")[0],  # "CANCELLED by 1000"
        reason="" if reason == "None" else reason,
        nodes="" if nodes == "None assigned" else nodes,
        uid=int(uid) if uid.isdigit() else -1,
    )
    return AccountedJob(job, (int(exit[1]), int(exit[2])) if exit else None)


def choose_ended_job(jobs: Sequence[AccountedJob], offset: int, claimed: int | None) -> AccountedJob | None:
    """Return the job that was the task; None if it is not certain that it has ended. `claimed`: as in `choose_job`."""
    chosen = choose_job([each.job for each in jobs], offset, claimed)
    if chosen is None or chosen.state not in FINAL_STATES:
        return None
    return next(each for each in jobs if each.job is chosen)


class Accounting:
    def __init__(self, commands: SlurmCommands) -> None:
        self._commands = commands
        self._known: dict[str, Sequence[AccountedJob]] = {}  # names that were asked about
        self._lock = asyncio.Lock()  # so that two observers do not ask the same
        self._exists = False
        self._check_at = float("-inf")  # when to check again whether it exists, in the event loop's time
        self._retry_at = float("-inf")  # not before

    async def ask(self, names: Mapping[str, datetime]) -> None:
        """Ask about those names that were not asked about before, each with a time before its submission."""
        if all(name in self._known for name in names):
            return
        async with self._lock:
            new = {name: since for name, since in names.items() if name not in self._known}
            if not new or not await self._is_available():
                return
            for first in range(0, len(new), _MAX_NAMES):
                part = list(new)[first : first + _MAX_NAMES]
                await self._ask_once(part, min(new[name] for name in part))

    async def _ask_once(self, names: Sequence[str], since: datetime) -> None:
        loop = asyncio.get_running_loop()
        found: dict[str, list[AccountedJob]] = {}
        if loop.time() >= self._retry_at:
            try:
                text = await self._commands.read_accounting(build_arguments(names, since, datetime.now(UTC)), _TIMEOUT)
                found = parse_accounted_jobs(text)
            except SlurmUnavailable:
                self._retry_at = loop.time() + _RETRY_INTERVAL
        for name in names:
            self._known[name] = found.get(name, ())
        while len(self._known) > _MAX_ASKED:
            del self._known[next(iter(self._known))]

    async def _is_available(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now >= self._check_at:
            try:
                config = await self._commands.read_config()
            except SlurmUnavailable:
                return False
            self._exists = config.get("AccountingStorageType", "").endswith("slurmdbd")
            self._check_at = now + _CONFIG_INTERVAL
        return self._exists

    def find(self, name: str, uid: int, offset: int, claimed: int | None) -> AccountedJob | None:
        """Return what the database knows about the end of a task of this user; None if it was not asked, or does not
        know it. Other users can submit jobs with any name."""
        known = [each for each in self._known.get(name, ()) if each.job.uid == uid]
        return choose_ended_job(known, offset, claimed)

    def forget(self, names: Collection[str]) -> None:
        """Forget what is known about names that are in the queue now: they were submitted again."""
        for name in self._known.keys() & names:
            del self._known[name]
