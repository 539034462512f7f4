"""Runs tests where there seem to be two GPUs: device nodes in a /dev of their own, a small NVML, and a hook for Docker
that gives containers the nodes they asked for, as NVIDIA's does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COUNT = 2
TIMEOUT = 250  # seconds

_DEV = """
set -e
mount --make-rprivate /
mkdir "$1/dev"
mount -t tmpfs -o mode=755 none "$1/dev"
for name in null zero full random urandom tty; do cp -a "/dev/$name" "$1/dev/"; done
for name in fd stdin stdout stderr ptmx fuse loop-control; do cp -a "/dev/$name" "$1/dev/" 2>/dev/null || :; done
for name in pts shm mqueue; do
    [ ! -d "/dev/$name" ] || { mkdir "$1/dev/$name" && mount --rbind "/dev/$name" "$1/dev/$name"; }
done
for name in nvidia0 nvidia1 nvidiactl; do mknod -m 666 "$1/dev/$name" c 1 3; done
mount --move "$1/dev" /dev
shift
exec "$@"
"""

# Called before a container starts, in the machine's namespaces, with the container's state on stdin.
_HOOK = """#!{python} -IS
import json, subprocess, sys
state = json.load(sys.stdin)
config = json.load(open(state["bundle"] + "/config.json"))
env = dict(line.split("=", 1) for line in config["process"]["env"])
enter = ["nsenter", "-t", str(state["pid"]), "-m"]
for name in [*env["NVIDIA_VISIBLE_DEVICES"].split(","), "ctl"]:
    path = config["root"]["path"] + "/dev/nvidia" + name
    subprocess.run([*enter, "mknod", "-m", "666", path, "c", "1", "3"], check=True)
"""


def run_with_fake_gpus(folder: Path, *tests: str) -> None:
    """Run some tests in a pytest of their own; they must pass."""
    if os.geteuid() != 0:
        pytest.skip("only root can make device nodes")
    for program in ("cc", "unshare", "nsenter"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    hook = bin_folder / "nvidia-container-runtime-hook"
    hook.write_text(_HOOK.format(python=os.path.realpath(sys.executable)))
    hook.chmod(0o755)
    source = ROOT / "tests" / "engines" / "nvml.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(source)], check=True)
    (folder / "mode").write_text("fine")
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "", "-ra", *tests]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", _DEV, "sh", str(folder), *pytest_command, f"--basetemp={folder}/t"],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": str(folder),
            "FAKE_NVML": str(folder / "mode"),
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "SKIPPED" not in done.stdout, done.stdout[-3000:]
