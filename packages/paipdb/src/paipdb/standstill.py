"""A program of its own, beside a process that is at its prompt: makes that one's peers stand, and go on again.

Peers are the Python processes of the same user and parent. One such helper at a time is in charge: the others, of peers
that are at prompts as well, wait for its end. Processes at prompts are marked, and not stopped: they stand already.
"""

import contextlib
import fcntl
import os
import select
import signal
import sys
from typing import List, Set

_PAUSE = 0.1  # seconds between two looks


def mark_of(folder: str, pid: int) -> str:
    return os.path.join(folder, f"paipdb-stands-{os.getuid()}-{pid}")


def main(folder: str, pid: int, parent: int) -> None:
    """Until a line comes in, or the end of the input: the process goes on, or is no more."""
    lock = os.open(os.path.join(folder, f"paipdb-peers-{os.getuid()}-{parent}"), os.O_RDWR | os.O_CREAT, 0o600)
    stopped: Set[int] = set()
    in_charge = False
    try:
        while True:
            in_charge = in_charge or _locked(lock)
            if in_charge:
                for peer in _peers(pid, parent):
                    _see_to(peer, os.path.exists(mark_of(folder, peer)), stopped)
            if select.select([0], [], [], _PAUSE)[0]:
                return
    finally:
        for peer in stopped:
            _send(peer, signal.SIGCONT)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


def _see_to(peer: int, is_marked: bool, stopped: Set[int]) -> None:
    if not is_marked:
        stopped.add(peer)
        _send(peer, signal.SIGSTOP)
    elif peer in stopped:
        stopped.remove(peer)
        _send(peer, signal.SIGCONT)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def _peers(pid: int, parent: int) -> List[int]:
    found = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [each for each in found if each != pid and parent > 1 and _is_peer(each, parent)]


def _is_peer(pid: int, parent: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            own_parent = int(file.read().rpartition(")")[2].split()[1])
        return (
            own_parent == parent
            and os.stat(f"/proc/{pid}").st_uid == os.getuid()
            and os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python")
        )
    except (OSError, IndexError, ValueError):
        return False


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
