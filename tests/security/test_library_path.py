"""Libraries that another user of the machine puts near the server's folders are loaded by nothing of the server's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.engines.base import Isolation
from holdfast.engines.embedded.sandbox.bubblewrap import find_bwrap
from tests.engines.scenarios import health_here, need_isolation
from tests.engines.test_modes import ASK, ROOT

LIBRARIES = ".bwrap-libraries"


def test_libraries_are_looked_for_in_the_servers_own_folder_only(tmp_path: Path) -> None:
    bwrap = find_bwrap()
    if bwrap is None or not bwrap.exposed or not bwrap.libraries:
        pytest.skip("bubblewrap runs as it is installed here")
    assert bwrap.prepare_library_env(str(tmp_path)) == {"LD_LIBRARY_PATH": f"{tmp_path}/{LIBRARIES}"}
    assert str((tmp_path / LIBRARIES).readlink()) == bwrap.libraries
    relative = bwrap.prepare_library_env(os.path.relpath(tmp_path))["LD_LIBRARY_PATH"]
    assert relative == f"{tmp_path}/{LIBRARIES}"


def test_planted_libraries_do_not_reach_the_sandbox(tmp_path: Path) -> None:
    """A library that is none makes each program fail that loads it."""
    need_isolation()
    deep = tmp_path / "1" / "2" / "3" / "4"
    deep.mkdir(parents=True)
    for folder in (tmp_path, *(tmp_path / part for part in ("1", "1/2", "1/2/3", "1/2/3/4"))):
        (folder / LIBRARIES).mkdir()
        for name in ("libc.so.6", "libcap.so.2"):
            (folder / LIBRARIES / name).write_text("no library")
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(deep / "home")],
        cwd=deep,
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
    )
    assert done.returncode == 0, done.stderr
    assert health_here().isolation is not Isolation.NONE
    assert f'"{health_here().isolation}"' in done.stdout
    assert ", 3, " in done.stdout  # the exit code of a task that ran
