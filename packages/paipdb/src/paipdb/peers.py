"""Pauses the other Python processes of the task while one of them is debugged."""

import contextlib
import os
import subprocess
import sys
import tempfile
from typing import Iterator, Optional

from . import pause_helper
from .task_environment import write_log

_has_logged_pause = False


@contextlib.contextmanager
def pause_peers() -> Iterator[None]:
    """With DEBUG_HOLD_PEERS=1, pause the Python processes with the same parent as this one.

    A helper process does it: if this process is killed, the helper continues them. Peers at a prompt are not paused.
    """
    if os.environ.get("DEBUG_HOLD_PEERS", "").lower() not in ("1", "yes", "true", "on"):
        yield
        return
    folder = tempfile.gettempdir()
    marker = pause_helper.get_marker_path(folder, os.getpid())
    with contextlib.suppress(OSError):
        os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
    helper = _start_helper(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.remove(marker)
        if helper is not None and helper.stdin is not None:
            with contextlib.suppress(OSError):
                helper.stdin.write(b"go on\n")
                helper.stdin.close()
            helper.wait()


def _start_helper(folder: str) -> Optional["subprocess.Popen[bytes]"]:
    global _has_logged_pause
    command = [
        sys.executable or "python3",
        "-I",
        "-S",
        pause_helper.__file__,
        folder,
        str(os.getpid()),
        str(os.getppid()),
    ]
    null = subprocess.DEVNULL
    try:
        helper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True)
    except OSError as error:
        write_log(f"paipdb: the other processes of this task cannot be made to stand: {error}")
        return None
    if not _has_logged_pause:
        _has_logged_pause = True
        write_log("paipdb: the other Python processes of this task stand while this one does")
    return helper
