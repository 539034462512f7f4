"""The package @microsoft/openpai-js-sdk as it was published, for tests that run OpenPAI's own client.

Where npm reaches no registry, these tests are skipped and say so.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.npm import NODE, TIMEOUT, fetch_packages

PACKAGE, VERSION = "@microsoft/openpai-js-sdk", "0.1.5"
_FOR_ITS_TESTS = ("mocha@8", "chai@4", "dirty-chai@2", "nock@12", "ajv@6")
SCRIPTS = Path(__file__).parent / "js"


def run_script(name: str, server: str, **given: Any) -> Any:
    """What js/<name>.js says about `server`; `given` reaches it as JSON."""
    done = run_node(str(SCRIPTS / f"{name}.js"), env={"PAI_URI": server, "GIVEN": json.dumps(given)})
    assert done.returncode == 0, f"{name}.js:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return json.loads(done.stdout)


def run_node(*words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """`words` are Node's arguments. Proxies are for the way to a registry, not to our own server."""
    quiet = {"NODE_PATH": str(sdk_folder()), "NODE_OPTIONS": "--no-deprecation", "NO_PROXY": "127.0.0.1"}
    surroundings = {**os.environ, **quiet, **env}
    return subprocess.run([NODE, *words], env=surroundings, capture_output=True, text=True, timeout=TIMEOUT)


def sdk_folder() -> Path:
    """node_modules with the package in it."""
    found = _fetched()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@cache
def _fetched() -> Path | str:
    return fetch_packages("openpai", f"{PACKAGE}@{VERSION}", *_FOR_ITS_TESTS)
