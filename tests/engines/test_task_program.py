"""What every engine runs for a task: the files, the command, and the runner among them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.job import Resources
from holdfast.engines.base import LaunchSpec
from holdfast.engines.runner_report import RunnerReport, parse_report
from holdfast.engines.task_program import (
    LOG_FILES,
    SECRET_FILES,
    WRITABLE_FOLDERS,
    TaskProgram,
    build_task_program,
    make_command,
    make_command_files,
    make_gpu_variables,
    make_hostname,
    make_task_env,
    make_variable_name,
    render_env_file,
    render_task_file,
)
from tests.contracts.engine_contract import launch

SHELLS = [name for name in ("bash", "dash", "busybox") if shutil.which(name)]


class Started:
    """A program that was written to a folder and ran there, as an engine without containers does."""

    def __init__(self, folder: Path, work: LaunchSpec, shell: str = "sh") -> None:
        self.folder = folder
        folder.mkdir()
        for name in WRITABLE_FOLDERS:
            (folder / name).mkdir()
        self.program = build_task_program(work, folder=str(folder), home=str(folder))
        for name, file in self.program.files.items():
            (folder / name).write_bytes(file.encode())
            (folder / name).chmod(file.mode)
        self.shell = [str(shutil.which(shell)), *(["sh"] if shell == "busybox" else [])]
        self.code = self.run()

    def run(self) -> int:
        """The variables of the test are not those of a task, but its search path is needed."""
        argv = [*self.shell, *self.program.argv[1:]]
        return subprocess.run(argv, env={"PATH": os.environ["PATH"]}, check=False).returncode

    def log(self, name: str = "stdout") -> str:
        return (self.folder / name).read_text()

    @property
    def report(self) -> RunnerReport:
        return parse_report((self.folder / "report/claim").read_bytes())


@pytest.mark.parametrize("shell", SHELLS)
def test_a_program_runs_in_any_folder_and_records_its_exit(tmp_path: Path, shell: str) -> None:
    script = 'echo "$COLOUR $HOLDFAST_ATTEMPT $HOLDFAST_NOTES $0"; echo oops >&2; (exit 3); echo never'
    ran = Started(tmp_path / "it's here", launch("a", script, env={"COLOUR": "it's green"}), shell)
    folder = ran.folder
    assert (ran.code, ran.log()) == (3, f"it's green a {folder}/notes {folder}/script\n")
    assert ran.log("stderr") == "oops\n"
    assert (ran.report.claimed, ran.report.code) == (True, 3)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_second_run_does_nothing(tmp_path: Path, shell: str) -> None:
    ran = Started(tmp_path / "task", launch("a", "echo once"), shell)
    before = (ran.folder / "report/claim").read_bytes()
    assert (ran.code, ran.run()) == (0, 125)
    assert (ran.log(), (ran.folder / "report/claim").read_bytes()) == ("once\n", before)


def test_an_entry_gets_the_script_and_a_working_folder_is_made(tmp_path: Path) -> None:
    workdir = str(tmp_path / "new/folder")
    ran = Started(tmp_path / "task", launch("a", "pwd", entry='echo first; . "$1"', workdir=workdir))
    assert (ran.code, ran.log()) == (0, f"first\n{workdir}\n")


def test_a_folder_that_is_not_writable_runs_nothing(tmp_path: Path) -> None:
    ran = Started(tmp_path / "task", launch("a", "echo once"))
    shutil.rmtree(ran.folder / "report")
    assert ran.run() == 125
    assert ran.log() == "once\n"


CASES: list[dict[str, Any]] = [
    {},
    {"shell_options": ()},
    {"shell_options": ("errexit", "pipefail", "nounset")},
    {"entry": ":"},
    {"hold": True},
    {"entry": ":", "hold": True},
]


@pytest.mark.parametrize("name", ["bash", "sh"])
@pytest.mark.parametrize("more", CASES)
def test_the_runner_runs_what_an_engine_that_knows_the_shell_runs(
    tmp_path: Path, more: dict[str, Any], name: str
) -> None:
    """The same words in the same order; a shell that prints its own shows them."""
    shell = tmp_path / name
    shell.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@" >"${0%/*}/words"\n')
    shell.chmod(0o755)
    work = launch("a", "true", **more)
    ran = Started(tmp_path / "task", work)
    subprocess.run(["sh", f"{ran.folder}/runner", "run", str(shell)], check=True)
    assert (tmp_path / "words").read_text().splitlines() == make_command(work, str(shell), str(ran.folder))


def test_shell_options_that_a_shell_does_not_know_are_left_out() -> None:
    work = launch("a", "true", shell_options=("errexit", "pipefail", "nounset"))
    script = "/run/holdfast/script"
    assert make_command(work, "/bin/bash") == [
        "/bin/bash", "-o", "errexit", "-o", "pipefail", "-o", "nounset", script,
    ]  # fmt: skip
    assert make_command(work, "/bin/sh") == ["/bin/sh", "-o", "errexit", "-o", "nounset", script]


def test_options_of_bash_are_kept_apart() -> None:
    text = render_task_file(launch("a", "", workdir="/it's here"))
    assert "_holdfast_options=errexit\n" in text
    assert "_holdfast_bash_options='errexit pipefail'\n" in text
    assert "_holdfast_workdir='/it'\"'\"'s here'\n" in text


def make_secret_program() -> TaskProgram:
    work = launch("a", "echo hidden", entry="hidden", env={"TOKEN": "hidden"}, secret_env=frozenset({"TOKEN"}))
    return build_task_program(work)


def test_secrets_are_only_in_files_that_say_so() -> None:
    program = make_secret_program()
    assert "hidden" not in str(program.argv)
    hiding = {name for name, file in program.files.items() if "hidden" in file.text}
    assert hiding == set(SECRET_FILES) == {name for name, file in program.files.items() if file.secret}
    assert not set(program.files) & {*WRITABLE_FOLDERS, *LOG_FILES}


def test_only_what_is_needed_is_written() -> None:
    assert set(make_command_files(launch("a", "true"))) == {"script"}
    files = make_command_files(launch("a", "true\udcff", entry="x", hold=True))
    assert {name: file.mode for name, file in files.items()} == {"script": 0o555, "entry": 0o500, "hold": 0o555}
    assert files["script"].encode() == b"true\xff"


# --- variables --------------------------------------------------------------------------------------------------------


def test_whose_variables_win() -> None:
    given = launch("a", "true", env={"LANG": "mine", "HOLDFAST_ATTEMPT": "forged", "CUDA_VISIBLE_DEVICES": "0"})
    image = {"PATH": "/image", "LANG": "image", "HOME": "/image"}
    gpus = make_gpu_variables((), renumbered=True)
    env = make_task_env(given, home="/home/x", gpus=gpus, notes="/n", image_env=image)
    assert (env["PATH"], env["LANG"], env["CUDA_VISIBLE_DEVICES"]) == ("/image", "mine", "0")
    assert env["HOLDFAST_ATTEMPT"] == "a"
    assert "SHELL" not in env  # found by the runner
    known = make_task_env(given, home="/home/x", gpus=gpus, notes="/n", shell="/bin/dash", library="/lib")
    assert (known["SHELL"], known["HOME"], known["PYTHONPATH"]) == ("/bin/dash", "/home/x", "/lib")


def test_gpus_are_numbered_as_the_task_sees_them() -> None:
    assert make_gpu_variables((2, 5), renumbered=True)["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert make_gpu_variables((2, 5), renumbered=False)["CUDA_VISIBLE_DEVICES"] == "2,5"
    assert make_gpu_variables((), renumbered=True) == {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}


@pytest.mark.parametrize(("gpus", "count", "shown"), [((1,), 1, "=0\n"), ((), 0, "=''\n"), ((), 2, "")])
def test_an_engine_that_chooses_devices_sets_their_variables(gpus: tuple[int, ...], count: int, shown: str) -> None:
    work = launch("a", "true", gpus=gpus, resources=Resources(gpu=count))
    assert work.leaves_gpus_to_engine is (count > len(gpus))
    env = build_task_program(work).files["env"].text
    assert (f"CUDA_VISIBLE_DEVICES{shown}" in env) is bool(shown)
    assert ("VISIBLE_DEVICES" in env) is bool(shown)


def test_variables_survive_the_shell(tmp_path: Path) -> None:
    env = {"PLAIN": "a", "ODD": "a'b\"c $HOME `x`\n\\n", "EMPTY": "", "not-a-name": "x", "UID": "5"}
    file = tmp_path / "env"
    file.write_text(render_env_file(env))
    script = f'. {file}; printf "%s|%s|%s" "$PLAIN" "$ODD" "$EMPTY"'
    found = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == f"a|{env['ODD']}|"


def test_the_tasks_variables_override_the_images() -> None:
    work = launch("a", "", env={"PATH": "/mine"}, ports={"web": (8080,)})
    env = build_task_program(work, {"PATH": "/theirs", "THEIRS": "1"}, library="/run/holdfast/lib").files["env"].text
    for line in ("PATH=/mine", "THEIRS=1", "HOLDFAST_PORT_WEB=8080", "PYTHONPATH=/run/holdfast/lib"):
        assert f"export {line}\n" in env
    assert "HOLDFAST_NOTES=/run/holdfast/notes\n" in env


@pytest.mark.parametrize(
    ("task", "name"),
    [("worker-0", "worker-0"), ("Ünï_cöde-1", "n--c-de-1"), ("-" * 99, "task"), ("a" * 99, "a" * 63), ("", "task")],
)
def test_host_names(task: str, name: str) -> None:
    assert make_hostname(task) == name


def test_variable_names() -> None:
    assert make_variable_name("tensor-board.x") == "TENSOR_BOARD_X"
