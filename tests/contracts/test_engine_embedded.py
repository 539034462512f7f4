"""The embedded engine keeps the contract: as whoever runs the tests, as an ordinary user, and without namespaces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.engines.base import Engine
from holdfast.engines.embedded import EmbeddedEngine, EmbeddedOptions

from .engine_contract import EngineContract

ORDINARY = 12345  # a user id that owns nothing


class TestSandboxed(EngineContract):
    """In the best sandbox this user can have."""

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"

    def make(self) -> Engine:
        return EmbeddedEngine(self.home, EmbeddedOptions())


class TestPlain(EngineContract):
    """Without any sandbox."""

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"

    def make(self) -> Engine:
        return EmbeddedEngine(self.home, EmbeddedOptions(isolation="off"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user; the tests above ran as one")
def test_an_ordinary_user_has_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    run_as_ordinary_user(f"{__file__}::TestSandboxed", tmp_path_factory)


def run_as_ordinary_user(tests: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    base = Path("/tmp") / f"holdfast-tests-{os.getpid()}"
    base.mkdir()
    os.chown(base, ORDINARY, ORDINARY)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--basetemp={base}/t", tests]
    try:
        done = subprocess.run(
            command,
            user=ORDINARY,
            group=ORDINARY,
            extra_groups=(),
            env={"PATH": os.environ["PATH"], "HOME": str(base), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=200,
        )
    finally:
        subprocess.run(["rm", "-rf", str(base)], check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
