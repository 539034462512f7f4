"""A separate program that pauses the peers of a process at its prompt with SIGSTOP, and continues them afterwards.

Peers are the Python processes of the same user and parent. If several of them are at prompts, each has a helper. Only
the helper that has the lock acts; the others wait for its end. A process at a prompt has a marker file and is not
paused.
"""

import contextlib
import fcntl
import os
import select
import signal
import sys
from typing import List, Set

_POLL_INTERVAL = 0.1  # seconds


def get_marker_path(folder: str, pid: int) -> str:
    return os.path.join(folder, f"paipdb-stands-{os.getuid()}-{pid}")


def main(folder: str, pid: int, parent_pid: int) -> None:
    """Pause peers until a line or the end of input is read: the process continues, or has ended."""
    lock = os.open(os.path.join(folder, f"paipdb-peers-{os.getuid()}-{parent_pid}"), os.O_RDWR | os.O_CREAT, 0o600)
    paused: Set[int] = set()
    has_lock = False
    try:
        while True:
            has_lock = has_lock or _try_lock(lock)
            if has_lock:
                for peer in _list_peers(pid, parent_pid):
                    _pause_or_continue(peer, os.path.exists(get_marker_path(folder, peer)), paused)
            if select.select([0], [], [], _POLL_INTERVAL)[0]:
                return
    finally:
        for peer in paused:
            _send_signal(peer, signal.SIGCONT)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


def _pause_or_continue(peer: int, is_marked: bool, paused: Set[int]) -> None:
    if not is_marked:
        paused.add(peer)
        _send_signal(peer, signal.SIGSTOP)
    elif peer in paused:
        paused.remove(peer)
        _send_signal(peer, signal.SIGCONT)


def _send_signal(pid: int, signal_number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal_number)


def _list_peers(pid: int, parent_pid: int) -> List[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [other for other in pids if other != pid and parent_pid > 1 and _is_peer(other, parent_pid)]


def _is_peer(pid: int, parent_pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            actual_parent_pid = int(file.read().rpartition(")")[2].split()[1])
        return (
            actual_parent_pid == parent_pid
            and os.stat(f"/proc/{pid}").st_uid == os.getuid()
            and os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python")
        )
    except (OSError, IndexError, ValueError):
        return False


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
