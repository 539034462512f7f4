"""The script on the page for people who come from OpenPAI works as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

from .place import PASSWORD, place

PAGE = ROOT / "docs" / "how-to" / "coming-from-openpai.md"
ADDRESS = "http://127.0.0.1:8080"


@pytest.mark.release
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_script_logs_in_submits_waits_and_reads_the_log(tmp_path: Path) -> None:
    (script,) = [block.text for block in blocks("sh") if block.page == PAGE and "curl" in block.text]
    assert ADDRESS in script
    with place(tmp_path / "home") as server:
        runs = [_run(script.replace(ADDRESS, server.url)) for _ in range(2)]  # job names are taken for good
        wrong = _run(script.replace(ADDRESS, server.url), password="not-hers")
    for done in runs:
        assert done.returncode == 0, done.stderr
        submitted, state, *log = done.stdout.splitlines()
        assert re.search(r"Update job deployments-\d+-\d+ for user ann successfully\.", submitted)
        assert state == "SUCCEEDED"
        assert log == ["working in /tmp with 512 samples at a time", "done in /tmp"]
    assert wrong.returncode != 0
    assert not wrong.stdout


def _run(script: str, password: str = PASSWORD) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", script],
        env={**os.environ, "PASSWORD": password, "no_proxy": "127.0.0.1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
