"""Every system call of the sandbox trial fails in turn: no task ever runs below the level that was reached before.

The whole set takes minutes: it runs with HOLDFAST_FAULTS=all, otherwise a sample of it.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import itertools
import os
import random
import re
import resource
import shutil
import stat
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.attempt import Observation, ObservedState
from holdfast.engines.base import LogStream
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions
from holdfast.engines.embedded.sandbox import site, trial
from holdfast.engines.embedded.sandbox.bubblewrap import Bwrap, find_bwrap
from holdfast.engines.embedded.sandbox.isolation_level import read_recorded_level
from tests.contracts.engine_contract import Rig, launch, read_all, sweep
from tests.engines.scenarios import health_here, need_isolation

ERRORS = ("ENOSPC", "EPERM", "EINVAL", "EMFILE", "EAGAIN", "ENOMEM", "ENOSYS", "EACCES")
ALL = os.environ.get("HOLDFAST_FAULTS") == "all"
SAMPLE = 20
HANGS_AFTER = 10.0  # seconds
_NUMBERS = itertools.count()

# Faults here say nothing about isolation: they are of the shell, the C library or the trace itself.
_USELESS = frozenset({"exit", "exit_group", "restart_syscall", "rt_sigreturn", "execve"})

SEVERAL = EmbeddedOptions(multi_user=True, sandbox_retry=3600.0)


def need_tracing() -> None:
    need_isolation()
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    if subprocess.run([strace, "-qq", "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
        pytest.skip("processes cannot be traced here")


def chosen(faults: list[Any]) -> list[Any]:
    """All of them, or another sample in each version of this file."""
    return faults if ALL else random.Random(20261116).sample(faults, min(SAMPLE, len(faults)))


# --- what a task says of its own isolation ------------------------------------------------------------------------


def spy_script(home: Path) -> str:
    return f"""set +e
    cat {home}/secret.key 2>/dev/null && echo READ-THE-KEY
    grep -E '^(Seccomp|CapEff|NoNewPrivs):' /proc/self/status
    ls /proc | grep -c '^[0-9]'
    """


async def attempt_task(home: Path) -> tuple[Observation | None, str]:
    """Open an engine as a restarted server would, and try to run a task; what came of it, and what it said."""
    rig = Rig(lambda: EmbeddedEngine(home, SEVERAL))
    try:
        await rig.open()
    except OSError:
        return None, ""  # the server did not even start
    try:
        name = f"task-{next(_NUMBERS)}"
        seen = await rig.engine.start(launch(name, spy_script(home)))
        if seen.seen is ObservedState.RUNNING:
            with suppress(TimeoutError):  # a fault may leave it hanging: what it said until then counts
                seen = await asyncio.wait_for(rig.end_of(name), HANGS_AFTER)
        log = rig.engine.open_log(name, LogStream.STDOUT)
        said = (await read_all(log)).decode(errors="replace") if log is not None else ""
        blocked = bool(rig.engine.get_health().conditions)
        assert not (blocked and said), f"a task ran although the engine says that none may: {said}"
        return seen, said
    finally:
        await sweep(rig.engine, [])
        await rig.close()


def check_isolated(said: str) -> None:
    """A task that ran at all ran in the whole sandbox."""
    assert "READ-THE-KEY" not in said
    if "Seccomp:" in said:
        assert re.search(r"^Seccomp:\t2$", said, re.M), said
        (powers,) = re.findall(r"^CapEff:\t([0-9a-f]+)$", said, re.M)
        assert not int(powers, 16) & (1 << 21 | 1 << 12 | 1 << 27), said  # SYS_ADMIN, NET_ADMIN, MKNOD


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    """A call that failed may leave a descriptor open; thousands of rounds must not run out of them. To close them here
    would be wrong: objects that are still to be collected close theirs too, and by then the number may be another's."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of a server that has isolated tasks before."""
    need_isolation()
    found = tmp_path / "home"
    found.mkdir(0o700)
    (found / "secret.key").write_text("the server's own\n")

    async def once() -> None:
        seen, said = await attempt_task(found)
        assert seen is not None
        assert seen.code == 0, seen.message
        check_isolated(said)
        assert "Seccomp:" in said

    asyncio.run(once())
    assert read_recorded_level(found).isolation is health_here().isolation
    return found


