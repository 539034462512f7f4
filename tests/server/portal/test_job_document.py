"""Scripts of the portal that need no page, tried by Node itself."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.npm import NODE, fetch_packages

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "src" / "holdfast" / "server" / "portal" / "static" / "js"
VERSION = json.loads((ROOT / "web" / "package.json").read_text())["dependencies"]["yaml"]


def test_the_form_and_the_file_are_one() -> None:
    folder = fetch_packages("yaml", f"yaml@{VERSION}")
    if isinstance(folder, str):
        pytest.skip(folder)
    env = {**os.environ, "YAML": str(folder / "yaml" / "browser" / "index.js"), "SCRIPTS": str(SCRIPTS)}
    test = ROOT / "tests" / "portal" / "js" / "job_document.test.mjs"
    done = subprocess.run([NODE, "--test", test], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
