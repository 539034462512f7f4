"""The script that runs in place of a task's commands: it writes the files, runs the plugins and the commands.

It is written for any POSIX shell. Its own variables begin with __, since a job may have exported any other name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from shlex import quote

from ..shell import fill_script, read_script, render_write_file
from .log_messages import SAY_FUNCTION

SYSTEM_FOLDER = "/usr/local/pai"  # as in OpenPAI
HOME_FOLDERS = ('"${{HOME:-/tmp}}/.pai/{}"', '"${{TMPDIR:-/tmp}}/.pai/{}"')  # by container: tasks may share a folder


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginStep:
    """The scripts of a runtime plugin: before the commands, and after they succeeded."""

    plugin: str
    before: str = ""
    after: str = ""
    ignore: bool = False  # its failure does not fail the task


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryScript:
    system: bool  # the system folder is private to the task, so files can be there
    own_home: bool  # the image's home is the task's own
    container: str  # uid
    exports: tuple[str, ...]  # commands that set the variables
    config: str
    script: str
    shell_options: tuple[str, ...]
    steps: tuple[PluginStep, ...] = ()
    notes: tuple[str, ...] = ()  # logged before anything runs
    ssh_setup: str = ""  # commands that configure ssh


def render_entry_script(entry: EntryScript) -> str:
    parts = [
        _HEAD_SCRIPT,
        _HOME_SCRIPT if entry.own_home else "",
        SAY_FUNCTION,
        # Written out rather than copied: no program is needed for it.
        fill_script(
            _FIND_FOLDER_SCRIPT,
            places=" ".join(_list_runtime_folders(entry)),
            container=entry.container,
            script=quote(entry.script),
        ),
        'if [ -n "$PAI_RUNTIME_DIR" ]; then\n',
        render_write_file("$PAI_RUNTIME_DIR/runtime_env.sh", *entry.exports),
        _EXPORT_FOLDERS_SCRIPT,
        render_write_file("$PAI_RUNTIME_DIR/job_config.yaml", entry.config),
        '. "$PAI_RUNTIME_DIR/runtime_env.sh"\n',
        f"else\n{_NO_FOLDER_SCRIPT}{'exit 1' if entry.steps else ''}\nfi\n",
        _RUN_FUNCTION,
        _STEP_FUNCTION if entry.steps else "",
        *(f"say WARN {quote(note)}\n" for note in entry.notes),
        entry.ssh_setup,
        *_render_steps(enumerate(entry.steps), "before"),
        fill_script(
            _USER_SCRIPT,
            options=_render_options(entry.shell_options),
            posix=_render_options(option for option in entry.shell_options if option != "pipefail"),
        ),
        *_render_steps(reversed(list(enumerate(entry.steps))), "after"),
        "exit 0\n",
    ]
    return "".join(parts)


def _list_runtime_folders(entry: EntryScript) -> Sequence[str]:
    homes = tuple(place.format(entry.container) for place in HOME_FOLDERS)
    return (SYSTEM_FOLDER, *homes) if entry.system else homes


def _render_options(options: Iterable[str]) -> str:
    return "".join(f" -o {option}" for option in options)


def _render_steps(steps: Iterable[tuple[int, PluginStep]], when: str) -> Iterable[str]:
    for number, step in steps:
        text = step.before if when == "before" else step.after
        if text:
            path = f"$PAI_RUNTIME_DIR/runtime.d/{number}-{when}.sh"
            yield render_write_file(path, text)
            yield f'__step "{path}" {quote(step.plugin)} {"ignore" if step.ignore else "fail"}\n'


_HEAD_SCRIPT = read_script(__package__, "head.sh")
_HOME_SCRIPT = read_script(__package__, "home.sh")
_FIND_FOLDER_SCRIPT = read_script(__package__, "find_folder.sh")

# A full disk, or an image without mkdir.
_NO_FOLDER_SCRIPT = "say WARN 'The files of the runtime are missing: no folder for them is writable.'\n"

_EXPORT_FOLDERS_SCRIPT = read_script(__package__, "export_folders.sh")

# A shell reports on stderr when a signal ended its child; the log is for the commands only.
_RUN_FUNCTION = """\
__run() {
    { "$__shell" "$@" 2>&3 3>&-; } 3>&2 2>/dev/null
}
"""

_STEP_FUNCTION = read_script(__package__, "step_function.sh")
_USER_SCRIPT = read_script(__package__, "run_user_script.sh")
