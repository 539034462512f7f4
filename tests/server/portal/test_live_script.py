"""How live pages pace themselves, tried by Node itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.npm import NODE

TEST = Path(__file__).parents[2] / "portal" / "js" / "live_logic.test.mjs"


def test_what_a_live_page_decides() -> None:
    done = subprocess.run([NODE, "--test", TEST], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
