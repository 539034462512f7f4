"""The program that becomes the image's user."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from holdfast.engines.static_program import FAILURE_CODE
from holdfast.engines.task_user import MAX_ID, TaskUser
from holdfast.engines.user_switch import build_user_switch, supports_user_switch

USER = TaskUser(name="app", uid=70_000, gid=1300, groups=(1300, 7, MAX_ID))


@pytest.fixture
def program() -> Iterator[str]:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with TemporaryDirectory(prefix="hf-switch-") as folder:  # other users cannot read pytest's
        Path(folder).chmod(0o755)
        path = Path(folder, "run-as-user")
        path.write_bytes(build_user_switch(USER, platform.machine()))
        path.chmod(0o755)
        yield str(path)


def run(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, env=env, check=False)


def test_it_becomes_the_user_and_passes_everything_on(program: str) -> None:
    script = 'grep -E "^(Uid|Gid|Groups|Cap(Inh|Prm|Eff|Amb)):" /proc/self/status; echo "$0 $1 $COLOUR"'
    found = run(program, "/bin/sh", "-c", script, "first", "second word", COLOUR="green")
    none = f"{0:016x}"
    assert found.stdout.split("\n") == [
        "Uid:\t" + "\t".join(["70000"] * 4),
        "Gid:\t" + "\t".join(["1300"] * 4),
        f"Groups:\t7 1300 {MAX_ID} ",
        *(f"{kind}:\t{none}" for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb")),
        "first second word green",
        "",
    ]
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.parametrize("env", [{}, {"A": "1", "with.dot": "two words", "B": "\udcff", "LONG": "x" * 100_000}])
def test_it_can_contain_the_environment(program: str, env: dict[str, str]) -> None:
    Path(program).write_bytes(build_user_switch(USER, platform.machine(), env))
    found = subprocess.run([program, "/usr/bin/env", "-0"], capture_output=True, env={"OUTER": "1"}, check=True)
    assert found.stdout == b"".join(os.fsencode(f"{name}={value}\0") for name, value in env.items())


@pytest.mark.parametrize("argv", [["/nowhere"], []])
def test_a_program_that_cannot_be_executed(program: str, argv: list[str]) -> None:
    found = run(program, *argv)
    assert (found.returncode, found.stdout) == (FAILURE_CODE, "")
    assert "image's user" in found.stderr


def test_nothing_runs_without_the_privilege_to_switch(program: str) -> None:
    found = subprocess.run(
        [program, "/bin/sh", "-c", "echo ran"],
        capture_output=True,
        text=True,
        user=7,
        group=7,
        extra_groups=[],
        check=False,
    )
    assert (found.returncode, found.stdout) == (FAILURE_CODE, "")


def test_other_machines_are_not_supported() -> None:
    assert supports_user_switch("x86_64")
    assert supports_user_switch("aarch64")
    assert not supports_user_switch("s390x")
