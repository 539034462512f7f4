"""Runtime plugins of OpenPAI jobs, on a real engine with real programs."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.job import Job, Mount
from holdfast.core.volumes import HostFolder
from holdfast.engines.sandbox_paths import SEARCH_PATH
from holdfast.jobspec.openpai_prerequisites import SUPPORTED_PLUGINS
from holdfast.launching.openpai.plugins import _STEP_MAKERS
from tests.contracts.engine_contract import Rig, read_all
from tests.engines.scenarios import play

from .scene import Ran, launch_of, run, v2_job, with_plugins

needs_git = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


def test_files_are_checked_for_the_plugins_that_there_are() -> None:
    assert set(SUPPORTED_PLUGINS) == set(_STEP_MAKERS)


def cmd(before: list[str], after: list[str], **more: Any) -> dict[str, Any]:
    return {"plugin": "cmd", "parameters": {"preCommands": before, "postCommands": after}, **more}


def test_commands_of_plugins_run_around_the_jobs_in_order_and_back(tmp_path: Path) -> None:
    job = with_plugins(
        ["echo run ${x-no}"],
        cmd(["x=1; export x", "echo first"], ["echo last"]),
        cmd(["echo second $PAI_TASK_INDEX"], ["echo next to last"]),
    )
    ran = run(tmp_path, job)
    assert (ran.code, ran.out) == (0, "first\nsecond 0\nrun no\nnext to last\nlast\n"), ran.err


def test_nothing_runs_after_commands_that_failed(tmp_path: Path) -> None:
    ran = run(tmp_path, with_plugins(["exit 6"], cmd(["echo before"], ["echo after"])))
    assert (ran.code, ran.out) == (6, "before\n"), ran.err


def test_a_plugin_that_fails_ends_the_task_with_its_code(tmp_path: Path) -> None:
    ran = run(tmp_path, with_plugins(["echo run"], cmd(["echo before", "(exit 7)", "echo never"], ["echo after"])))
    assert (ran.code, ran.out) == (7, "before\n"), ran.err
    assert "[ERROR] The runtime plugin cmd failed with code 7." in ran.err


def test_a_plugin_whose_failure_is_ignored_goes_on(tmp_path: Path) -> None:
    call = cmd(["echo before", "(exit 7)", "echo on", "exit 8"], ["exit 9"], failurePolicy="ignore")
    ran = run(tmp_path, with_plugins(["echo run"], call))
    assert (ran.code, ran.out) == (0, "before\non\nrun\n"), ran.err
    assert "failed with code 8; the job ignores it" in ran.err


def test_what_runs_after_may_fail_the_task(tmp_path: Path) -> None:
    ran = run(tmp_path, with_plugins(["echo run"], cmd([], ["exit 9"])))
    assert (ran.code, ran.out) == (9, "run\n"), ran.err


def test_callbacks_and_prerequisites_are_another_way_to_say_it(tmp_path: Path) -> None:
    callbacks = [{"event": "taskStarts", "commands": ["echo starts"]}]
    callbacks.append({"event": "taskSucceeds", "commands": ["echo succeeds"]})
    plugin = {"type": "script", "name": "s", "plugin": "com.microsoft.pai.runtimeplugin.cmd", "callbacks": callbacks}
    job = v2_job(["echo run"], role={"prerequisites": ["s"]}, prerequisites=[plugin])
    assert run(tmp_path, job).out == "starts\nrun\nsucceeds\n"


def test_parameters_are_filled_in_from_everything(tmp_path: Path) -> None:
    written = "cat <<'EOT'\n<% $parameters.a.b %>|<% $secrets.s %>|<% $data.uri[0] %>|<% $no %>|\nEOT"
    job = with_plugins(
        ["true"],
        cmd([written], []),
        parameters={"a": {"b": 5}},
        secrets={"s": "&'\""},
        prerequisites=[{"type": "data", "name": "d", "uri": ["/data"]}],
        role={"data": "d"},
    )
    ran = run(tmp_path, job)
    assert ran.out == "5|&'\"|/data||\n", ran.err


def test_a_plugin_is_for_the_roles_it_names() -> None:
    role = {"dockerImage": "image", "resourcePerInstance": {"cpu": 1, "memoryMB": 1, "gpu": 0}, "commands": ["true"]}
    calls = [cmd(["echo for-ps"], [], taskroles=["ps"]), cmd(["echo for-all"], [])]
    job = with_plugins(["true"], *calls, taskRoles={"worker": role, "ps": role})
    worker, ps = launch_of(job, 0).entry, launch_of(job, 1).entry
    assert ("echo for-ps" in worker.rpartition("__step()")[2], "echo for-all" in worker) == (False, True)
    assert "echo for-ps" in ps.rpartition("__step()")[2]


@pytest.mark.release_after(2)
@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"plugin": "hdfs"}, "The runtime plugin hdfs cannot run: it is not supported"),
        ({"plugin": "it's $(x)"}, "The runtime plugin it's $(x) cannot run"),
        ({"plugin": "cmd", "parameters": {"preCommands": "echo"}}, "preCommands must be a list"),
        ({"plugin": "cmd", "parameters": {"callbacks": [{"event": "x"}]}}, "taskStarts and taskSucceeds"),
        ({"plugin": "cmd", "parameters": {"callbacks": [{"event": []}]}}, "taskStarts and taskSucceeds"),
        ({"plugin": "git", "parameters": {"clone_dir": "x"}}, "repo_uri must be text"),
        ({"plugin": "tensorboard", "parameters": {"port": "x"}}, "port must be a whole number"),
        ({"plugin": "tensorboard", "parameters": {"port": 9}}, "logdir must be a mapping"),
    ],
)
def test_a_plugin_that_cannot_run_fails_the_task_and_says_why(tmp_path: Path, call: dict[str, Any], words: str) -> None:
    ran = run(tmp_path / "a", with_plugins(["echo run"], call))
    assert (ran.code, ran.out) == (1, "")
    assert words in ran.err
    ignored = run(tmp_path / "b", with_plugins(["echo run"], {**call, "failurePolicy": "ignore"}))
    assert (ignored.code, ignored.out) == (0, "run\n")
    assert words in ignored.err


def test_references_that_stand_for_too_much_are_not_filled_in(tmp_path: Path) -> None:
    much = {"preCommands": ["<% $parameters.x %>" * 1000]}
    ran = run(tmp_path, with_plugins(["echo run"], {"plugin": "cmd", "parameters": much}, parameters={"x": "x" * 5000}))
    assert (ran.code, ran.out) == (1, "")
    assert "its parameters exceed" in ran.err


@pytest.mark.release
def test_many_plugins_together_cannot_stand_for_too_much(tmp_path: Path) -> None:
    """Each is short enough by itself; all of them would not fit into memory."""
    call = cmd(["x=<% $parameters.x %>", "echo $#"], [], failurePolicy="ignore")
    job = with_plugins(["echo run"], *[call] * 99, parameters={"x": "x" * 900_000})
    assert len(launch_of(job).entry) < 10_000_000
    assert (ran := run(tmp_path, job)).out == "0\n" * 4 + "run\n", ran.err
    assert ran.err.count("its parameters exceed") == 95


def test_more_plugins_than_a_task_can_have_fail_it(tmp_path: Path) -> None:
    ran = run(tmp_path, with_plugins(["echo run"], *[cmd(["true"], [], failurePolicy="ignore")] * 101))
    assert (ran.code, ran.out) == (1, "")
    assert "The runtime plugin cmd cannot run: the job has 101 plugins; the limit is 100." in ran.err


def test_ssh_is_set_up_once() -> None:
    call = {"plugin": "ssh", "parameters": {"jobssh": True}}
    entry = launch_of(with_plugins(["true"], call, call), job_seed=b"s" * 32).entry
    assert "The runtime plugin ssh cannot run: the task already has this plugin." in entry


def test_a_stop_while_a_plugin_runs_starts_nothing_more(tmp_path: Path) -> None:
    job = with_plugins(["echo run"], cmd(["echo up", "sleep 600", "echo on"], [], failurePolicy="ignore"))
    launch = replace(launch_of(job), ports={})

    async def scenario(rig: Rig) -> None:
        await rig.engine.start(launch)
        log = rig.log(launch.attempt_id)
        while b"up" not in await read_all(log):
            await log.wait_for_growth(await log.get_size(), 1.0)
        await rig.engine.stop(launch.attempt_id, 500.0)
        assert (await rig.end_of(launch.attempt_id)).code == 143
        assert await read_all(log) == b"up\n"

    play(tmp_path, scenario)


def test_storages_are_no_plugin_here(tmp_path: Path) -> None:
    job = with_plugins(["echo run"], {"plugin": "teamwise_storage", "parameters": {"storageConfigNames": ["s"]}})
    assert run(tmp_path, job).out == "run\n"


# -- git


def repository(folder: Path) -> Path:
    work, bare = folder / "work", folder / "it's a.git"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y"]
    subprocess.run([*git, "init", "-q", "-b", "main", str(work)], check=True)
    (work / "file").write_text("content\n")
    subprocess.run([*git, "add", "."], cwd=work, check=True)
    subprocess.run([*git, "commit", "-qm", "first"], cwd=work, check=True)
    subprocess.run([*git, "commit", "-qm", "second", "--allow-empty"], cwd=work, check=True)
    subprocess.run([*git, "clone", "-q", "--bare", str(work), str(bare)], check=True)
    return bare


def with_mount(job: Job, source: Path) -> Job:
    mount = Mount(volume=HostFolder(str(source)), target="/repository")
    return replace(job, roles=(replace(job.roles[0], mounts=(mount,)),))


@needs_git
def test_a_repository_is_cloned_before_the_commands(tmp_path: Path) -> None:
    bare = repository(tmp_path)
    call = {
        "plugin": "git",
        "parameters": {
            "repo_uri": "file:///repository",
            "options": ["--depth 1", "--branch=main", "-c", "safe.directory=*"],
            "clone_dir": "~/some where/code",
        },
    }
    trust = cmd(["git config --global safe.directory '*'"], [])  # git trusts no folder of another user
    job = with_plugins(["cat ~/'some where/code/file'", "git -C ~/'some where/code' log --format=%s"], trust, call)
    ran = run(tmp_path / "home", with_mount(job, bare))
    assert (ran.code, ran.out) == (0, "content\nsecond\n"), ran.err


@pytest.mark.release
@needs_git
def test_cloning_is_tried_again(tmp_path: Path) -> None:
    """The repository comes only when the plugin pauses after its first try."""
    bare = repository(tmp_path)
    pausing = "until grep -qsx sleep /proc/[0-9]*/comm; do :; done"
    late = cmd([f"({pausing}; cp -r /repository /tmp/late.new; mv /tmp/late.new /tmp/late) >&2 &"], [])
    call = {"plugin": "git", "parameters": {"repo_uri": "/tmp/late", "clone_dir": "code"}}
    ran = run(tmp_path / "home", with_mount(with_plugins(["cat code/file"], late, call), bare))
    assert (ran.code, ran.out) == (0, "content\n"), ran.err
    assert "Cannot clone the repository; retrying in 1 seconds" in ran.err


@needs_git
def test_nothing_is_cloned_over_what_is_there(tmp_path: Path) -> None:
    call = {"plugin": "git", "parameters": {"repo_uri": "file:///nowhere", "clone_dir": "/tmp/there"}}
    ran = run(tmp_path, with_plugins(["echo run"], cmd(["mkdir /tmp/there", "touch /tmp/there/x"], []), call))
    assert (ran.code, ran.out) == (1, "")
    assert "cannot clone to /tmp/there: it already exists" in ran.err


# -- tensorboard


def tensorboard(folder: Path, tasks: int = 1, number: int = 0, **parameters: Any) -> Ran:
    """A program of that name says how it was called; the commands wait for it where it should come."""
    program = folder / "bin" / "tensorboard"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >/tmp/args.new; mv /tmp/args.new /tmp/args; exec sleep 600\n')
    program.chmod(0o755)
    wait = "until [ -e /tmp/args ]; do sleep 0.05; done; cat /tmp/args" if number == 0 else "ls /tmp/args || :"
    call = {"plugin": "tensorboard", "parameters": {"port": 26_006, **parameters}}
    job = with_plugins([wait], call, role={"instances": tasks})
    launch = launch_of(job, number)
    mount = Mount(volume=HostFolder(str(program.parent)), target="/tmp/tools")
    env = {**launch.env, "PATH": f"/tmp/tools:{SEARCH_PATH}"}
    return run(folder / "home", replace(launch, mounts=(mount,), env=env))


def test_tensorboard_runs_beside_the_first_task(tmp_path: Path) -> None:
    ran = tensorboard(tmp_path, logdir={"default": "/tmp/the logs"})
    assert (ran.code, ran.out) == (0, "--logdir=/tmp/the logs\n--port=26006\n--bind_all\n"), ran.err
    assert "Starting TensorBoard on port 26006" in ran.err


def test_tensorboard_knows_several_folders_by_label(tmp_path: Path) -> None:
    ran = tensorboard(tmp_path, logdir={"a": "/tmp/a", "b": "/tmp/b"})
    assert ran.out.startswith("--logdir_spec=a:/tmp/a,b:/tmp/b\n"), ran.err


def test_tensorboard_runs_in_no_other_task(tmp_path: Path) -> None:
    ran = tensorboard(tmp_path, tasks=2, number=1, logdir={"default": "/tmp/logs"})
    assert (ran.code, ran.out) == (0, ""), ran.err
    assert "TensorBoard" not in ran.err
