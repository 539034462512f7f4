"""The small programs that nodes run for isolated tasks."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.engines.embedded.sandbox.render import CAPABILITIES
from holdfast.engines.embedded.sandbox.seccomp import build_seccomp_filter
from holdfast.engines.slurm.isolation.confinement import RESTORED_SIGNALS, build_join_program, build_start_program
from holdfast.engines.static_program import SUPPORTED_MACHINES

needs_machine = pytest.mark.skipif(
    platform.machine() not in SUPPORTED_MACHINES, reason="these programs are not built for this machine"
)


def ignore_signals() -> None:
    for number in RESTORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def run(tmp_path: Path, program: bytes, *command: str, prepare: Callable[[], None] | None = None) -> str:
    path = tmp_path / "program"
    path.write_bytes(program)
    path.chmod(0o555)
    ended = subprocess.run([path, *command], capture_output=True, text=True, preexec_fn=prepare, timeout=30)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def read_field(status: str, name: str) -> int:
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith(f"{name}:")), 16)


@needs_machine
def test_signals_that_were_ignored_have_their_defaults_again(tmp_path: Path) -> None:
    program = build_start_program(platform.machine())
    status = run(tmp_path, program, "/bin/cat", "/proc/self/status", prepare=ignore_signals)
    assert not any(read_field(status, "SigIgn") >> number - 1 & 1 for number in RESTORED_SIGNALS)


@needs_machine
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up")
def test_a_session_of_root_keeps_only_the_capabilities_of_a_task(tmp_path: Path) -> None:
    program = build_join_program(platform.machine(), CAPABILITIES, b"")
    status = run(tmp_path, program, "/bin/cat", "/proc/self/status")
    allowed = 0b1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 18 | 1 << 31
    assert read_field(status, "CapBnd") == read_field(status, "CapPrm") == allowed
    assert read_field(status, "NoNewPrivs") == 1


@needs_machine
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may create a namespace in every setup")
def test_a_session_has_the_system_call_filter(tmp_path: Path) -> None:
    seccomp = build_seccomp_filter(platform.machine())
    assert seccomp is not None
    program = build_join_program(platform.machine(), (), seccomp)
    path = tmp_path / "program"
    path.write_bytes(program)
    path.chmod(0o555)
    assert subprocess.run([path, "/usr/bin/unshare", "-U", "true"], capture_output=True).returncode != 0
    assert read_field(run(tmp_path, program, "/bin/cat", "/proc/self/status"), "Seccomp") == 2


@pytest.mark.parametrize("machine", SUPPORTED_MACHINES)
def test_every_machine_has_its_programs(machine: str) -> None:
    seccomp = build_seccomp_filter(machine) or b""
    for program in (build_start_program(machine), build_join_program(machine, CAPABILITIES, seccomp)):
        assert program.startswith(b"\x7fELF")
        assert b"cannot run the command in the sandbox" in program
