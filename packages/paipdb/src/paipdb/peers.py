"""Other processes of the task, which can be made to stand while one of them is debugged."""

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
from typing import Iterator, List, Optional

from .task import log


class Peers:
    """With DEBUG_HOLD_PEERS=1, the Python processes that this one's parent started stand while a prompt is open.

    A helper stops them and lets them go on again, also when this process is killed. Where two processes reach a
    breakpoint at a time, the second must not stop the first: whoever has the lock does.
    """

    _HELPER = """if True:
        import os, signal, sys
        def send(number):
            for pid in sys.argv[1:]:
                try:
                    os.kill(int(pid), number)
                except OSError:
                    pass
        send(signal.SIGSTOP)
        sys.stdin.readline()
        send(signal.SIGCONT)
    """

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        pids = self._others() if os.environ.get("DEBUG_HOLD_PEERS", "").lower() in ("1", "yes", "true", "on") else []
        lock = self._locked() if pids else None
        helper = self._helper(pids) if lock is not None else None
        try:
            yield
        finally:
            if helper is not None and helper.stdin is not None:
                with contextlib.suppress(OSError):
                    helper.stdin.write(b"go on\n")
                    helper.stdin.close()
                helper.wait()
            if lock is not None:
                os.close(lock)

    def _others(self) -> List[str]:
        parent = os.getppid()
        with contextlib.suppress(OSError):
            return [pid for pid in os.listdir("/proc") if pid.isdigit() and self._is_peer(pid, parent)]
        return []

    @staticmethod
    def _is_peer(pid: str, parent: int) -> bool:
        try:
            with open(f"/proc/{pid}/stat") as file:
                own_parent = int(file.read().rpartition(")")[2].split()[1])
            program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
            same_user = os.stat(f"/proc/{pid}").st_uid == os.getuid()
        except (OSError, IndexError, ValueError):
            return False
        return own_parent == parent > 1 and int(pid) != os.getpid() and same_user and program.startswith("python")

    @staticmethod
    def _locked() -> Optional[int]:
        name = f"paipdb-peers-{os.getuid()}-{os.getppid()}"
        try:
            lock = os.open(os.path.join(tempfile.gettempdir(), name), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError:
            os.close(lock)
            return None

    def _helper(self, pids: List[str]) -> Optional["subprocess.Popen[bytes]"]:
        command = [sys.executable or "python3", "-I", "-S", "-c", self._HELPER, *pids]
        try:
            helper = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        except OSError as problem:
            log(f"paipdb: the other processes of this task cannot be stopped: {problem}")
            return None
        log("paipdb: processes {} stand until this one goes on".format(", ".join(pids)))
        return helper
