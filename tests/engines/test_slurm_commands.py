"""Programs that the Slurm engine runs in threads, and the hints of nodes about changed tasks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.engines.slurm.changed_tasks import CHANGES_FOLDER, ChangedTasks
from holdfast.engines.slurm.command_process import CommandResult, CommandRunner
from holdfast.engines.slurm.commands import SlurmCommands
from holdfast.engines.slurm.users import UnixUser

ENV = {"PATH": os.environ["PATH"], "ONLY": "this"}


@pytest.fixture
def runner() -> Iterator[CommandRunner]:
    found = CommandRunner()
    yield found
    found.close()


def run(runner: CommandRunner, *command: str, text: str = "", timeout: float = 60.0) -> CommandResult:
    return asyncio.run(runner.run(command, ENV, text, timeout))


def test_a_program_gets_its_input_and_variables(runner: CommandRunner) -> None:
    script = "cat; echo $ONLY $HOME; echo no >&2; exit 7"
    assert run(runner, "sh", "-c", script, text="input\n") == CommandResult(7, "input\nthis\n", "no\n")


def test_much_output_is_complete(runner: CommandRunner) -> None:
    assert run(runner, "seq", "100000").out.count("\n") == 100_000


def test_output_has_a_limit(runner: CommandRunner) -> None:
    script = "yes; yes >&2; exit 7"  # each ends when it cannot write
    done = asyncio.run(runner.run(("sh", "-c", script), ENV, "", 60.0, max_output=8192))
    assert (done.code, done.out) == (7, "y\n" * 4096)
    assert len(done.error) == 8192
    short = asyncio.run(runner.run(("echo", "short"), ENV, "", 60.0, max_output=8192))
    assert short == CommandResult(0, "short\n", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as other users without a rule for sudo")
def test_commands_that_one_user_holds_up_do_not_delay_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, line in (("srun", f"touch {tmp_path}/started.$$; exec sleep 600"), ("sinfo", "echo n1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    async def go() -> None:
        commands = SlurmCommands("", "hf-")
        user = UnixUser("root", 0, 0)  # any
        steps = [asyncio.create_task(commands.run_step((), user)) for _ in range(100)]
        while len(list(tmp_path.glob("started.*"))) < 8:
            await asyncio.sleep(0.01)
        for _ in range(20):
            assert await commands.list_nodes("main") == {"n1"}
        assert not any(step.done() for step in steps)  # none has reached its timeout
        for step in steps:
            step.cancel()
        await asyncio.gather(*steps, return_exceptions=True)
        await asyncio.to_thread(commands.close)

    asyncio.run(go())


def test_a_killed_program_has_a_negative_code(runner: CommandRunner) -> None:
    assert run(runner, "sh", "-c", "kill -9 $$").code == -9


def test_a_program_that_does_not_exist_cannot_be_started(runner: CommandRunner) -> None:
    with pytest.raises(FileNotFoundError):
        run(runner, "no-such-program")


def test_a_program_that_takes_too_long_is_killed(runner: CommandRunner, tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        run(runner, "sh", "-c", f"echo $$ >{tmp_path}/pid; exec sleep 600", timeout=0.5)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_program_of_a_cancelled_caller_is_killed(runner: CommandRunner, tmp_path: Path) -> None:
    async def go() -> None:
        command = ("sh", "-c", f"echo $$ >{tmp_path}/draft; mv {tmp_path}/draft {tmp_path}/pid; exec sleep 600")
        call = asyncio.create_task(runner.run(command, ENV, "", 600))
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(go())
    runner.close()  # waits for the thread, and so for the program
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_changes_are_collected_once_and_kept_until_the_task_is_watched(tmp_path: Path) -> None:
    changes = ChangedTasks(tmp_path)
    changes.collect()  # nothing is there yet
    changes.create_folder()
    for name in ("a", "b", "..bad"):
        (tmp_path / CHANGES_FOLDER / name).touch()
    changes.collect()
    assert not list((tmp_path / CHANGES_FOLDER).iterdir())
    assert changes.take_changed(lambda name: name == "a") == {"a"}
    assert changes.take_changed(lambda name: name == "a") == set()
    assert changes.take_changed(lambda _: True) == {"b"}
    (tmp_path / CHANGES_FOLDER / "c").touch()
    changes.collect()
    for _ in range(100):
        assert changes.take_changed(lambda _: False) == set()
    assert changes.take_changed(lambda _: True) == set()  # nobody watches it
