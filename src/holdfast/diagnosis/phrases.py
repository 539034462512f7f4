"""What verdicts say, beside what rules say: templates, so that they can be told in other languages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.core.job import Dialect

from .rulebook import load_rules

_BLANK = re.compile(r"\{[a-z_0-9]+\}")
_OWN_WORDS = re.compile(r"[A-Za-z]{2}")


@dataclass(frozen=True, slots=True)
class Words:
    title: str
    explanation: str
    remedies: tuple[str, ...] = ()


OUT_OF_MEMORY = Words(
    "Out of memory: it was killed at its limit of {memory_limit}",
    "The task used all the memory that it may have, and was killed for it.",
    ("@memory", "Or let it use less: smaller batches, fewer workers that load data, data read in pieces."),
)
LIKELY_OUT_OF_MEMORY = Words(
    "Killed by SIGKILL, most likely for its memory: {memory_peak} of {memory_limit} in use",
    "The kernel left no record of it, but its memory was at the limit when it was killed.",
    ("@memory", "Or let it use less: smaller batches, fewer workers that load data, data read in pieces."),
)
KILLED = Words(
    "Killed by SIGKILL, and not for its memory",
    "Somebody or something else killed it: another process of the task, or somebody on the machine. Holdfast did not.",
    (
        "See whether its own commands kill processes, such as `timeout -s KILL` or `kill -9`.",
        "Ask the admins whether something was killed by hand on its machine at that time.",
    ),
)
EXIT_137 = Words(
    "Exit code 137, as after SIGKILL",
    "Its memory was not at the limit and Holdfast did not kill it. Either something else did, or the program chose "
    "this code itself.",
    ("See whether its own commands use `kill -9`, `timeout -s KILL` or `exit 137`.",),
)
TERMINATED = Words(
    "Ended by SIGTERM, which Holdfast did not send",
    "Another process of the task, or somebody on the machine, asked it to end.",
    ("See whether its own commands or its launcher stop it, such as `timeout` or `kill`.",),
)
INTERRUPTED = Words(
    "Ended by {signal}, which Holdfast did not send",
    "Another process of the task, or somebody inside it, interrupted it.",
    ("See whether its own commands or somebody who was inside the task did that.",),
)
SEGFAULT = Words(
    "Segmentation fault",
    "The program reached for memory that is not its own (SIGSEGV). That is a fault in compiled code: the program's, or "
    "that of a library it uses.",
    (
        "See that its compiled libraries fit each other: versions of CUDA, NumPy and what was built against them.",
        "For Python, run it with `python -X faulthandler` to see where it was.",
    ),
)
ABORTED = Words(
    "The program aborted itself (SIGABRT)",
    "A check within the program or one of its libraries failed, and it ended itself. Its last lines may say which.",
    ("Look at the last lines of its log.",),
)
CRASHED = {
    4: Words(
        "Illegal instruction (SIGILL)",
        "The program uses instructions that this machine's processor does not have.",
        ("Use a build for this processor, without AVX-512 or AVX2 where it lacks them.",),
    ),
    7: Words(
        "Bus error (SIGBUS)",
        "The program used memory that could not be provided: often /dev/shm was full, or a file that it had mapped was "
        "cut short.",
        ("@shm", "See that no file it reads is changed or truncated while it runs."),
    ),
    8: Words(
        "Arithmetic error in compiled code (SIGFPE)",
        "Most often a division of whole numbers by zero.",
        ("Look for a division by zero in compiled code, such as an empty batch or a size of zero.",),
    ),
    13: Words(
        "Ended by SIGPIPE: nobody read what it wrote",
        "A program in a pipe ended before the one that writes to it, such as `head` in `… | head`. With the shell "
        "option pipefail that fails the job.",
        ("Let the reader read to the end, or end that line with `|| true`.",),
    ),
    24: Words(
        "It used more processor time than it may (SIGXCPU)",
        "A limit of the shell (`ulimit -t`) ended it. Holdfast sets none.",
        ("See whether its own commands or its image set that limit.",),
    ),
    25: Words(
        "A file grew larger than it may (SIGXFSZ)",
        "A limit of the shell (`ulimit -f`) ended it. Holdfast sets none.",
        ("See whether its own commands or its image set that limit, or split the file.",),
    ),
    5: Words(
        "Ended by a trap (SIGTRAP)",
        "A check in compiled code failed, or a breakpoint was met without a debugger.",
        ("Look at the last lines of its log.",),
    ),
}
OTHER_SIGNAL = Words(
    "Ended by {signal}",
    "The program was ended by this signal, which Holdfast did not send.",
    ("See whether its own commands send signals.",),
)
TIME_LIMIT = Words(
    "It ran longer than its time limit of {time_limit}",
    "Holdfast stopped it then. It was still at work.",
    ("@time", "See whether it made progress until the end: a program that hangs needs another remedy."),
)
OWN_TIMEOUT = Words(
    "The command `timeout` ended it: exit code 124",
    "The job's own commands run something under `timeout`, and it took longer than that.",
    ("Give `timeout` in the job's commands more time, or see why it hangs.",),
)
HOME_FULL = Words(
    "Its home grew too large: {message}",
    "What it kept in its home folder was more than this place allows, so it was stopped.",
    (
        "Write large files to a mounted volume or dataset, or to /tmp.",
        "Remove checkpoints and caches that are no longer needed while it runs.",
    ),
)
DISK_LIMIT = Words(
    "It wrote more than a task may: {message}",
    "What it wrote in its home, /tmp and elsewhere in its own files was more than the limit, so it was stopped.",
    (
        "Write large files to a mounted volume or dataset.",
        "Remove checkpoints and caches that are no longer needed while it runs.",
        "Ask an admin to raise disk.task_bytes or disk.task_files.",
    ),
)
SERVER_DISK_FULL = Words(
    "The server's disk was full: {message}",
    "The server's disk was nearly full, and this task had written most to it, so it was stopped. It had not reached a "
    "limit of its own.",
    (
        "Write large files to a mounted volume or dataset on another disk, or keep fewer of them.",
        "Ask an admin to free room with `holdfast prune`, then submit it again.",
    ),
)
DISK_WAS_FULL = Words(
    "The server's disk was full when it failed",
    "It ended while there was no room left on the server's disk, so it could write neither files nor its log. It was "
    "not stopped for a limit of its own.",
    (
        "Submit it again once there is room: `holdfast status` says whether the disk is full.",
        "If it stays full, ask an admin to free room with `holdfast prune`.",
    ),
)
BAD_IMAGE = Words(
    "The image {image} cannot be used: {message}",
    "The task could not be started from this image.",
    (
        "See which images there are with `holdfast image ls`, and correct the name in the job.",
        "Ask an admin to import it.",
    ),
)
NOT_MOUNTED = Words(
    "A folder that it needs is not there: {message}",
    "A dataset or folder that the job names is not there any more, or cannot be reached from the machine.",
    (
        "See that the dataset or folder still exists: `holdfast dataset ls` lists those that your group may use.",
        "If it lies on a file server, ask an admin whether that is up.",
    ),
)
TEMPLATE = Words(
    "The template {template} was not filled in",
    "The job's commands hold {template}, and the job has nothing of that name, so the shell got the text as it stands.",
    ("Give it a value in the job's parameters, secrets or other sections, or correct its name.",),
)
IMPOSSIBLE = Words(
    "It cannot run here: {message}",
    "It was refused before it started, and would be again.",
    ("Change what the message names, and submit it again.",),
)
PLATFORM = Words(
    "It was lost, and not by a fault of its own: {message}",
    "The machine or Holdfast itself failed it, and it was not tried again.",
    (
        "Submit it again, with a number of retries if it is to survive this.",
        "If it happens again, tell an admin: the server's log has more.",
    ),
)
PORT_TAKEN = Words(
    "A port that it was given is in use: {message}",
    "Something outside of Holdfast listens on a port of the machine that the task was given.",
    ("Submit it again: it gets other ports.", "If it happens again, tell an admin which port it was."),
)
RAISED = Words(
    "{said}",
    "The program ended with this exception, which nothing in it caught.",
    (
        "Look at that line of the program, and at the values that it works with there.",
        "@inside",
        "A debugger can wait where it is raised: start the program with `paipdb`.",
    ),
)
RAISED_BEFORE = Words(
    "{said}",
    "The program told of this exception, and wrote more after it.",
    RAISED.remedies,
)
RAISED_AT = "It came from {file}, line {line}."
RAISED_IN = "It came from {file}, line {line}, in {function}."
SAME_ELSEWHERE = "{count} other tasks failed in the same way."
ONE_SAME = "One other task failed in the same way."
FOLLOWED = "{count} other tasks failed after it, because of it."
ONE_FOLLOWED = "One other task failed after it, because of it."
OWN_LINE = "That is line {line} of its commands: `{text}`."
# Remedies that depend on what is known of the task.
OWN_LIMIT = "If the program has a limit of its own (-Xmx, --max-old-space-size, ulimit -v), raise it within the job's."
ONLY_OWN_LIMIT = (
    "More memory for the job does not help, for it used only {memory_peak} of {memory_limit}: raise the program's own "
    "limit (-Xmx, --max-old-space-size, ulimit -v) within that, or let it ask for less at once."
)
SPELLED = "See that {command} is spelled right and is a program, not a file of the job."
PYTHON3 = "Write `python3`: many systems have Python under that name only."
PIP = (
    "Install it at the beginning of the job's commands, such as `pip install {module}`, with the same Python that runs "
    "the program."
)
VENV = (
    "Install it into an environment of its own at the beginning of the job's commands: `python3 -m venv "
    "--system-site-packages ~/venv && ~/venv/bin/pip install {module}`; then run the program with `~/venv/bin/python`."
)
# How to look around in a task that failed: one that is held is still there.
INSIDE_HELD = "It is held, so you can look around where it failed: `holdfast ssh {job} {task}`."
INSIDE = (
    "To look around where it failed, submit it again with `hold`; it then stays for a while, and you can get inside."
)
UNKNOWN = Words(
    "Exit code {code}, and nothing that is known in its log",
    "The program ended with exit code {code}. Its last lines are below; what they mean is not known here.",
    ("Read the end of its log.", "@inside"),
)
LAST_ERROR = Words(
    "The program's last error: {said}",
    "The program wrote this error last and ended with exit code {code}. What it means is not known here.",
    ("Read the end of its log.", "@inside"),
)
SILENT = Words(
    "Exit code {code}, without a word",
    "The program ended with exit code {code} and wrote nothing.",
    ("Let its commands tell what they do: `set -x` at the beginning shows each before it runs.", "@inside"),
)
NO_LOG = Words(
    "Exit code {code}; its log is not there any more",
    "The program ended with exit code {code}. Without its log nothing more can be told.",
    ("Submit it again, and look at it soon: logs are kept for some days only.",),
)
CODE_127 = Words(
    "Exit code 127, as of a shell that does not find a command",
    "Its log does not name the command.",
    ("See that every program that it calls is in the image {image}.",),
)
CODE_126 = Words(
    "Exit code 126, as of a shell that may not run a command",
    "Its log does not name the command.",
    ("See that what it calls may be executed: `chmod +x`, and a first line such as `#!/bin/sh`.",),
)

# Remedies whose field is called something else in each dialect.
BY_DIALECT: Mapping[str, Mapping[Dialect, str]] = {
    "memory": {
        Dialect.HOLDFAST: "Ask for more memory, {memory_more} for a start: `resources.memory` of the role {role}.",
        Dialect.OPENPAI_V2: "Ask for more memory, {memory_more} for a start: `resourcePerInstance.memoryMB` of the "
        "task role {role}.",
        Dialect.OPENPAI_V1: "Ask for more memory, {memory_more} for a start: `memoryMB` of the task role {role}.",
        Dialect.PRIMEHUB: "Choose an instance type with more memory, {memory_more} for a start: `instanceType`.",
    },
    "shm": {
        Dialect.HOLDFAST: "Ask for more shared memory: `resources.shm` of the role {role}.",
        Dialect.OPENPAI_V2: "Ask for more shared memory: `extraContainerOptions.shmMB` of the task role {role}.",
        Dialect.OPENPAI_V1: "Ask for more shared memory: `shmMB` of the task role {role}.",
        Dialect.PRIMEHUB: "Choose an instance type with more memory, or let fewer workers load data.",
    },
    "gpu": {
        Dialect.HOLDFAST: "Ask for GPUs: `resources.gpu` of the role {role}. It asked for {gpus}.",
        Dialect.OPENPAI_V2: "Ask for GPUs: `resourcePerInstance.gpu` of the task role {role}. It asked for {gpus}.",
        Dialect.OPENPAI_V1: "Ask for GPUs: `gpuNumber` of the task role {role}. It asked for {gpus}.",
        Dialect.PRIMEHUB: "Choose an instance type with GPUs: `instanceType`. This one has {gpus}.",
    },
    "time": {
        Dialect.HOLDFAST: "Give it more time: `time_limit`.",
        Dialect.OPENPAI_V2: "Give it more time: `extras.holdfast.time_limit`, or ask an admin for a longer limit.",
        Dialect.OPENPAI_V1: "Give it more time: `extras.holdfast.time_limit`, or ask an admin for a longer limit.",
        Dialect.PRIMEHUB: "Give it more time: `activeDeadlineSeconds`.",
    },
    "image": {
        Dialect.HOLDFAST: "Use an image that has it: `image` of the role {role}, now {image}.",
        Dialect.OPENPAI_V2: "Use an image that has it: `dockerImage` of the task role {role}, now {image}.",
        Dialect.OPENPAI_V1: "Use an image that has it: `image` of the job, now {image}.",
        Dialect.PRIMEHUB: "Use an image that has it: `image`, now {image}.",
    },
    "mount": {
        Dialect.HOLDFAST: "If it lies in a dataset or on a shared folder, name it in the job: `datasets` or `mounts`.",
        Dialect.OPENPAI_V2: "If it lies in a storage, name it in the job: the plugin `teamwise_storage`.",
        Dialect.OPENPAI_V1: "If it lies in a storage, name it in the job.",
        Dialect.PRIMEHUB: "If it lies in a dataset or volume, see that the job's group has it.",
    },
}

# Parts of sentences about how a task ended, and its memory.
ENDED = "{task} ended with exit code {code}"
ENDED_BY = "{task} ended with exit code {code} ({signal})"
CAME_OF = "It was raised because of {exception}: {message}."
MEMORY = "{task} used up to {memory_peak} of {memory_limit}"
KERNEL = "The kernel recorded an out-of-memory kill within the limits of {task}"


def texts() -> Iterator[str]:
    """Every template of verdicts that has words of its own: those of rules, and those above."""
    yield from (text for text in dict.fromkeys(_all()) if _OWN_WORDS.search(_BLANK.sub("", text)))


def _all() -> Iterator[str]:
    for rule in load_rules():
        yield from (rule.title, rule.explanation, *(text for text in rule.remedies if not text.startswith("@")))
    for words in (*CRASHED.values(), *(value for value in globals().values() if isinstance(value, Words))):
        yield from (words.title, words.explanation, *(text for text in words.remedies if not text.startswith("@")))
    for remedies in BY_DIALECT.values():
        yield from remedies.values()
    yield from (RAISED_AT, RAISED_IN, SAME_ELSEWHERE, ONE_SAME, FOLLOWED, ONE_FOLLOWED, INSIDE_HELD, INSIDE)
    yield from (OWN_LINE, OWN_LIMIT, ONLY_OWN_LIMIT, SPELLED, PYTHON3, PIP, VENV)
    yield from (CAME_OF, ENDED, ENDED_BY, MEMORY, KERNEL)
