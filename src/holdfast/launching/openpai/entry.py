"""The script that runs in place of a task's commands: it lays out the files, runs the plugins and the commands.

It is written for any POSIX shell. Its own variables begin with __, since a job may have exported any other name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from shlex import quote

from ..shell import write_file
from .saying import SAY

SYSTEM_PLACE = "/usr/local/pai"  # where OpenPAI has it
HOME_PLACES = ('"${{HOME:-/tmp}}/.pai/{}"', '"${{TMPDIR:-/tmp}}/.pai/{}"')  # by container: tasks may share a folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a runtime plugin does: before the commands, and after they succeeded."""

    plugin: str
    before: str = ""
    after: str = ""
    ignore: bool = False  # a failure of it is none of the task's


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    system: bool  # files may lie in the system's folder: the task has it to itself
    own_home: bool  # the home that the image names is the task's own
    container: str  # uid
    exports: tuple[str, ...]  # commands that set the variables
    config: str
    script: str
    shell_options: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()  # to be said before anything runs
    neighbours: str = ""  # commands that tell ssh of the other tasks; see prepare_neighbours


def render_entry(entry: Entry) -> str:
    parts = [
        _HEAD,
        _HOME if entry.own_home else "",
        SAY,
        # Written out rather than copied: no program need be started for it.
        _FIND_PLACE.format(places=" ".join(_places(entry)), container=entry.container, script=quote(entry.script)),
        'if [ -n "$PAI_RUNTIME_DIR" ]; then\n',
        write_file("$PAI_RUNTIME_DIR/runtime_env.sh", *entry.exports),
        _TELL_PLACES,
        write_file("$PAI_RUNTIME_DIR/job_config.yaml", entry.config),
        '. "$PAI_RUNTIME_DIR/runtime_env.sh"\n',
        f"else\n{_NO_PLACE}{'exit 1' if entry.steps else ''}\nfi\n",
        _RUN,
        _RUN_STEP if entry.steps else "",
        *(f"say WARN {quote(note)}\n" for note in entry.notes),
        entry.neighbours,
        *_run_steps(enumerate(entry.steps), "before"),
        _USER.format(options=_options(entry.shell_options), posix=_options(_posix(entry.shell_options))),
        *_run_steps(reversed(list(enumerate(entry.steps))), "after"),
        "exit 0\n",
    ]
    return "".join(parts)


def _places(entry: Entry) -> Sequence[str]:
    homes = tuple(place.format(entry.container) for place in HOME_PLACES)
    return (SYSTEM_PLACE, *homes) if entry.system else homes


def _posix(options: Iterable[str]) -> tuple[str, ...]:
    return tuple(option for option in options if option != "pipefail")


def _options(options: Iterable[str]) -> str:
    return "".join(f" -o {option}" for option in options)


def _run_steps(steps: Iterable[tuple[int, Step]], when: str) -> Iterable[str]:
    for number, step in steps:
        text = step.before if when == "before" else step.after
        if text:
            path = f"$PAI_RUNTIME_DIR/runtime.d/{number}-{when}.sh"
            yield write_file(path, text)
            yield f'__step "{path}" {quote(step.plugin)} {"ignore" if step.ignore else "fail"}\n'


# A job may export options for bash; the entry has none. A signal that asks the task to end goes to every process of
# it: the entry waits for the one it runs, so that the traps of that have their time, and starts nothing more.
_HEAD = """\
set +eu
__script=$1
__ended=
trap '__ended=143' TERM
trap '__ended=130' INT
trap '__ended=129' HUP
__shell=${BASH:-/bin/sh}
"""

# Where the image keeps what its makers put into their home: .bashrc, programs, models. Only bash knows without HOME.
_HOME = """\
__given=$HOME
unset HOME
__own=~
HOME=$__given
case $__own in
/?*) [ ! -d "$__own" ] || [ ! -w "$__own" ] || HOME=$__own ;;
esac
export HOME
"""

_FIND_PLACE = """\
PAI_WORK_DIR=$PWD
PAI_RUNTIME_DIR=
for __place in {places}; do
    if mkdir -p "$__place/runtime.d" "$__place/logs/{container}" &&
        printf %s {script} >"$__place/runtime.d/user.sh"; then
        PAI_RUNTIME_DIR=$__place
        __script=$__place/runtime.d/user.sh
        break
    fi 2>/dev/null
done
export PAI_RUNTIME_DIR PAI_WORK_DIR
"""

# A full disk, or an image without mkdir.
_NO_PLACE = "say WARN 'The files of the runtime are not laid out: no folder for them can be written.'\n"

# Paths with a quote in them would need more care than they are worth: the environment has them anyway.
_TELL_PLACES = """\
case $PWD$PAI_RUNTIME_DIR in
*\\'*) ;;
*) printf "export %s='%s'\\n" PAI_WORK_DIR "$PWD" PAI_RUNTIME_DIR "$PAI_RUNTIME_DIR" \\
    >>"$PAI_RUNTIME_DIR/runtime_env.sh" ;;
esac
"""

# A shell tells on its stderr when a signal ended what it ran; the log is for the commands to write.
_RUN = """\
__run() {
    { "$__shell" "$@" 2>&3 3>&-; } 3>&2 2>/dev/null
}
"""

_RUN_STEP = """\
__step() {
    [ -z "$__ended" ] || exit "$__ended"
    if [ "$3" = ignore ]; then
        __run "$1"
    else
        __run -o errexit "$1"
    fi
    __code=$?
    [ -z "$__ended" ] || exit "$__ended"
    [ "$__code" != 0 ] || return 0
    if [ "$3" = ignore ]; then
        say WARN "The runtime plugin $2 failed with code $__code, which the job tells to ignore."
    else
        say ERROR "The runtime plugin $2 failed with code $__code."
        exit "$__code"
    fi
}
"""

_USER = """\
[ -z "$__ended" ] || exit "$__ended"
if [ -n "${{BASH_VERSION-}}" ]; then
    __run{options} "$__script"
else
    __run{posix} "$__script"
fi
__code=$?
[ "$__code$__ended" = 0 ] || exit "$__code"
"""
