"""The script on the page for people who come from OpenPAI works as it stands there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

from .place import PASSWORD, place

PAGE = ROOT / "docs" / "how-to" / "coming-from-openpai.md"
ADDRESS = "http://127.0.0.1:8080"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_script_logs_in_submits_waits_and_reads_the_log(tmp_path: Path) -> None:
    (script,) = [block.text for block in blocks("sh") if block.page == PAGE and "curl" in block.text]
    assert ADDRESS in script
    with place(tmp_path / "home") as server:
        done = subprocess.run(
            ["sh", "-eu", "-c", script.replace(ADDRESS, server.url)],
            env={**os.environ, "PASSWORD": PASSWORD, "no_proxy": "127.0.0.1"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    submitted, state, *log = done.stdout.splitlines()
    assert "Update job deployments for user ann successfully." in submitted
    assert state == "SUCCEEDED"
    assert log == ["working in /tmp with 512 samples at a time", "done in /tmp"]
