"""Running jobs of all users, as `squeue` prints them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from holdfast.core.job import MIB
from holdfast.core.scheduling.placement import ResourceAmount
from holdfast.engines.queue_waits import QueueHolder

RUNNING_STATES = "RUNNING,SUSPENDED,COMPLETING,CONFIGURING,STOPPED"
# Fields with their widths; those that may have characters of several bytes come last.
_FIELDS = (
    ("UserName", 64),
    ("tres-alloc", 200),
    ("tres-per-node", 100),
    ("NumNodes", 10),
    ("EndTime", 24),
    ("NodeList", 2000),
    ("Comment", 300),
    ("Name", 200),
)
RUNNING_FORMAT = ",".join(f"{name}:{width}" for name, width in _FIELDS)
_NO_LIMIT = timedelta(days=300)  # Slurm shows a job without a time limit as one that ends in a year
_UNITS = {"K": MIB // 1024, "M": MIB, "G": 1024 * MIB, "T": 1024 * 1024 * MIB, "P": 1024**3 * MIB}
_MEMORY_PATTERN = re.compile(r"\bmem=([0-9.]+)([KMGTP]?)")
_CPU_PATTERN = re.compile(r"\bcpu=([0-9]+)")
_GPU_PATTERN = re.compile(r"\bgres/gpu=([0-9]+)")
_NODE_GPU_PATTERN = re.compile(r"\bgpu(?::[^:,()]+)??(?::([0-9]+))?(?=[,(]|$)")
_HOST_PATTERN = re.compile(r"([^,\[\]]+)(?:\[([0-9,-]+)\])?")
_MAX_NODES = 100_000  # of one job


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    name: str
    user: str
    has: ResourceAmount
    nodes: frozenset[str]
    until: datetime | None  # end of its time limit; None: no limit
    comment: str = ""


def parse_running_jobs(text: str, now: datetime) -> list[RunningJob]:
    return [_parse_line(line, now) for line in text.splitlines() if line.strip()]


def _parse_line(line: str, now: datetime) -> RunningJob:
    fields, start = {}, 0
    for name, width in _FIELDS:
        fields[name] = line[start : start + width].strip()
        start += width
    end = fields["EndTime"]
    until = datetime.fromtimestamp(int(end), UTC) if end.isdigit() and len(end) < 12 else None
    return RunningJob(
        name=fields["Name"],
        user=fields["UserName"],
        has=_parse_amount(fields["tres-alloc"], fields["tres-per-node"], fields["NumNodes"]),
        nodes=expand_nodes(fields["NodeList"]),
        until=None if until is None or until - now > _NO_LIMIT else until,
        comment=fields["Comment"],
    )


def _parse_amount(allocated: str, per_node: str, node_count: str) -> ResourceAmount:
    cpu, memory, gpu = (pattern.search(allocated) for pattern in (_CPU_PATTERN, _MEMORY_PATTERN, _GPU_PATTERN))
    if gpu is not None:
        gpus = int(gpu[1])
    else:  # Slurm counts them only if it is configured so
        found = _NODE_GPU_PATTERN.findall(per_node)
        gpus = sum(int(count or 1) for count in found) * (int(node_count) if node_count.isdigit() else 1)
    return ResourceAmount(
        cpu=int(cpu[1]) if cpu else 0,
        memory=round(float(memory[1]) * _UNITS[memory[2] or "M"]) if memory else 0,
        gpu=gpus,
    )


def expand_nodes(text: str) -> frozenset[str]:
    """Return the nodes of a list such as `gpu[1-3,07],login`."""
    nodes: list[str] = []
    for prefix, numbers in _HOST_PATTERN.findall(text):
        if not numbers:
            nodes.append(prefix)
        for part in numbers.split(",") if numbers else ():
            first, _, last = part.partition("-")
            if first.isdigit() and (last or first).isdigit():
                count = min(int(last or first) - int(first) + 1, _MAX_NODES)
                nodes += (f"{prefix}{int(first) + each:0{len(first)}}" for each in range(count))
    return frozenset(nodes)


def list_holders(
    jobs: Iterable[RunningJob], nodes: Collection[str], find_attempt: dict[str, str]
) -> tuple[QueueHolder, ...]:
    """Return who uses these nodes: own tasks each, jobs of other users by user. `find_attempt`: attempt ids by the
    names of their jobs."""
    wanted = frozenset(nodes)
    own: list[QueueHolder] = []
    others: dict[str, QueueHolder] = {}
    for job in jobs:
        if not job.nodes & wanted:
            continue
        if attempt_id := find_attempt.get(job.name, ""):
            own.append(QueueHolder(attempt_id=attempt_id, has=job.has, until=job.until))
        else:
            others[job.user] = _add_job(others.get(job.user), job)
    return (*own, *others.values())


def _add_job(known: QueueHolder | None, job: RunningJob) -> QueueHolder:
    if known is None:
        return QueueHolder(user=job.user, has=job.has, until=job.until)
    until = max(known.until, job.until) if known.until and job.until else None
    return QueueHolder(user=job.user, job_count=known.job_count + 1, has=known.has.plus(job.has), until=until)
