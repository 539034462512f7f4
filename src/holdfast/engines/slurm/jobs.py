"""Jobs as `squeue` and `scontrol` print them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.core.job import MIB

SEPARATOR = "\x1f"
QUEUE_FORMAT = SEPARATOR.join(("%i", "%A", "%j", "%T", "%r", "%N", "%V", "%S", "%P", "%k", "%U"))
NODE_FORMAT = SEPARATOR.join(("%N", "%c", "%m", "%G", "%t"))

PENDING_STATES = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
FINAL_STATES = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
)
_GPU_PATTERN = re.compile(r"gpu(?::[^:,()]+)?:([0-9]+)")
_EXIT_PATTERN = re.compile(r"\bExitCode=([0-9]+):([0-9]+)")
_USED_STATES = frozenset({"allocated", "alloc", "completing", "comp", "idle", "mixed", "mix"})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A job, or one component of a heterogeneous job, that Slurm remembers."""

    number: int  # of this component
    leader: int  # number of the first component; its own for an ordinary job
    offset: int = 0  # which component
    name: str
    state: str
    reason: str = ""
    nodes: str = ""
    submitted_at: datetime | None = None
    start_at: datetime | None = None  # Slurm's estimate while it is pending
    partition: str = ""  # or several, separated by commas
    comment: str = ""
    uid: int = -1  # of its user; -1: not known

    @property
    def is_pending(self) -> bool:
        return self.state in PENDING_STATES

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES


def parse_jobs(text: str, prefix: str, mark: str = "") -> dict[str, list[QueuedJob]]:
    """Return the jobs whose names begin with `prefix`, by name, without lines that cannot be read. `mark`: how every
    line begins; a comment of another user can contain lines."""
    found: dict[str, list[QueuedJob]] = {}
    for line in text.split("\n"):
        fields = line.removeprefix(mark).split(SEPARATOR) if line.startswith(mark) else []
        if len(fields) == 11 and fields[2].startswith(prefix) and fields[1].isdigit():
            job = _make_job(fields)
            found.setdefault(job.name, []).append(job)
    return found


def parse_number(text: str) -> int | None:
    """Return the number that `sbatch --parsable` printed: `ID`, or `ID;CLUSTER`."""
    number = text.strip().partition(";")[0]
    return int(number) if number.isdigit() else None


def _make_job(fields: list[str]) -> QueuedJob:
    shown, number, name, state, reason, nodes, submitted, start, partition, comment, uid = fields
    leader, _, offset = shown.partition("+")
    is_component = leader.isdigit() and offset.isdigit()
    return QueuedJob(
        number=int(number),
        leader=int(leader) if is_component else int(number),
        offset=int(offset) if is_component else 0,
        name=name,
        state=state,
        reason="" if reason == "None" else reason,
        nodes=nodes,
        submitted_at=_parse_time(submitted),
        start_at=_parse_time(start),
        partition=partition,
        comment=comment,
        uid=int(uid) if uid.isdigit() else -1,
    )


def _parse_time(text: str) -> datetime | None:
    """Parse seconds after 1970, as SLURM_TIME_FORMAT asks for."""
    return datetime.fromtimestamp(int(text), UTC) if text.isdigit() and len(text) < 12 else None


def choose_job(jobs: Iterable[QueuedJob], offset: int, claimed: int | None) -> QueuedJob | None:
    """Return the job that is, or will be, the task. The same task may have been submitted twice: it runs in the one
    that took the claim. `claimed`: the leader's number in the claim."""
    mine = sorted((job for job in jobs if job.offset == offset), key=lambda job: (job.is_final, job.number))
    for job in mine:
        if job.leader == claimed:
            return job
    return mine[0] if mine and claimed is None else None


def list_duplicates(jobs: Collection[QueuedJob]) -> list[int]:
    """Return the pending jobs of one name that were submitted although there was one of the same user already."""
    found: list[int] = []
    for uid in sorted({job.uid for job in jobs}):
        mine = [job for job in jobs if job.uid == uid]
        active = sorted({job.leader for job in mine if not job.is_final})
        pending = {job.leader for job in mine if job.is_pending}
        found += [leader for leader in active[1:] if leader in pending]
    return found


def parse_exit(text: str, name: str) -> tuple[int, int] | None:
    """Return exit code and signal from `scontrol show job -o`; None if it is another job."""
    if f" JobName={name} " not in text:
        return None
    found = _EXIT_PATTERN.search(text)
    return (int(found[1]), int(found[2])) if found else None


# --- nodes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTotals:
    cpus: int = 0
    memory: int = 0  # bytes
    gpus: int = 0
    nodes: int = 0
    down: int = 0  # nodes that run no jobs now, such as drained ones


def parse_totals(text: str) -> ClusterTotals:
    """Return the resources of all nodes, each counted once, from `sinfo -N`."""
    nodes: Mapping[str, list[str]] = {
        fields[0]: fields for line in text.splitlines() if len(fields := line.split(SEPARATOR)) == 5
    }
    return ClusterTotals(
        cpus=sum(_parse_count(fields[1]) for fields in nodes.values()),
        memory=sum(_parse_count(fields[2]) for fields in nodes.values()) * MIB,
        gpus=sum(int(count) for fields in nodes.values() for count in _GPU_PATTERN.findall(fields[3])),
        nodes=len(nodes),
        down=sum(fields[4].rstrip("*$~#@+-!%^") not in _USED_STATES for fields in nodes.values()),
    )


def _parse_count(text: str) -> int:
    digits = text.rstrip("+")
    return int(digits) if digits.isdigit() else 0


def parse_config(text: str) -> dict[str, str]:
    """Return the values of `scontrol show config` by name."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, mark, value in pairs if mark}


def parse_partitions(text: str) -> dict[str, str]:
    """Return the lines of `scontrol show partition -o` by partition."""
    lines = (line for line in text.splitlines() if line.startswith("PartitionName="))
    return {line.partition(" ")[0].partition("=")[2]: line for line in lines}
