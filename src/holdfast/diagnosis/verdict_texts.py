"""Texts of verdicts that are not in rules, as templates for translation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.core.job import JobFormat

from .rulebook import load_rules

_PLACEHOLDER_PATTERN = re.compile(r"\{[a-z_0-9]+\}")
_LETTERS_PATTERN = re.compile(r"[A-Za-z]{2}")


@dataclass(frozen=True, slots=True)
class VerdictText:
    title: str
    explanation: str
    remedies: tuple[str, ...] = ()


OUT_OF_MEMORY = VerdictText(
    "Out of memory: killed at its limit of {memory_limit}",
    "The task used more memory than its limit and was killed.",
    ("@memory", "Or reduce its memory use: smaller batches, fewer data loader workers, data read in chunks."),
)
LIKELY_OUT_OF_MEMORY = VerdictText(
    "Killed by SIGKILL, probably out of memory: {memory_peak} of {memory_limit} in use",
    "The kernel left no record of the kill, but memory usage was at the limit.",
    ("@memory", "Or reduce its memory use: smaller batches, fewer data loader workers, data read in chunks."),
)
KILLED = VerdictText(
    "Killed by SIGKILL, but not out of memory",
    "Another process of the task, or a user on the node, killed it. Holdfast did not.",
    (
        "Check whether its commands kill processes, for example with `timeout -s KILL` or `kill -9`.",
        "Ask an admin whether a process was killed manually on its node at that time.",
    ),
)
EXIT_137 = VerdictText(
    "Exit code 137, the code for SIGKILL",
    "Its memory was below the limit, and Holdfast did not kill it. Another process killed it, or the program "
    "exited with this code.",
    ("Check whether its commands use `kill -9`, `timeout -s KILL` or `exit 137`.",),
)
TERMINATED = VerdictText(
    "Terminated by SIGTERM, which Holdfast did not send",
    "Another process of the task, or a user on the node, terminated it.",
    ("Check whether its commands or its launcher stop it, for example with `timeout` or `kill`.",),
)
INTERRUPTED = VerdictText(
    "Interrupted by {signal}, which Holdfast did not send",
    "Another process of the task, or a user with a shell in the task, interrupted it.",
    ("Check whether its commands or a user with a shell in the task sent the signal.",),
)
SEGFAULT = VerdictText(
    "Segmentation fault",
    "The program accessed invalid memory (SIGSEGV). This is a bug in compiled code: in the program or in a library.",
    (
        "Check that the versions of its compiled libraries match: CUDA, NumPy and libraries built against them.",
        "For Python, run it with `python -X faulthandler` to see where it fails.",
    ),
)
ABORTED = VerdictText(
    "The program aborted (SIGABRT)",
    "A check in the program or in one of its libraries failed. The last log lines often name the check.",
    ("Read the last lines of its log.",),
)
CRASHES_BY_SIGNAL = {
    4: VerdictText(
        "Illegal instruction (SIGILL)",
        "The program uses instructions that this node's processor does not support.",
        ("Use a build for this processor, such as one without AVX-512 or AVX2.",),
    ),
    7: VerdictText(
        "Bus error (SIGBUS)",
        "The program accessed memory that is not available: often /dev/shm is full, or a mapped file was truncated.",
        ("@shm", "Check that the files it reads are not changed or truncated while it runs."),
    ),
    8: VerdictText(
        "Arithmetic error in compiled code (SIGFPE)",
        "The most common cause is an integer division by zero.",
        ("Find a division by zero in compiled code, such as an empty batch or a size of zero.",),
    ),
    13: VerdictText(
        "Terminated by SIGPIPE: the reader closed the pipe",
        "A reader in a pipe exited before the writer, such as `head` in `… | head`. The shell option pipefail "
        "turns this into a failure.",
        ("Make the reader read to the end, or end that line with `|| true`.",),
    ),
    24: VerdictText(
        "CPU time limit exceeded (SIGXCPU)",
        "A shell limit (`ulimit -t`) terminated the program. Holdfast does not set this limit.",
        ("Check whether its commands or its image set that limit.",),
    ),
    25: VerdictText(
        "File size limit exceeded (SIGXFSZ)",
        "A shell limit (`ulimit -f`) terminated the program. Holdfast does not set this limit.",
        ("Check whether its commands or its image set that limit, or split the file.",),
    ),
    5: VerdictText(
        "Terminated by a trap (SIGTRAP)",
        "A check in compiled code failed, or the program hit a breakpoint without a debugger.",
        ("Read the last lines of its log.",),
    ),
}
OTHER_SIGNAL = VerdictText(
    "Terminated by {signal}",
    "The program was terminated by this signal, which Holdfast did not send.",
    ("Check whether its commands send signals.",),
)
TIME_LIMIT = VerdictText(
    "Time limit of {time_limit} exceeded",
    "Holdfast stopped it while it was still running.",
    ("@time", "Check whether it made progress until the end. If it hangs, more time does not help."),
)
OWN_TIMEOUT = VerdictText(
    "The `timeout` command stopped it: exit code 124",
    "The job's commands run a program under `timeout`, and it exceeded that time.",
    ("Increase the `timeout` in the job's commands, or find out why the program hangs.",),
)
HOME_FULL = VerdictText(
    "Size limit of the home folder exceeded: {message}",
    "The files in its home folder exceeded the limit of this server, so the task was stopped.",
    (
        "Write large files to a dataset or another mounted folder, or to /tmp.",
        "Remove checkpoints and caches that are no longer needed while it runs.",
    ),
)
DISK_LIMIT = VerdictText(
    "Disk limit of the task exceeded: {message}",
    "The files that it wrote outside mounted folders exceeded the limit, so the task was stopped.",
    (
        "Write large files to a dataset or another mounted folder.",
        "Remove checkpoints and caches that are no longer needed while it runs.",
        "Ask an admin to increase disk.task_bytes or disk.task_files.",
    ),
)
SERVER_DISK_FULL = VerdictText(
    "The server's disk is full: {message}",
    "The server's disk was nearly full, and this task had written the most, so it was stopped. It was below its "
    "own limit.",
    (
        "Write large files to a mounted volume or dataset on another disk, or keep fewer of them.",
        "Ask an admin to free disk space with `holdfast prune`, then submit the job again.",
    ),
)
DISK_WAS_FULL = VerdictText(
    "The server's disk was full when it failed",
    "The server's disk had no free space, so the task could write neither files nor its log. It was below its "
    "own limit.",
    (
        "Check the disk with `holdfast status`, and submit the job again when space is free.",
        "If it stays full, ask an admin to free disk space with `holdfast prune`.",
    ),
)
BAD_IMAGE = VerdictText(
    "The image {image} cannot be used: {message}",
    "The task could not be started from this image.",
    ("List the images with `holdfast image ls`, and correct the name in the job.", "Ask an admin to import it."),
)
NOT_MOUNTED = VerdictText(
    "A required folder was not found: {message}",
    "A dataset or folder of the job no longer exists, or the node cannot access it.",
    (
        "Check that the dataset or folder still exists. List your group's datasets with `holdfast dataset ls`.",
        "If it is on a file server, ask an admin whether that server is running.",
    ),
)
UNFILLED_TEMPLATE = VerdictText(
    "The template {template} was not replaced",
    "The job's commands contain {template}, but the job defines no value for it. The shell received the text "
    "unchanged.",
    ("Define a value in the job's parameters, secrets or other sections, or correct the name.",),
)
REJECTED = VerdictText(
    "It cannot run on this server: {message}",
    "It was rejected before it started. A retry would be rejected too.",
    ("Fix the problem described in the message, and submit the job again.",),
)
PLATFORM_FAILURE = VerdictText(
    "It was lost because of a platform failure: {message}",
    "The node or Holdfast failed, and the task was not retried.",
    (
        "Submit the job again. Set a number of retries so that it survives such failures.",
        "If it happens again, ask an admin to check the server's log.",
    ),
)
PORT_IN_USE = VerdictText(
    "A port assigned to it is in use: {message}",
    "A program outside Holdfast listens on a port assigned to the task.",
    ("Submit the job again: it gets other ports.", "If it happens again, report the port to an admin."),
)
EXCEPTION = VerdictText(
    "{error}",
    "The program exited with this uncaught exception.",
    (
        "Check that line of the program and the values that it uses.",
        "@inside",
        "To open a debugger where the exception is raised, start the program with "
        "`python3 -m paipdb -c continue FILE`.",
    ),
)
EARLIER_EXCEPTION = VerdictText(
    "{error}", "The program logged this exception and continued to write output.", EXCEPTION.remedies
)
EXCEPTION_AT = "Raised in {file}, line {line}."
EXCEPTION_IN = "Raised in {file}, line {line}, in {function}."
SAME_FAILURES = "{count} other tasks failed in the same way."
ONE_SAME_FAILURE = "One other task failed in the same way."
SECONDARY_FAILURES = "{count} other tasks failed later as a result."
ONE_SECONDARY_FAILURE = "One other task failed later as a result."
COMMAND_LINE_NUMBER = "It is line {line} of its commands: `{text}`."
# Remedies that depend on the task.
PROGRAM_LIMIT = (
    "If the program has its own limit (-Xmx, --max-old-space-size, ulimit -v), increase it within the job's limit."
)
ONLY_PROGRAM_LIMIT = (
    "More memory for the job does not help: it used only {memory_peak} of {memory_limit}. Increase the program's "
    "own limit (-Xmx, --max-old-space-size, ulimit -v), or reduce its allocations."
)
CHECK_SPELLING = "Check that {command} is spelled correctly and is a program, not a file of the job."
USE_PYTHON3 = "Use `python3`: many systems have Python only under that name."
PIP_INSTALL = (
    "Install it at the start of the job's commands with the Python that runs the program: `pip install {module}`."
)
VENV_INSTALL = (
    "Install it in a virtual environment at the start of the job's commands: `python3 -m venv "
    "--system-site-packages ~/venv && ~/venv/bin/pip install {module}`. Then run the program with "
    "`~/venv/bin/python`."
)
# How to open a shell in a failed task: only one on hold still exists.
SHELL_ON_HOLD = "The task is on hold. Open a shell where it failed: `holdfast ssh {job} {task}`."
SHELL_WITH_HOLD = "To open a shell where it failed, run `holdfast rerun {job} --hold`: the failed task is then kept."
UNKNOWN_ERROR = VerdictText(
    "Exit code {code}, and no known error in its log",
    "The program exited with code {code}. Its last lines are below; no rule matches them.",
    ("Read the end of its log: `holdfast logs {job}`.", "@inside"),
)
LAST_ERROR = VerdictText(
    "Last error of the program: {error}",
    "The program wrote this error last and exited with code {code}. No rule matches it.",
    ("Read the end of its log: `holdfast logs {job}`.", "@inside"),
)
NO_OUTPUT = VerdictText(
    "Exit code {code} without output",
    "The program exited with code {code} and wrote no output.",
    ("Add `set -x` at the start of its commands to show each command before it runs.", "@inside"),
)
NO_LOG = VerdictText(
    "Exit code {code}; its log no longer exists",
    "The program exited with code {code}. Without its log, the cause is unknown.",
    ("Submit the job again and check it soon: logs are deleted after a few days.",),
)
EXIT_127 = VerdictText(
    "Exit code 127: the shell did not find a command",
    "Its log does not name the command.",
    ("Check that the image {image} includes every program that it calls.",),
)
EXIT_126 = VerdictText(
    "Exit code 126: the shell cannot execute a command",
    "Its log does not name the command.",
    ("Check that its scripts are executable (`chmod +x`) and start with a line such as `#!/bin/sh`.",),
)

# Remedies that name a field, by the file format of the job.
REMEDIES_BY_FORMAT: Mapping[str, Mapping[JobFormat, str]] = {
    "memory": {
        JobFormat.HOLDFAST: "Request more memory, for example {memory_more}: `resources.memory` of the role {role}.",
        JobFormat.OPENPAI_V2: "Request more memory, for example {memory_more}: `resourcePerInstance.memoryMB` of "
        "the task role {role}.",
        JobFormat.OPENPAI_V1: "Request more memory, for example {memory_more}: `memoryMB` of the task role {role}.",
        JobFormat.PRIMEHUB: "Choose an instance type with more memory, for example {memory_more}: `instanceType`.",
        JobFormat.SBATCH: "Request more memory, for example {memory_more}: `#SBATCH --mem`.",
    },
    "shm": {
        JobFormat.HOLDFAST: "Request more shared memory: `resources.shm` of the role {role}.",
        JobFormat.OPENPAI_V2: "Request more shared memory: `extraContainerOptions.shmMB` of the task role {role}.",
        JobFormat.OPENPAI_V1: "Request more shared memory: `shmMB` of the task role {role}.",
        JobFormat.PRIMEHUB: "Choose an instance type with more memory, or use fewer data loader workers.",
        JobFormat.SBATCH: "Request more memory (`#SBATCH --mem`), or use fewer data loader workers.",
    },
    "gpu": {
        JobFormat.HOLDFAST: "Request GPUs: `resources.gpu` of the role {role}, now {gpus}.",
        JobFormat.OPENPAI_V2: "Request GPUs: `resourcePerInstance.gpu` of the task role {role}, now {gpus}.",
        JobFormat.OPENPAI_V1: "Request GPUs: `gpuNumber` of the task role {role}, now {gpus}.",
        JobFormat.PRIMEHUB: "Choose an instance type with GPUs: `instanceType`. The current type has {gpus}.",
        JobFormat.SBATCH: "Request GPUs: `#SBATCH --gpus`, now {gpus}.",
    },
    "time": {
        JobFormat.HOLDFAST: "Increase its time limit: `time_limit`.",
        JobFormat.OPENPAI_V2: "Increase its time limit: `extras.holdfast.time_limit`, or ask an admin to increase it.",
        JobFormat.OPENPAI_V1: "Increase its time limit: `extras.holdfast.time_limit`, or ask an admin to increase it.",
        JobFormat.PRIMEHUB: "Increase its time limit: `activeDeadlineSeconds`.",
        JobFormat.SBATCH: "Increase its time limit: `#SBATCH --time`.",
    },
    "image": {
        JobFormat.HOLDFAST: "Use an image that includes it: `image` of the role {role}, now {image}.",
        JobFormat.OPENPAI_V2: "Use an image that includes it: `dockerImage` of the task role {role}, now {image}.",
        JobFormat.OPENPAI_V1: "Use an image that includes it: `image` of the job, now {image}.",
        JobFormat.PRIMEHUB: "Use an image that includes it: `image`, now {image}.",
        JobFormat.SBATCH: "Use an image that includes it: `#HOLDFAST image: NAME`, now {image}.",
    },
    "files": {
        JobFormat.HOLDFAST: "Upload your own files with `holdfast files put FILE`. Submit with "
        "`holdfast submit --files -- …` (in a job file: files: true); the job finds them at /phfs.",
        JobFormat.OPENPAI_V2: "Add the file to the image, or get it in the job's commands, for example with "
        "`git clone`.",
        JobFormat.OPENPAI_V1: "Add the file to the image, or get it in the job's commands, for example with "
        "`git clone`.",
        JobFormat.PRIMEHUB: "Upload your own files with `holdfast files put FILE`; the job finds them at /phfs.",
    },
    "mount": {
        JobFormat.HOLDFAST: "If it is in a dataset or shared folder, add that to the job: `datasets` or `mounts`.",
        JobFormat.OPENPAI_V2: "If it is in a storage, add the storage to the job: the plugin `teamwise_storage`.",
        JobFormat.OPENPAI_V1: "If it is in a storage, add the storage to the job.",
        JobFormat.PRIMEHUB: "If it is in a dataset or volume, check that the job's group has access.",
        JobFormat.SBATCH: "If it is in a dataset or shared folder, add that to the job: `#HOLDFAST datasets: [NAME]`.",
    },
}

# Texts of evidence: the exit of a task, and its memory.
EXITED = "{task} exited with code {code}"
EXITED_BY_SIGNAL = "{task} exited with code {code} ({signal})"
CAUSED_BY = "Caused by {exception}: {message}."
MEMORY_USAGE = "{task} used up to {memory_peak} of {memory_limit}"
KERNEL_KILL = "The kernel recorded an out-of-memory kill in {task}"


def iter_translatable_texts() -> Iterator[str]:
    """Return all templates of verdicts to translate: those of rules, and those above."""
    yield from (
        text for text in dict.fromkeys(_iter_all_texts()) if _LETTERS_PATTERN.search(_PLACEHOLDER_PATTERN.sub("", text))
    )


def _iter_all_texts() -> Iterator[str]:
    for rule in load_rules():
        yield from (rule.title, rule.explanation, *(text for text in rule.remedies if not text.startswith("@")))
    for words in (
        *CRASHES_BY_SIGNAL.values(),
        *(value for value in globals().values() if isinstance(value, VerdictText)),
    ):
        yield from (words.title, words.explanation, *(text for text in words.remedies if not text.startswith("@")))
    for remedies in REMEDIES_BY_FORMAT.values():
        yield from remedies.values()
    yield from (
        EXCEPTION_AT,
        EXCEPTION_IN,
        SAME_FAILURES,
        ONE_SAME_FAILURE,
        SECONDARY_FAILURES,
        ONE_SECONDARY_FAILURE,
        SHELL_ON_HOLD,
        SHELL_WITH_HOLD,
    )
    yield from (
        COMMAND_LINE_NUMBER,
        PROGRAM_LIMIT,
        ONLY_PROGRAM_LIMIT,
        CHECK_SPELLING,
        USE_PYTHON3,
        PIP_INSTALL,
        VENV_INSTALL,
    )
    yield from (CAUSED_BY, EXITED, EXITED_BY_SIGNAL, MEMORY_USAGE, KERNEL_KILL)
