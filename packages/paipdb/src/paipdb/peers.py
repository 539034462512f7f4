"""Other processes of the task, which can be made to stand while one of them is debugged."""

import contextlib
import os
import subprocess
import sys
import tempfile
from typing import Iterator, Optional

from . import standstill
from .task import log

_told = False


@contextlib.contextmanager
def peers_held() -> Iterator[None]:
    """With DEBUG_HOLD_PEERS=1, the Python processes that this one's parent started stand meanwhile.

    A helper sees to it, which outlives this process if that is killed. Whoever is at a prompt itself is left alone.
    """
    if os.environ.get("DEBUG_HOLD_PEERS", "").lower() not in ("1", "yes", "true", "on"):
        yield
        return
    folder = tempfile.gettempdir()
    mark = standstill.mark_of(folder, os.getpid())
    with contextlib.suppress(OSError):
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
    helper = _start_helper(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.remove(mark)
        if helper is not None and helper.stdin is not None:
            with contextlib.suppress(OSError):
                helper.stdin.write(b"go on\n")
                helper.stdin.close()
            helper.wait()


def _start_helper(folder: str) -> Optional["subprocess.Popen[bytes]"]:
    global _told
    program = [
        sys.executable or "python3",
        "-I",
        "-S",
        standstill.__file__,
        folder,
        str(os.getpid()),
        str(os.getppid()),
    ]
    null = subprocess.DEVNULL
    try:
        helper = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True)
    except OSError as problem:
        log(f"paipdb: the other processes of this task cannot be made to stand: {problem}")
        return None
    if not _told:
        _told = True
        log("paipdb: the other Python processes of this task stand while this one does")
    return helper
