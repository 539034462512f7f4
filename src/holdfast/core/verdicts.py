"""Diagnosis of a job: why it failed, why it is slow, and its resource usage.

Why it waits: see `blockers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Fault(StrEnum):
    """The cause of a failure."""

    UNKNOWN = "unknown"
    # the program and how it was called
    COMMAND_NOT_FOUND = "command-not-found"
    NOT_EXECUTABLE = "not-executable"
    WRONG_ARCHITECTURE = "wrong-architecture"
    SHELL_SYNTAX = "shell-syntax"
    UNSET_VARIABLE = "unset-variable"
    UNRESOLVED_TEMPLATE = "unresolved-template"
    BAD_ARGUMENTS = "bad-arguments"
    PYTHON_EXCEPTION = "python-exception"
    SYNTAX_ERROR = "syntax-error"
    EXCEPTION = "exception"  # of a program in another language
    BUILD_FAILED = "build-failed"
    PACKAGE_INSTALL = "package-install"
    SEGFAULT = "segfault"
    ABORTED = "aborted"
    CRASHED = "crashed"  # by another signal of its own: SIGILL, SIGFPE, SIGBUS
    # what it needs
    MISSING_FILE = "missing-file"
    MISSING_MODULE = "missing-module"
    MISSING_LIBRARY = "missing-library"
    MISSING_DATASET = "missing-dataset"
    PERMISSION = "permission"
    READ_ONLY = "read-only"
    BAD_DATA = "bad-data"
    # exhausted resources
    OUT_OF_MEMORY = "out-of-memory"
    DISK_FULL = "disk-full"
    HOME_FULL = "home-full"  # its home exceeded its limit
    DISK_LIMIT = "disk-limit"  # it exceeded its disk limit
    SHARED_MEMORY = "shared-memory"
    OPEN_FILES = "open-files"
    PROCESSES = "processes"
    TIME_LIMIT = "time-limit"
    # GPUs
    GPU_OUT_OF_MEMORY = "gpu-out-of-memory"
    GPU_MISSING = "gpu-missing"
    GPU_DRIVER = "gpu-driver"
    GPU_ERROR = "gpu-error"  # an error of the program on the GPU: a wrong address, a failed assertion
    GPU_HARDWARE = "gpu-hardware"
    # others
    COLLECTIVE = "collective"  # NCCL, MPI, Gloo: communication between tasks failed
    CONNECTION = "connection"
    UNKNOWN_HOST = "unknown-host"
    CERTIFICATE = "certificate"
    NOT_AUTHORIZED = "not-authorized"
    PORT_IN_USE = "port-in-use"
    # environment
    BAD_IMAGE = "bad-image"
    IMPOSSIBLE = "impossible"  # no node can run it
    KILLED = "killed"  # by another process
    PLATFORM = "platform"  # of Holdfast, or of the node


class Confidence(StrEnum):
    CERTAIN = "certain"  # reported by the kernel, the engine or a clear error
    LIKELY = "likely"
    POSSIBLE = "possible"


class EvidenceKind(StrEnum):
    LOG = "log"
    EXIT = "exit"
    MEMORY = "memory"
    KERNEL = "kernel"
    EVENT = "event"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    kind: EvidenceKind
    text: str  # log lines verbatim, or a sentence
    task: str | None = None
    offset: int | None = None  # of a log's lines: bytes into the task's log


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A position in the user's own code."""

    file: str
    line: int
    function: str = ""
    code: str = ""  # the line itself, where the traceback shows it


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a job failed: one verdict. Without evidence of a cause, the fault is UNKNOWN."""

    fault: Fault
    title: str  # one line, with names and numbers: "No module named 'torch'"
    explanation: str
    confidence: Confidence
    evidence: tuple[Evidence, ...] = ()
    remedies: tuple[str, ...] = ()
    task: str | None = None  # the one whose failure was the cause
    attempt: int = 0  # of the job
    followers: tuple[str, ...] = ()  # tasks that failed because of it
    frame: Frame | None = None
    rule: str = ""  # the rule that matched


class FindingKind(StrEnum):
    GPU_NEVER_OPENED = "gpu-never-opened"
    GPU_UNUSED = "gpu-unused"
    GPU_LOW = "gpu-low"
    ONE_CORE = "one-core"
    CPU_UNUSED = "cpu-unused"
    CPU_THROTTLED = "cpu-throttled"
    MEMORY_NEAR_LIMIT = "memory-near-limit"
    SWAPPING = "swapping"
    DISK_WAIT = "disk-wait"
    NETWORK_WAIT = "network-wait"
    LATE_START = "late-start"  # most of its time passed before its first output
    STRAGGLER = "straggler"  # one task does less than the others of its role, or longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that slows a job down, or a request that it does not use."""

    kind: FindingKind
    text: str  # with numbers
    remedy: str
    tasks: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """Requested and used resources of tasks. None: not measured."""

    tasks: int
    seconds: float  # run time of all tasks
    cpu_asked: float  # cores, all together
    cpu_used: float | None  # cores, mean over the run time; None also if it was too short
    memory_asked: int  # bytes, all together
    memory_peak: int | None  # bytes, sum of each task's peak
    gpu_asked: int
    gpu_used: float | None  # GPUs' worth of work: 2 GPUs at 50 % are 1; None as for cores
    gpu_memory_peak: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    whole: ResourceUsage
    roles: Mapping[str, ResourceUsage] = field(default_factory=dict)
    advice: tuple[str, ...] = ()  # such as: 2 GiB of memory would have been enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight:
    """All conclusions about a job."""

    diagnosis: Diagnosis | None = None  # None: it did not fail
    findings: tuple[Finding, ...] = ()
    efficiency: Efficiency | None = None
