"""The programs that sessions run on the nodes: copies in the folder that all nodes share. Blocking: runs in a thread.

The copies of one version are never changed: a session may run them while a newer server starts.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path

from holdfast.engines.embedded.exec import py_spy
from holdfast.engines.task_program import TaskFile

from .task_files import write_file

SESSION_PROGRAM, PY_SPY_PROGRAM = "session", "py-spy"
_RUNTIME_FOLDER = Path(__file__).parents[2] / "runtime"
# Read at import: an upgrade may replace the files under a running server.
_TEXTS = {
    SESSION_PROGRAM: (_RUNTIME_FOLDER / "slurm_session.sh").read_text(),
    "sftp.py": (_RUNTIME_FOLDER / "sftp.py").read_text(),
    "tcp_relay.py": (_RUNTIME_FOLDER / "tcp_relay.py").read_text(),
}
_DIGEST_LENGTH = 16  # characters


class NodePrograms:
    def __init__(self, home: Path, *, shared: bool = False) -> None:
        """`shared`: other users run them, too."""
        self._mode = 0o755 if shared else 0o700
        digest = hashlib.sha256("\0".join(_TEXTS.values()).encode()).hexdigest()[:_DIGEST_LENGTH]
        self._folder = f"{home}/programs/{digest}"
        self._lock = threading.Lock()

    @property
    def session_path(self) -> str:
        return f"{self._folder}/{SESSION_PROGRAM}"

    def install(self) -> None:
        """Write the programs that do not exist."""
        with self._lock:
            os.makedirs(self._folder, mode=self._mode, exist_ok=True)
            for path in (os.path.dirname(self._folder), self._folder):
                os.chmod(path, self._mode)
            for name, text in _TEXTS.items():
                if not os.path.exists(f"{self._folder}/{name}"):
                    write_file(f"{self._folder}/{name}", TaskFile(text=text, mode=0o555))

    def install_py_spy(self) -> str:
        """Return the path of a copy of py-spy. ExecRefused if the server has none."""
        source = py_spy.find_program()
        found = os.stat(source)
        path = f"{self._folder}/{PY_SPY_PROGRAM}-{found.st_size}-{int(found.st_mtime)}"
        with self._lock:
            if not os.path.exists(path):
                draft = f"{path}.{os.urandom(4).hex()}.draft"
                try:
                    shutil.copyfile(source, draft)
                    os.chmod(draft, 0o555)
                    os.rename(draft, path)
                finally:
                    with suppress(FileNotFoundError):
                        os.unlink(draft)
        return path
