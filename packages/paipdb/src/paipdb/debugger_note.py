"""The debugger's note to the platform: a file in the task's notes folder. Without that folder, nothing is written."""

import contextlib
import json
import os
import re
import time
from typing import Any, Dict, Optional


class DebuggerNote:
    """The location of the debugger and how to attach to it, as the platform reads them."""

    def __init__(self) -> None:
        self.deadline: Optional[float] = None  # end of the wait for a client, in seconds since 1970
        self.is_stopped = False
        self.is_written = False  # the last write was successful
        self._location: Dict[str, Any] = {}
        folder = os.environ.get("HOLDFAST_NOTES", "")
        self._path = os.path.join(folder, f"debugger-{os.getpid()}-1.json") if folder else ""
        if folder:
            _remove_stale_notes(folder)

    def set_location(self, reason: str, file: str, line: int, function: str) -> None:
        """Set where and why the program is stopped."""
        self._location = {
            "why": reason,
            "file": file[-400:],
            "line": line,
            "function": function[:200],
            "since": time.time(),
        }
        self.is_stopped = True

    @property
    def file(self) -> str:
        return str(self._location.get("file", ""))

    @property
    def line(self) -> int:
        return int(self._location.get("line", 0))

    def write(self, port: int, is_local: bool, token: str, is_attached: bool) -> None:
        if not self._path or not self._location:
            return
        fields = {"version": 1, "pid": os.getpid(), "port": port, "local": is_local, "token": token[:200]}
        fields.update(self._location, until=self.deadline, waits=self.is_stopped, attached=is_attached)
        folder, name = os.path.split(self._path)
        temporary_path = os.path.join(folder, ".tmp-" + name)
        self.is_written = False
        with contextlib.suppress(OSError):
            with open(temporary_path, "w") as file:
                file.write(json.dumps(fields))
            os.replace(temporary_path, self._path)
            self.is_written = True

    def remove(self) -> None:
        self._location = {}
        if self._path:
            with contextlib.suppress(OSError):
                os.remove(self._path)


def _remove_stale_notes(folder: str) -> None:
    """Remove the notes of processes that were killed, or that ended by os._exit as workers of multiprocessing may."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            match = re.match(r"(?:\.tmp-)?debugger-(\d+)-1\.json$", name)
            if match and not os.path.exists(f"/proc/{match.group(1)}"):
                os.remove(os.path.join(folder, name))
