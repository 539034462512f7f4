from __future__ import annotations

import json
import shlex
from pathlib import PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer import BadParameter

from holdfast.cli.jobs.job_options import (
    JobOptions,
    compose_job,
    derive_job_name,
    join_shell_command,
    make_mount_absolute,
)
from holdfast.jobspec import parse_job

HOME = PurePosixPath("/home/ann")

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # other work goes on beside it


def test_only_what_was_asked_for_is_said() -> None:
    assert compose_job(["true"], JobOptions(), HOME) == {"name": "true", "command": "true"}


def test_everything_that_can_be_asked_for_is_understood_by_the_server() -> None:
    options = JobOptions(
        image="host",
        cpu=0.5,
        memory="512Mi",
        gpu=1,
        env=["A=1", "B=x=y"],
        mount=["/data", "/in:/out:rw"],
        instances=2,
        time_limit="2h",
        retry=3,
        priority=5,
        files=True,
    )
    job = compose_job(["python", "train.py", "--lr", "0.1"], options, HOME)
    found = parse_job(json.dumps(job)).job
    role = found.roles[0]
    assert (found.name, role.commands, role.instances) == ("python-train", ("python train.py --lr 0.1",), 2)
    assert (role.resources.cpu, role.resources.memory, role.resources.gpu) == (0.5, 512 << 20, 1)
    assert role.env["B"] == "x=y"
    assert [(mount.target, mount.read_only) for mount in role.mounts] == [("/data", True), ("/out", False)]
    assert (found.max_retries, found.priority, found.files) == (3, 5, True)


def test_a_zero_is_sent() -> None:
    job = compose_job(["true"], JobOptions(cpu=0, gpu=0, retry=0, priority=0), HOME)
    assert (job["resources"], job["retry"], job["priority"]) == ({"cpu": 0, "gpu": 0}, 0, 0)


def test_one_argument_is_shell_text_and_several_are_words() -> None:
    assert join_shell_command(["echo a && echo b"]) == "echo a && echo b"
    assert join_shell_command(["echo", "a b", "$HOME"]) == "echo 'a b' '$HOME'"


@unhurried
@given(st.lists(st.text(), min_size=2))
def test_words_arrive_as_they_were(words: list[str]) -> None:
    assert shlex.split(join_shell_command(words)) == words


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/python3", "train.py"], "python3-train"),
        (["echo hello && ls"], "echo-hello"),
        (["ls", "-l"], "ls"),
        (["$(evil)"], "job"),
    ],
)
def test_a_job_is_named_after_its_program(command: list[str], name: str) -> None:
    assert derive_job_name(command) == name


def test_a_variable_needs_a_value() -> None:
    with pytest.raises(BadParameter, match="NAME=VALUE"):
        compose_job(["true"], JobOptions(env=["JUSTANAME"]), HOME)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (".", "/home/ann"),
        ("data:/data", "/home/ann/data:/data"),
        ("../bob/in:/in:rw", "/home/bob/in:/in:rw"),
        ("/data:/in:ro", "/data:/in:ro"),
        (":/in", ":/in"),
    ],
)
def test_a_mount_is_seen_from_where_one_stands(written: str, meant: str) -> None:
    assert make_mount_absolute(written, PurePosixPath("/home/ann")) == meant
