"""All options of sbatch: their letters, whether they have a value, and what they mean here."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from holdfast.core.messages import msg


class Argument(Enum):
    NONE = "none"
    OPTIONAL = "optional"  # only as --option=value
    REQUIRED = "required"


class OptionSpec(NamedTuple):
    argument: Argument = Argument.REQUIRED
    letter: str = ""
    refusal: str = ""  # why a script with it is refused; empty: it is not
    hint: str = ""
    is_used: bool = False  # otherwise it has no effect, with a warning


def _use(letter: str = "", argument: Argument = Argument.REQUIRED) -> OptionSpec:
    return OptionSpec(argument, letter, is_used=True)


def _ignore(letter: str = "", argument: Argument = Argument.REQUIRED, hint: str = "") -> OptionSpec:
    return OptionSpec(argument, letter, hint=hint)


def _refuse(why: str, letter: str = "", argument: Argument = Argument.REQUIRED, hint: str = "") -> OptionSpec:
    return OptionSpec(argument, letter, refusal=why, hint=hint)


_NONE, _OPTIONAL = Argument.NONE, Argument.OPTIONAL
_NOT_SUPPORTED = msg("is not supported, and the job would run differently without it")
_STARTS_AT_ONCE = msg("is not supported: the job would start at once")
_COMMAND_LINE_ONLY = msg("is an option of the command line, not of a script")
_REMOVE_HINT = msg("Remove the option if the job can run without it.")
_LOGS_HINT = msg("Holdfast keeps the output: read it with `holdfast logs`.")
_WAIT_HINT = msg("Use `holdfast submit --wait`.")
_DEPENDENCY_HINT = msg("Submit this job when the other one has ended: `holdfast wait JOB && holdfast submit FILE`.")
_SCHEDULE_HINT = msg("Submit the job later, or create a schedule.")
_IMAGE_HINT = msg("Write `#HOLDFAST image: NAME` to choose an image.")
_CPUS_HINT = msg("Use cpus-per-task and gpus-per-task.")

OPTIONS: dict[str, OptionSpec] = {
    # What a job has, too.
    "array": _use("a"),
    "chdir": _use("D"),
    "comment": _use(),
    "cpus-per-gpu": _use(),
    "cpus-per-task": _use("c"),
    "export": _use(),
    "gpus": _use("G"),
    "gpus-per-node": _use(),
    "gpus-per-task": _use(),
    "gres": _use(),
    "input": _use("i"),
    "job-name": _use("J"),
    "mail-type": _use(),
    "mail-user": _use(),
    "mem": _use(),
    "mem-per-cpu": _use(),
    "mem-per-gpu": _use(),
    "mincpus": _use(),
    "nice": _use("", _OPTIONAL),
    "nodes": _use("N"),
    "ntasks": _use("n"),
    "ntasks-per-gpu": _use(),
    "ntasks-per-node": _use(),
    "signal": _use(),
    "time": _use("t"),
    # Options of Slurm's own queue, for the Slurm engine.
    "account": _use("A"),
    "constraint": _use("C"),
    "partition": _use("p"),
    "qos": _use("q"),
    "reservation": _use(),
    # Options of Pyxis, a plugin for containers.
    "container-image": _use(),
    "container-mounts": _use(),
    "container-workdir": _use(),
    # Without effect.
    "acctg-freq": _ignore(),
    "batch": _ignore(),
    "cluster-constraint": _ignore(),
    "clusters": _ignore("M"),
    "container-mount-home": _ignore("", _NONE),
    "container-name": _ignore(),
    "container-remap-root": _ignore("", _NONE),
    "container-writable": _ignore("", _NONE),
    "contiguous": _ignore("", _NONE),
    "core-spec": _ignore("S"),
    "cores-per-socket": _ignore(),
    "cpu-freq": _ignore(),
    "delay-boot": _ignore(),
    "distribution": _ignore("m"),
    "error": _ignore("e", hint=_LOGS_HINT),
    "exclude": _ignore("x"),
    "exclusive": _ignore("", _OPTIONAL, msg("The job may share its node with others.")),
    "extra": _ignore(),
    "extra-node-info": _ignore("B"),
    "get-user-env": _ignore("", _OPTIONAL, msg("For a login shell, write `#!/bin/bash -l` in the first line.")),
    "gpu-bind": _ignore(),
    "gpu-freq": _ignore(),
    "gres-flags": _ignore(),
    "hint": _ignore(),
    "ignore-pbs": _ignore("", _NONE),
    "immediate": _ignore("I", _OPTIONAL),
    "kill-on-invalid-dep": _ignore(),
    "licenses": _ignore("L"),
    "mcs-label": _ignore(),
    "mem-bind": _ignore(),
    "network": _ignore(),
    "no-container-mount-home": _ignore("", _NONE),
    "no-container-remap-root": _ignore("", _NONE),
    "no-kill": _ignore("k", _OPTIONAL),
    "no-requeue": _ignore("", _NONE, msg("A job runs again if the platform failed, and not after its own failure.")),
    "nodefile": _ignore("F"),
    "nodelist": _ignore("w"),
    "ntasks-per-core": _ignore(),
    "ntasks-per-socket": _ignore(),
    "oom-kill-step": _ignore("", _OPTIONAL),
    "open-mode": _ignore(hint=_LOGS_HINT),
    "output": _ignore("o", hint=_LOGS_HINT),
    "overcommit": _ignore("O", _NONE),
    "oversubscribe": _ignore("s", _NONE),
    "parsable": _ignore("", _NONE),
    "power": _ignore(),
    "prefer": _ignore(),
    "priority": _ignore(hint=msg("Use nice, or `#HOLDFAST priority: NUMBER`.")),
    "profile": _ignore(),
    "propagate": _ignore("", _OPTIONAL),
    "quiet": _ignore("Q", _NONE),
    "reboot": _ignore("", _NONE),
    "requeue": _ignore("", _NONE, msg("A job runs again if the platform failed, and not after its own failure.")),
    "resv-ports": _ignore("", _OPTIONAL),
    "segment": _ignore(),
    "share": _ignore("", _NONE),
    "sockets-per-node": _ignore(),
    "spread-job": _ignore("", _NONE),
    "stepmgr": _ignore("", _NONE),
    "switches": _ignore(),
    "thread-spec": _ignore(),
    "threads-per-core": _ignore(),
    "time-min": _ignore(),
    "tmp": _ignore(),
    "tres-bind": _ignore(),
    "use-min-nodes": _ignore("", _NONE),
    "verbose": _ignore("v", _NONE),
    "wait": _ignore("W", _NONE, _WAIT_HINT),
    "wait-all-nodes": _ignore(),
    "wckey": _ignore(),
    # Without them, another job would run.
    "bb": _refuse(_NOT_SUPPORTED, hint=_REMOVE_HINT),
    "bbf": _refuse(_NOT_SUPPORTED, hint=_REMOVE_HINT),
    "begin": _refuse(_STARTS_AT_ONCE, "b", hint=_SCHEDULE_HINT),
    "container": _refuse(_NOT_SUPPORTED, hint=_IMAGE_HINT),
    "container-id": _refuse(_NOT_SUPPORTED, hint=_REMOVE_HINT),
    "deadline": _refuse(_NOT_SUPPORTED, hint=_REMOVE_HINT),
    "dependency": _refuse(_STARTS_AT_ONCE, "d", hint=_DEPENDENCY_HINT),
    "export-file": _refuse(_NOT_SUPPORTED, hint=msg("Write the variables: `#SBATCH --export=NAME=VALUE`.")),
    "gid": _refuse(_NOT_SUPPORTED, hint=_REMOVE_HINT),
    "gpus-per-socket": _refuse(_NOT_SUPPORTED, hint=_CPUS_HINT),
    "hold": _refuse(_STARTS_AT_ONCE, "H", _NONE, _SCHEDULE_HINT),
    "image": _refuse(_NOT_SUPPORTED, hint=_IMAGE_HINT),  # of Shifter, which runs only parts of the script in it
    "test-only": _refuse(_NOT_SUPPORTED, "", _NONE, msg("Use `holdfast plan FILE`.")),
    "tres-per-task": _refuse(_NOT_SUPPORTED, hint=_CPUS_HINT),
    "uid": _refuse(_NOT_SUPPORTED, hint=_REMOVE_HINT),
    # Of the command line.
    "help": _refuse(_COMMAND_LINE_ONLY, "h", _NONE),
    "usage": _refuse(_COMMAND_LINE_ONLY, "", _NONE),
    "version": _refuse(_COMMAND_LINE_ONLY, "V", _NONE),
    "wrap": _refuse(_COMMAND_LINE_ONLY),
}
OLD_NAMES = {"workdir": "chdir", "tasks-per-node": "ntasks-per-node"}
LONG_NAMES = {spec.letter: name for name, spec in OPTIONS.items() if spec.letter}
