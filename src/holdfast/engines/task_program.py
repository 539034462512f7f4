"""What an engine runs for a task: files in a folder of the task, and a command. Pure, and the same for all engines.

The folder is `/run/holdfast` in the task. The runner (`runtime/task_runner.sh`) finds the other files beside itself, so
it may be another folder where tasks have no root filesystem of their own. Commands, variables and secrets are only in
files: others may read a command line, and what the engine shows of a task.
"""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .base import POSIX_SHELL_OPTIONS, LaunchSpec
from .sandbox_paths import HOLDFAST_PATH, HOME_PATH, SEARCH_PATH
from .task_user import TaskUser
from .user_switch import build_user_switch

RUNNER_FILE, HOLD_FILE, USER_SWITCH_FILE = "runner", "hold", "run-as-user"
NOTES_FOLDER, REPORT_FOLDER = "notes", "report"
LOG_FILES = ("stdout", "stderr")
WRITABLE_FOLDERS = (NOTES_FOLDER, REPORT_FOLDER)  # empty, in the task's folder; the task can write to them
SECRET_FILES = ("env", "entry", "script")  # to delete once the task has ended

# Read at import: an upgrade may replace the files under a running server.
_RUNTIME_FOLDER = Path(__file__).parents[1] / "runtime"
_SHARED_SCRIPTS = {RUNNER_FILE: "task_runner.sh", HOLD_FILE: "hold.sh"}
_SHELL_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_READONLY_NAMES = frozenset({"SHELLOPTS", "BASHOPTS", "UID", "EUID", "PPID", "BASH_VERSINFO"})  # in bash


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    text: str  # bytes that are not UTF-8 are surrogate escapes
    mode: int
    secret: bool = False  # only the task and the server may read it

    def encode(self) -> bytes:
        return self.text.encode("utf-8", "surrogateescape")


