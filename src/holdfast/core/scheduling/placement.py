"""Data types of placement: nodes, quotas, amounts, queue entries and assignments.

Limits count against quotas. On a node, the request counts, which may be less (see TaskRequest).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..exits.exit import Cause
from ..messages import join_messages, msg

EPSILON = 1e-9  # cores are fractions, and 0.1 ten times must still fit in 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAmount:
    cpu: float = 0.0
    memory: int = 0
    gpu: int = 0

    def plus(self, other: ResourceAmount) -> ResourceAmount:
        return ResourceAmount(cpu=self.cpu + other.cpu, memory=self.memory + other.memory, gpu=self.gpu + other.gpu)

    def minus(self, other: ResourceAmount) -> ResourceAmount:
        return ResourceAmount(cpu=self.cpu - other.cpu, memory=self.memory - other.memory, gpu=self.gpu - other.gpu)

    def fits_in(self, room: ResourceAmount) -> bool:
        return self.cpu <= room.cpu + EPSILON and self.memory <= room.memory and self.gpu <= room.gpu

    def elementwise_max(self, other: ResourceAmount) -> ResourceAmount:
        return ResourceAmount(
            cpu=max(self.cpu, other.cpu), memory=max(self.memory, other.memory), gpu=max(self.gpu, other.gpu)
        )

    def elementwise_min(self, other: ResourceAmount) -> ResourceAmount:
        return ResourceAmount(
            cpu=min(self.cpu, other.cpu), memory=min(self.memory, other.memory), gpu=min(self.gpu, other.gpu)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine that runs tasks, and its resources."""

    name: str
    cpu: float
    memory: int  # bytes
    gpus: tuple[int, ...] = ()
    port_start: int = 15000  # inclusive
    port_end: int = 40000  # exclusive
    address: str = "127.0.0.1"
    reserved_ports: frozenset[int] = frozenset()  # used by the server: never assigned to a task
    # Engine that can run tasks on it -> why it cannot start any now, empty if it can. Empty: every engine can.
    engines: Mapping[str, str] = field(default_factory=dict)
    used_by_others: ResourceAmount = ResourceAmount()  # by programs that are not tasks of this server
    # Max tasks in the queue of an engine that queues and places tasks itself. Such a queue node stands for all machines
    # of its engine; its capacity is only shown. None: an ordinary node.
    queue_limit: int | None = None

    def belongs_to(self, engine: str) -> bool:
        return not engine or not self.engines or engine in self.engines

    def is_available(self, engine: str) -> bool:
        """Whether the engine can start tasks on it now."""
        return self.belongs_to(engine) and not self.engines.get(engine)

    @property
    def is_queue(self) -> bool:
        """Whether it stands for all machines of an engine that queues and places tasks itself."""
        return self.queue_limit is not None

    @property
    def port_count(self) -> int:
        reserved = sum(self.port_start <= port < self.port_end for port in self.reserved_ports)
        return self.port_end - self.port_start - reserved

    def offers_port(self, port: int) -> bool:
        return self.port_start <= port < self.port_end and port not in self.reserved_ports

    @property
    def capacity(self) -> ResourceAmount:
        return ResourceAmount(cpu=self.cpu, memory=self.memory, gpu=len(self.gpus))

    @property
    def usable(self) -> ResourceAmount:
        """Return what tasks can use together."""
        return self.capacity.minus(self.used_by_others).elementwise_max(ResourceAmount())


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Limits of the resources in use at one time; None: no limit."""

    cpu: float | None = None
    memory: int | None = None  # bytes
    gpu: int | None = None

    def allows(self, used: ResourceAmount, asked: ResourceAmount) -> bool:
        return (
            (self.cpu is None or used.cpu + asked.cpu <= self.cpu + EPSILON)
            and (self.memory is None or used.memory + asked.memory <= self.memory)
            and (self.gpu is None or used.gpu + asked.gpu <= self.gpu)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """The resource request of one waiting task."""

    attempt_id: str
    amount: ResourceAmount  # its limits, which count against quotas
    asked: ResourceAmount | None = None  # what a node must have free for it; None: its limits
    ports: Mapping[str, int] = field(default_factory=dict)

    @property
    def needs(self) -> ResourceAmount:
        return self.asked or self.amount

    @property
    def port_count(self) -> int:
        return sum(self.ports.values()) if self.ports else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """An entry of the queue: all of its requests are placed together, or none."""

    id: str  # the job's, or the task attempt's when tasks are placed one by one
    job_id: str
    user: str
    group: str
    priority: int
    order: tuple[float, str]  # time of submission, then id
    requests: tuple[TaskRequest, ...]
    engine: str = ""  # only nodes of this engine can run it; empty: any
    total: ResourceAmount = field(init=False, compare=False, repr=False)  # limits of all tasks; cached

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", sum_amounts(request.amount for request in self.requests))

    @property
    def key(self) -> tuple[int, tuple[float, str]]:
        return (-self.priority, self.order)

    @property
    def needs(self) -> ResourceAmount:
        """What nodes must have free for all tasks together."""
        return sum_amounts(request.needs for request in self.requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    attempt_id: str
    node: str
    amount: ResourceAmount  # its limits
    asked: ResourceAmount | None = None  # what it uses of the node; None: its limits
    user: str
    group: str
    gpus: tuple[int, ...] = ()
    ports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    engine: str = ""
    is_waiting: bool = True  # it has not started yet; counts on queue nodes only

    @property
    def needs(self) -> ResourceAmount:
        return self.asked or self.amount


@dataclass(frozen=True, slots=True)
class Placement:
    waiting: QueueEntry
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class PlacementRefusal:
    """A job that can never start."""

    waiting: QueueEntry
    reasons: tuple[str, ...]
    cause: Cause = Cause.TOO_LARGE


@dataclass(frozen=True, slots=True)
class StartPrediction:
    """Whether a job would start if it were submitted now."""

    answer: str  # now, wait or never
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    node: Node
    free: ResourceAmount
    waiting: int = 0  # tasks in the queue of a queue node


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUsage:
    group: str
    used: ResourceAmount
    quota: Quota
    user_quota: Quota
    users: Mapping[str, ResourceAmount] = field(default_factory=dict)  # usage by user


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
    job: str  # its id
    user: str
    group: str
    instance_types: tuple[str, ...]  # as its roles name them
    used: ResourceAmount


def format_bytes(count: int) -> str:
    """2147483648 -> 2 GiB."""
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(count) >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"


def format_cores(cores: float) -> str:
    """1 -> 1 core."""
    shown = f"{cores:g}"
    return msg("{shown} core", shown=shown) if shown == "1" else msg("{shown} cores", shown=shown)


def format_gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else msg("{count} GPUs", count=count)


def format_amount(amount: ResourceAmount) -> str:
    """2 cores, 4 GiB of memory, 1 GPU."""
    parts = [
        format_cores(round(max(amount.cpu, 0.0), 3)),
        msg("{memory} of memory", memory=format_bytes(amount.memory)),
    ]
    if amount.gpu:
        parts.append(format_gpus(amount.gpu))
    return join_messages(", ", parts)


def format_nonzero_amount(amount: ResourceAmount) -> str:
    """The same, without resources that are zero."""
    parts = [format_cores(round(amount.cpu, 3))] if amount.cpu > EPSILON else []
    parts += [msg("{memory} of memory", memory=format_bytes(amount.memory))] if amount.memory else []
    parts += [format_gpus(amount.gpu)] if amount.gpu else []
    return join_messages(", ", parts)


def sum_amounts(amounts: Iterable[ResourceAmount]) -> ResourceAmount:
    cpu, memory, gpu = 0.0, 0, 0
    for amount in amounts:
        cpu, memory, gpu = cpu + amount.cpu, memory + amount.memory, gpu + amount.gpu
    return ResourceAmount(cpu=cpu, memory=memory, gpu=gpu)