# --- bubblewrap's own system calls --------------------------------------------------------------------------------


def traced(folder: Path, options: str) -> Bwrap:
    real = find_bwrap()
    assert real is not None
    script = folder / "traced-bwrap"
    libraries = f"export LD_LIBRARY_PATH={real.libraries}\n" if real.libraries else ""
    script.write_text(f'#!/bin/sh\n{libraries}exec strace -f -qq {options} {real.path} "$@"\n')
    script.chmod(0o755)
    return Bwrap(path=str(script), exposed=False)


def calls_of_a_trial(folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Each system call of bubblewrap with its number among those of its name, as one process makes them."""
    trace = folder / "trace"
    monkeypatch.setattr(site, "find_bwrap", lambda: traced(folder, f"-o {trace}"))
    asyncio.run(attempt_task(home))
    most: Counter[str] = Counter()
    by_process: Counter[tuple[str, str]] = Counter()
    for line in trace.read_text(errors="replace").splitlines():
        found = re.match(r"(\d+) +(\w+)\(", line)
        if found and found[2] not in _USELESS:
            by_process[found[1], found[2]] += 1
            most[found[2]] = max(most[found[2]], by_process[found[1], found[2]])
    return [(name, number) for name, count in sorted(most.items()) for number in range(1, count + 1)]


@pytest.mark.release
def test_no_fault_of_a_system_call_lowers_the_isolation(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_tracing()
    monkeypatch.setattr(trial, "TRIAL_TIMEOUT", HANGS_AFTER)
    faults = calls_of_a_trial(tmp_path, home, monkeypatch)
    assert {"mount", "clone"} & {name for name, _ in faults}
    pick = random.Random(1)
    outcomes: Counter[str] = Counter()
    for name, number in chosen(faults):
        error = pick.choice(ERRORS)
        options = f"-o /dev/null -e inject={name}:error={error}:when={number}"
        monkeypatch.setattr(site, "find_bwrap", functools.partial(traced, tmp_path, options))
        _, said = asyncio.run(attempt_task(home))
        check_isolated(said)
        outcomes["ran" if "Seccomp:" in said else "held"] += 1
    assert outcomes["held"]


# --- the server's own system calls --------------------------------------------------------------------------------

_PYTHON_CALLS = (
    "open", "mkdir", "mknod", "symlink", "readlink", "rename", "replace", "chmod", "scandir", "memfd_create",
    "sendfile", "write", "waitpid", "unlink", "stat", "lstat",
)  # fmt: skip


class Faults:
    """Makes one call of a trial fail, as the kernel would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.fails_at = 0
        self.error = errno.ENOSPC
        self.armed = False
        for name in _PYTHON_CALLS:
            monkeypatch.setattr(os, name, self._wrap(getattr(os, name)))

    def _wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def called(*words: Any, **named: Any) -> Any:
            if self.armed:
                self.count += 1
                if self.count == self.fails_at:
                    raise OSError(self.error, os.strerror(self.error))
            return call(*words, **named)

        return called


@pytest.mark.release
def test_no_fault_of_the_servers_own_calls_lowers_the_isolation(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults(monkeypatch)
    find = site.find_site

    def faulty(*words: Any) -> site.SandboxSite:
        faults.count, faults.armed = 0, True
        try:
            return find(*words)
        finally:
            faults.armed = False

    monkeypatch.setattr("holdfast.engines.embedded.engine.find_site", faulty)
    asyncio.run(attempt_task(home))
    total = faults.count
    assert total > 20
    pick = random.Random(2)
    for number in chosen(list(range(1, total + 1))):
        faults.fails_at = number
        faults.error = getattr(errno, pick.choice(ERRORS))
        _, said = asyncio.run(attempt_task(home))
        check_isolated(said)
    assert stat.S_ISLNK(os.lstat(home / "isolation").st_mode)
