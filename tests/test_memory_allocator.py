"""A server's allocator keeps nothing that its threads have freed. In a process of its own: it cannot be undone."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

_PROGRAM = """
import sys, threading
from pathlib import Path
from holdfast.memory_allocator import configure_allocator

if sys.argv[1] == "limited":
    configure_allocator()

def anonymous_bytes():
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) * 1024

def work(barrier):
    barrier.wait()
    for _ in range(3):
        bytearray(b"x" * (20 << 20))  # as much as the check of a password takes
    barrier.wait()

before = anonymous_bytes()
barrier = threading.Barrier(5)
threads = [threading.Thread(target=work, args=(barrier,)) for _ in range(4)]
for thread in threads:
    thread.start()
barrier.wait()
barrier.wait()
print(anonymous_bytes() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")
def test_large_blocks_are_returned() -> None:
    assert _keep("limited") < 10 << 20
    assert _keep("default") > 20 << 20  # else there would be nothing to limit


def _keep(mode: str) -> int:
    """Bytes that are still in memory after everything was freed."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM, mode], capture_output=True, text=True, check=True)
    return int(done.stdout)
