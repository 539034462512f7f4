"""What Holdfast concludes about a job: why it failed, why it is slow, and what it used of what it asked for.

Why it waits is told by `blockers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Fault(StrEnum):
    """What was wrong, in one word."""

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
    CRASHED = "crashed"  # by another signal of its own making: SIGILL, SIGFPE, SIGBUS
    # what it needs
    MISSING_FILE = "missing-file"
    MISSING_MODULE = "missing-module"
    MISSING_LIBRARY = "missing-library"
    MISSING_DATASET = "missing-dataset"
    PERMISSION = "permission"
    READ_ONLY = "read-only"
    BAD_DATA = "bad-data"
    # what ran out
    OUT_OF_MEMORY = "out-of-memory"
    DISK_FULL = "disk-full"
    HOME_FULL = "home-full"  # its home held more than the job may keep there
    DISK_LIMIT = "disk-limit"  # it wrote more bytes or files than a task may
    SHARED_MEMORY = "shared-memory"
    OPEN_FILES = "open-files"
    PROCESSES = "processes"
    TIME_LIMIT = "time-limit"
    # GPUs
    GPU_OUT_OF_MEMORY = "gpu-out-of-memory"
    GPU_MISSING = "gpu-missing"
    GPU_DRIVER = "gpu-driver"
    GPU_ERROR = "gpu-error"  # the program's fault on the GPU: a wrong address, a failed assertion
    GPU_HARDWARE = "gpu-hardware"
    # others
    COLLECTIVE = "collective"  # NCCL, MPI, Gloo: tasks that work together lost each other
    CONNECTION = "connection"
    UNKNOWN_HOST = "unknown-host"
    CERTIFICATE = "certificate"
    NOT_AUTHORIZED = "not-authorized"
    PORT_IN_USE = "port-in-use"
    # around it
    BAD_IMAGE = "bad-image"
    IMPOSSIBLE = "impossible"  # no machine here can run it
    KILLED = "killed"  # by somebody else
    PLATFORM = "platform"  # ours, or the machine's


class Confidence(StrEnum):
    CERTAIN = "certain"  # the kernel, the engine or a plain error says so
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
    text: str  # log lines as they stand there, or a sentence
    task: str | None = None
    offset: int | None = None  # of a log's lines: bytes into the task's log


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Where in the user's own code."""

    file: str
    line: int
    function: str = ""
    code: str = ""  # the line itself, where the traceback shows it


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why a job failed: one verdict. With nothing to go by, the fault is UNKNOWN and the evidence what is there."""

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
    rule: str = ""  # what found it


class Slowness(StrEnum):
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
    LATE_START = "late-start"  # most of its time went by before it first said anything
    STRAGGLER = "straggler"  # one task does less than the others of its role, or longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that slows a job down, or that it asks for and does not use."""

    kind: Slowness
    text: str  # with numbers
    remedy: str
    tasks: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Of tasks: what was asked for and what was used. None: was not measured."""

    tasks: int
    seconds: float  # that tasks ran, all together
    cpu_asked: float  # cores, all together
    cpu_used: float | None  # cores, on the average over the time they ran; None too: that was too short to tell
    memory_asked: int  # bytes, all together
    memory_peak: int | None  # bytes, each task's highest together
    gpu_asked: int
    gpu_used: float | None  # GPUs' worth of work: 2 GPUs at 50 % are 1; None as for cores
    gpu_memory_peak: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    whole: Used
    roles: Mapping[str, Used] = field(default_factory=dict)
    advice: tuple[str, ...] = ()  # such as: 2 GiB of memory would have been enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight:
    """All that was concluded of a job."""

    diagnosis: Diagnosis | None = None  # None: it did not fail
    findings: tuple[Finding, ...] = ()
    efficiency: Efficiency | None = None
