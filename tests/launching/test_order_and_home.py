"""What files say to runtime plugins in more than one way, and which folder is home, on a real engine."""

from __future__ import annotations

import os
import pwd
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.base import Isolation
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from holdfast.launching import needs_job_key
from tests.contracts.engine_contract import Rig, read_all
from tests.engines.archives import config, docker_archive, entry, folder, shell_entries, tar
from tests.engines.scenarios import need, play

from .scene import PLUGINS, launch_of, run, v1_job, v2_job


def prerequisite(name: str) -> dict[str, Any]:
    events = [("taskStarts", "starts"), ("taskSucceeds", "succeeds")]
    callbacks = [{"event": event, "commands": [f"echo {name} {word}"]} for event, word in events]
    return {"type": "script", "name": name, "plugin": f"{PLUGINS}.cmd", "callbacks": callbacks}


def test_each_role_runs_its_prerequisites_in_its_own_order(tmp_path: Path) -> None:
    role = {"dockerImage": "image", "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}, "commands": [":"]}
    job = v2_job(
        [],
        prerequisites=[prerequisite("a"), prerequisite("b")],
        taskRoles={"one": {**role, "prerequisites": ["a", "b"]}, "two": {**role, "prerequisites": ["b", "a", "b"]}},
        extras={PLUGINS: [{"plugin": "cmd", "parameters": {"preCommands": ["echo extra"]}}]},
    )
    one, two = (run(tmp_path / str(number), launch_of(job, number)) for number in range(2))
    assert one.out == "a starts\nb starts\nextra\nb succeeds\na succeeds\n", one.err
    assert two.out == "b starts\na starts\nextra\na succeeds\nb succeeds\n", two.err


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_a_repository_without_a_folder_stays_where_it_is_cloned(tmp_path: Path) -> None:
    need(Isolation.FULL, Isolation.READ_ONLY)
    make = "git init -q /tmp/r; cd /tmp/r; git -c user.name=x -c user.email=y commit -qm it --allow-empty"
    calls = [("cmd", {"preCommands": [make]}), ("git", {"repo_uri": "file:///tmp/r"}), ("tensorboard", {})]
    plugins = [{"plugin": plugin, "parameters": parameters} for plugin, parameters in calls]
    ran = run(tmp_path, v2_job(['git -C "$PAI_RUNTIME_DIR/code" log --format=%s'], extras={PLUGINS: plugins}))
    assert (ran.code, ran.out) == (0, "it\n"), ran.err


@pytest.mark.parametrize(
    ("written", "wanted"), [(True, True), ("True", True), (False, False), ("no", False), (None, False)]
)
def test_what_is_true_may_stand_in_quotes(written: Any, wanted: bool) -> None:
    calls = [{"plugin": "ssh", "parameters": {"jobssh": written}}]
    job = v2_job(["true"], extras={PLUGINS: calls})
    assert needs_job_key(job) is wanted
    assert ("id_rsa" in launch_of(job, job_seed=bytes(32)).entry) is wanted


@pytest.mark.parametrize("value", ["true", "false"])
def test_what_is_true_may_be_a_parameter(value: str) -> None:
    calls = [{"plugin": "ssh", "parameters": {"jobssh": "<% $parameters.ssh %>"}}]
    job = v2_job(["true"], extras={PLUGINS: calls}, parameters={"ssh": value})
    assert needs_job_key(job)
    assert ("id_rsa" in launch_of(job, job_seed=bytes(32)).entry) is (value == "true")


def test_home_is_the_users_own_where_it_can_be(tmp_path: Path) -> None:
    """In containers it is what the image's list of users says."""
    need(Isolation.FULL, Isolation.READ_ONLY)
    ran = run(tmp_path, v2_job(["echo $HOME", "touch ~/it", "ls $HOME/it >/dev/null"]))
    # Of an ordinary user the node may know no home, and the sandbox has none but its own.
    own = pwd.getpwuid(0).pw_dir if os.geteuid() == 0 else "/home/jovyan"
    assert (ran.code, ran.out) == (0, f"{own}\n"), ran.err


def test_a_home_that_the_job_names_stays(tmp_path: Path) -> None:
    assert run(tmp_path, v1_job("echo $HOME", jobEnvs={"HOME": "/tmp"})).out == "/tmp\n"


def test_without_a_sandbox_home_is_the_tasks_folder(tmp_path: Path) -> None:
    ran = run(tmp_path, v2_job(["echo $HOME"]), EmbeddedOptions(isolation="off"), isolated=False)
    assert ran.out == f"{tmp_path}/tasks/j1.0.worker-0.0/scratch\n"


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="bash is not installed")
def test_commands_find_what_the_image_keeps_at_home(tmp_path: Path) -> None:
    need(Isolation.FULL)
    users = entry("etc/passwd", b"root:x:0:0:root:/root:/bin/bash\n")
    at_home = [folder("root", 0o700), entry("root/.bashrc", b"tool=ready\n")]
    file = tmp_path / "tiny.tar"
    layer = tar([*shell_entries("/bin/bash", "/bin/mkdir"), users, *at_home])
    file.write_bytes(docker_archive([layer], config(Env=["PATH=/bin"])))
    job = v2_job(["source ~/.bashrc", "echo $tool"])
    logs: list[bytes] = []

    async def scenario(rig: Rig) -> None:
        assert isinstance(rig.engine, EmbeddedEngine)
        await rig.engine.import_image("tiny:1", file)
        launch = replace(launch_of(job), image="tiny:1", ports={})
        await rig.engine.start(launch)
        await rig.end_of(launch.attempt_id)
        logs.append(await read_all(rig.log(launch.attempt_id)))

    play(tmp_path / "home", scenario)
    assert logs == [b"ready\n"]
