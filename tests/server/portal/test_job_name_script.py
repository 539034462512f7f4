"""The name in a job file, as scripts read and write it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.npm import NODE

TEST = Path(__file__).parents[2] / "portal" / "js" / "job_name.test.mjs"


def test_the_name_in_a_job_file() -> None:
    done = subprocess.run([NODE, "--test", TEST], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
