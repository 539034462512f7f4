"""A wheel holds every file that the package reads."""

from __future__ import annotations

import subprocess
import tomllib

import pytest

from .pages import ROOT

PACKAGE = ROOT / "src" / "holdfast"


def test_every_data_file_is_package_data() -> None:
    """Those that git knows: the others are built, or left by a run."""
    listed = subprocess.run(["git", "ls-files", "-z", "."], cwd=PACKAGE, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this is not a git checkout")
    tracked = {name for name in listed.stdout.decode().split("\0") if name and not name.endswith(".py")}
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = config["tool"]["setuptools"]["package-data"]["holdfast"]
    globs = [f"{pattern}/*" if pattern.endswith("**") else pattern for pattern in patterns]
    assert tracked - {path.relative_to(PACKAGE).as_posix() for glob in globs for path in PACKAGE.glob(glob)} == set()
