"""What the platform is told about the debugger: a file in the task's notes folder. Without such a folder, nothing."""

import contextlib
import json
import os
import re
import time
from typing import Any, Dict, Optional


class Note:
    def __init__(self) -> None:
        self.until: Optional[float] = None
        self.waits = False
        self.is_told = False  # it could be written
        self._place: Dict[str, Any] = {}
        folder = os.environ.get("HOLDFAST_NOTES", "")
        self._path = os.path.join(folder, f"debugger-{os.getpid()}-1.json") if folder else ""
        if folder:
            _remove_dead_notes(folder)

    def place(self, why: str, file: str, line: int, function: str) -> None:
        """The program stands there."""
        self._place = {"why": why, "file": file[-400:], "line": line, "function": function[:200], "since": time.time()}
        self.waits = True

    @property
    def file(self) -> str:
        return str(self._place.get("file", ""))

    @property
    def line(self) -> int:
        return int(self._place.get("line", 0))

    def write(self, port: int, is_local: bool, token: str, attached: bool) -> None:
        if not self._path or not self._place:
            return
        facts = {"version": 1, "pid": os.getpid(), "port": port, "local": is_local, "token": token[:200]}
        facts.update(self._place, until=self.until, waits=self.waits, attached=attached)
        folder, name = os.path.split(self._path)
        draft = os.path.join(folder, ".tmp-" + name)
        self.is_told = False
        with contextlib.suppress(OSError):
            with open(draft, "w") as file:
                file.write(json.dumps(facts))
            os.replace(draft, self._path)
            self.is_told = True

    def remove(self) -> None:
        self._place = {}
        if self._path:
            with contextlib.suppress(OSError):
                os.remove(self._path)


def _remove_dead_notes(folder: str) -> None:
    """Those of processes that were killed, or left by os._exit as workers of multiprocessing may."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            found = re.match(r"(?:\.tmp-)?debugger-(\d+)-1\.json$", name)
            if found and not os.path.exists(f"/proc/{found.group(1)}"):
                os.remove(os.path.join(folder, name))
