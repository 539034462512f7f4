"""Scripts of the log view, of the debugger and of charts that need no page: tried with Node."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.npm import NODE

FOLDER = Path(__file__).with_name("js")


@pytest.mark.parametrize("name", ["ansi", "charts_data", "debugger_stream", "log_lines", "log_search"])
def test_scripts(name: str) -> None:
    done = subprocess.run([NODE, "--test", FOLDER / f"{name}.test.mjs"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-5000:]
