"""A program under paipdb in a process of its own, and clients that come to its port."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paipdb

FOLDER = str(Path(paipdb.__file__).parent.parent)
TIMEOUT = 60.0  # seconds; only ever reached when something is broken


def interpreters() -> dict[str, str]:
    """By version, all that this machine has; PAIPDB_PYTHONS names more, separated by colons."""
    named = [f"python3.{minor}" for minor in range(6, 20)] + ["python3", "/usr/bin/python3"]
    shims = Path.home() / ".pyenv/shims"  # scripts that start what is found below, slowly
    candidates = [
        *os.environ.get("PAIPDB_PYTHONS", "").split(":"),
        sys.executable,
        *(path for path in map(shutil.which, named) if path and Path(path).parent != shims),
    ]
    candidates += map(str, sorted(Path.home().glob(".pyenv/versions/3*/bin/python")))
    found: dict[str, str] = {}
    for candidate in filter(None, candidates):
        version = _version(candidate)
        if version:
            found.setdefault(version, candidate)
    return found


def _version(python: str) -> str:
    named = re.fullmatch(r".*/bin/python(3\.\d+)", os.path.realpath(python))
    if named:  # starting each of them, in each process that collects the tests, would take seconds
        return named[1]
    ask = "import sys; print('%d.%d' % sys.version_info[:2] if sys.version_info >= (3, 6) else '')"
    with contextlib.suppress(OSError):
        return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False).stdout.strip()
    return ""


def notes_in(folder: Path) -> Iterator[dict[str, Any]]:
    """What debuggers say of themselves; they take it back when they like."""
    for path in folder.glob("debugger-*.json"):
        with contextlib.suppress(FileNotFoundError):
            yield json.loads(path.read_text())


@dataclass
class Program:
    process: subprocess.Popen[bytes]
    notes: Path
    _log: dict[str, bytes] = field(default_factory=lambda: {"stdout": b"", "stderr": b""})
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._readers = [threading.Thread(target=self._read, args=(name,), daemon=True) for name in self._log]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str) -> None:
        stream = getattr(self.process, name)
        while data := os.read(stream.fileno(), 65536):
            with self._changed:
                self._log[name] += data
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def stdout(self) -> str:
        return self._log["stdout"].decode()

    @property
    def stderr(self) -> str:
        return self._log["stderr"].decode()

    def wait_for(self, pattern: str, stream: str = "stderr", count: int = 1) -> list[re.Match[str]]:
        """Until so many places of its output match; the matches."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._count(pattern, stream) >= count, TIMEOUT)
            assert came, f"no {pattern!r} in\n{self.stdout}\n---\n{self.stderr}"
            return list(re.finditer(pattern, self._log[stream].decode()))

    def _count(self, pattern: str, stream: str) -> int:
        return len(re.findall(pattern, self._log[stream].decode()))

    def port(self, count: int = 1) -> int:
        """The one it waits at, once it has waited so many times."""
        return int(self.wait_for(r"nc \S+ (\d+)", count=count)[-1][1])

    def token(self, count: int = 1) -> str:
        """As the platform is told it; without a platform, as the log has it."""
        port = self.port(count)
        for note in notes_in(self.notes):
            if note["port"] == port:
                return str(note["token"])
        return self.wait_for(r"nc \S+ \d+, token (\S+)\n", count=count)[-1][1]

    def client(self, count: int = 1) -> Client:
        """Somebody who knows the token, once it has waited so many times."""
        client = Client(self.port(count))
        client.wait_for("Token: ")
        client.send(self.token(count))
        return client

    def ends(self) -> int:
        code = self.process.wait(TIMEOUT)
        for reader in self._readers:
            reader.join(TIMEOUT)
        return code

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for reader in self._readers:
            reader.join(TIMEOUT)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()


class Client:
    """A raw socket that keeps what it was told."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT)
        self.text = ""
        self._read_to = 0

    def send(self, line: str) -> None:
        self.socket.sendall(line.encode() + b"\n")

    def wait_for(self, text: str) -> str:
        """What was told since the last call, up to and with this text."""
        while text not in self.text[self._read_to :]:
            data = self.socket.recv(65536)
            assert data, f"it was cut before {text!r}:\n{self.text}"
            self.text += data.decode()
        at = self.text.index(text, self._read_to) + len(text)
        told, self._read_to = self.text[self._read_to : at], at
        return told

    def prompt(self) -> str:
        return self.wait_for("(Pdb) ")

    def do(self, line: str) -> str:
        """A command; what was told until the next prompt."""
        self.send(line)
        return self.prompt()

    def rest(self) -> str:
        """Until it is cut."""
        with contextlib.suppress(ConnectionResetError):
            while data := self.socket.recv(65536):
                self.text += data.decode()
        told, self._read_to = self.text[self._read_to :], len(self.text)
        return told

    def close(self) -> None:
        self.socket.close()


@dataclass
class Bench:
    """A folder with programs in it."""

    folder: Path
    python: str = sys.executable
    started: list[Program] = field(default_factory=list)

    @property
    def notes(self) -> Path:
        return self.folder / "notes"

    def note(self) -> dict[str, Any]:
        """The only one."""
        (path,) = self.notes.glob("debugger-*.json")
        found = json.loads(path.read_text())
        assert isinstance(found, dict)
        return found

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def start(self, *args: str, env: Mapping[str, str] | None = None) -> Program:
        self.notes.mkdir(exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONHOME") if name in os.environ}
        given = {"PYTHONPATH": FOLDER, "HOLDFAST_NOTES": str(self.notes), "PYTHONDONTWRITEBYTECODE": "1"}
        program = Program(
            subprocess.Popen(
                [self.python, *args],
                cwd=self.folder,
                env={**kept, **given, **(env or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            ),
            self.notes,
        )
        self.started.append(program)
        return program

    def debug(self, text: str, *args: str, env: Mapping[str, str] | None = None) -> Program:
        """`python -m paipdb` of a script with this text."""
        self.write("train.py", text)
        return self.start("-m", "paipdb", "train.py", *args, env=env)

    def run(self, text: str, *args: str, env: Mapping[str, str] | None = None) -> Program:
        """The script alone: it calls paipdb itself."""
        self.write("train.py", text)
        return self.start("train.py", *args, env=env)


@contextlib.contextmanager
def bench(folder: Path, python: str = sys.executable) -> Iterator[Bench]:
    made = Bench(folder, python)
    try:
        yield made
    finally:
        for program in made.started:
            program.stop()