# Those that are equal for all tasks.
SHARED_FILES = {
    name: TaskFile(text=(_RUNTIME_FOLDER / script).read_text(), mode=0o555) for name, script in _SHARED_SCRIPTS.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgram:
    files: Mapping[str, TaskFile]  # by their names in the task's folder
    argv: tuple[str, ...]


def build_task_program(
    launch: LaunchSpec,
    image_env: Mapping[str, str] | None = None,
    *,
    folder: str = HOLDFAST_PATH,
    home: str = HOME_PATH,
    library: str = "",
    user: TaskUser | None = None,
    user_name: str = "root",
    workdir: str = "",
) -> TaskProgram:
    """Return the program of a task whose shell is found when it runs. `image_env`: the variables of its image;
    `folder`: the path of its files, as the task sees it; `library`: likewise of the packages of every task, empty if
    there are none; `user`: the image's user, if the task becomes it; `user_name`: the name of the user otherwise;
    `workdir`: the image's working folder, which is created for that user.

    Besides the files, the folder needs WRITABLE_FOLDERS and LOG_FILES. The runner takes the claim in `report` before
    the first command, and records the exit code there; `runner_report.parse_report` reads both.
    """
    gpus = {} if launch.leaves_gpus_to_engine else make_gpu_variables(launch.gpus, renumbered=True)
    notes = f"{folder}/{NOTES_FOLDER}"
    env = make_task_env(
        launch, home=home, gpus=gpus, image_env=image_env, notes=notes, user=user, user_name=user_name, library=library
    )
    files = {
        RUNNER_FILE: SHARED_FILES[RUNNER_FILE],
        **make_command_files(launch, user),
        # The image's user loads it, and does not own it.
        "env": TaskFile(text=render_env_file(env), mode=0o444 if user else 0o400, secret=True),
        "task": TaskFile(text=render_task_file(launch, user, workdir), mode=0o444),
    }
    return TaskProgram(files=files, argv=("/bin/sh", f"{folder}/{RUNNER_FILE}"))


# --- commands ---------------------------------------------------------------------------------------------------------


def make_command_files(
    launch: LaunchSpec, user: TaskUser | None = None, env: Mapping[str, str] | None = None
) -> dict[str, TaskFile]:
    """Return the files that the command of the task needs, by name. `env`: the variables that the switch to `user`
    sets; None: the command has them by then."""
    files = {"script": TaskFile(text=launch.script, mode=0o555, secret=True)}
    if launch.entry:  # it may contain a key; the image's user does not own it
        files["entry"] = TaskFile(text=launch.entry, mode=0o555 if user else 0o500, secret=True)
    if user:
        switch = build_user_switch(user, platform.machine(), env).decode("utf-8", "surrogateescape")
        files[USER_SWITCH_FILE] = TaskFile(text=switch, mode=0o555, secret=env is not None)
    if launch.hold:
        files[HOLD_FILE] = SHARED_FILES[HOLD_FILE]
    return files


def make_command(launch: LaunchSpec, shell: str, folder: str = HOLDFAST_PATH) -> list[str]:
    """Return the command of a task whose shell is known in advance. The runner builds the same for its shell."""
    script = f"{folder}/script"
    if launch.entry:
        command = [shell, f"{folder}/entry", script]
    else:
        bash = shell.endswith("bash")
        command = [shell]
        for option in launch.shell_options:
            if bash or option in POSIX_SHELL_OPTIONS:
                command += ["-o", option]
        command.append(script)
    return [shell, f"{folder}/hold", f"{folder}/{NOTES_FOLDER}", *command] if launch.hold else command


def render_task_file(launch: LaunchSpec, user: TaskUser | None = None, workdir: str = "") -> str:
    """Return how to run the commands, as variables of the runner."""
    posix = [option for option in launch.shell_options if option in POSIX_SHELL_OPTIONS]
    values = {
        "options": " ".join(posix),
        "bash_options": " ".join(launch.shell_options),
        "entry": "yes" if launch.entry else "",
        "hold": "yes" if launch.hold else "",
        "workdir": launch.workdir or (workdir if user else ""),
        "user": "yes" if user else "",
    }
    return "".join(f"_holdfast_{name}={shlex.quote(value)}\n" for name, value in values.items())


# --- variables --------------------------------------------------------------------------------------------------------


def make_task_env(
    launch: LaunchSpec,
    *,
    home: str,
    gpus: Mapping[str, str],
    notes: str,
    image_env: Mapping[str, str] | None = None,
    shell: str = "",
    user: TaskUser | None = None,
    user_name: str = "root",
    library: str = "",
) -> dict[str, str]:
    """Return the task's environment, without any variable of the server. `shell` empty: the runner finds it. `user`:
    the image's user, if the task becomes it; else it has `user_name`."""
    if user:
        home, user_name = user.home or home, user.name
    env = {"PATH": SEARCH_PATH, "HOME": home, "LANG": "C.UTF-8", "USER": user_name, "LOGNAME": user_name}
    if shell:
        env["SHELL"] = shell
    env.update(image_env or {})
    env["HOSTNAME"] = make_hostname(launch.task)
    env.update(gpus)
    for label, numbers in launch.ports.items():
        env[f"HOLDFAST_PORT_{make_variable_name(label)}"] = ",".join(map(str, numbers))
    env.update(launch.env)
    env["HOLDFAST_ATTEMPT"] = launch.attempt_id
    env["HOLDFAST_NOTES"] = notes
    if library:  # after all other paths
        own = env.get("PYTHONPATH")
        env["PYTHONPATH"] = f"{own}:{library}" if own else library
    return env


def make_gpu_variables(given: Sequence[int], *, renumbered: bool) -> Mapping[str, str]:
    """Return the variables that frameworks read. `renumbered`: the task only sees its own devices, counted from 0."""
    if not given:
        return {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    numbers = range(len(given)) if renumbered else given
    text = ",".join(map(str, numbers))
    return {"CUDA_VISIBLE_DEVICES": text, "NVIDIA_VISIBLE_DEVICES": text, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def render_env_file(env: Mapping[str, str]) -> str:
    """Return the variables as shell commands, without names that no shell can set."""
    names = [name for name in env if _SHELL_NAME_PATTERN.match(name) and name not in _READONLY_NAMES]
    return "".join(f"export {name}={shlex.quote(env[name])}\n" for name in names)


def make_hostname(task: str) -> str:
    """Return at most 63 letters, digits and dashes."""
    kept = "".join(char if char.isascii() and char.isalnum() else "-" for char in task).strip("-")
    return kept[:63].rstrip("-") or "task"


def make_variable_name(label: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in label).upper()
