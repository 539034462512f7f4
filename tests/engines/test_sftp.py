"""Files in and out of tasks, by the real sftp program; and what a client may send that makes no sense."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.job import MIB
from holdfast.engines.base import ExecCommand, ExecKind, ExecSession
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.runtime import sftp
from tests.contracts.engine_contract import Rig

from .scenarios import play
from .sessions import everything, inside, let_in
from .test_exec_sessions import STAND, every_kind

needs_sftp = pytest.mark.skipif(not shutil.which("sftp"), reason="OpenSSH's sftp is missing")
OPEN, CLOSE, LSTAT, OPENDIR, READDIR, REALPATH, RENAME, EXTENDED = 3, 4, 7, 11, 12, 16, 18, 200


# --- inside a task ------------------------------------------------------------------------------------------------


async def by_sftp(rig: Rig, attempt_id: str, folder: Path, *commands: str) -> str:
    """Run OpenSSH's client on a session; it reaches it by a socket of ours."""
    path = str(folder / "socket")
    session = await let_in(rig.engine).open_session(attempt_id, ExecCommand(kind=ExecKind.SFTP))

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up = asyncio.create_task(_up(reader, session))
        while block := await session.read():
            writer.write(block)
            await writer.drain()
        writer.close()
        await up

    server = await asyncio.start_unix_server(carry, path)
    bridge = folder / "bridge"
    bridge.write_text(f"#!{sys.executable}\n{BRIDGE.format(path=path)}")
    bridge.chmod(0o700)
    client = await asyncio.create_subprocess_exec(
        "sftp", "-q", "-b", "-", "-D", str(bridge), stdin=-1, stdout=-1, stderr=-1, cwd=folder
    )  # fmt: skip
    out, errors = await client.communicate("\n".join(commands).encode() + b"\n")
    assert client.returncode == 0, (out, errors)
    assert await session.wait() == 0
    session.close()
    server.close()
    return out.decode()


async def _up(reader: asyncio.StreamReader, session: ExecSession) -> None:
    while block := await reader.read(1 << 18):
        await session.write(block)
    session.close_stdin()


BRIDGE = """
import os, socket, threading
far = socket.socket(socket.AF_UNIX)
far.connect({path!r})
def up():
    while block := os.read(0, 1 << 18):
        far.sendall(block)
    far.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while block := far.recv(1 << 18):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
"""


@every_kind
@needs_sftp
def test_files_go_into_a_task_and_out(tmp_path: Path, options: EmbeddedOptions | None) -> None:
    big = os.urandom(20 * MIB)
    (tmp_path / "big").write_bytes(big)
    (tmp_path / "sm all").write_text("small")
    (tmp_path / "sm all").chmod(0o640)

    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", STAND)
        said = await by_sftp(
            rig, "a", tmp_path, "put big", "get big back", 'put -p "sm all" there', "ls -l", "mkdir sub",
            "ln -s there link", "rename there sub/moved", "chmod 600 sub/moved", "df", "pwd", "get -r sub got",
        )  # fmt: skip
        assert (tmp_path / "back").read_bytes() == big
        assert (tmp_path / "got" / "moved").read_text() == "small"
        assert "-rw-r-----" in said
        script = "pwd; cd ~; stat -c '%a %s' big sub/moved; cat sub/moved; readlink link"
        found = (await inside(rig.engine, "a", script)).out.split("\n", 1)
        assert f"working directory: {found[0]}" in said
        assert found[1] == f"644 {len(big)}\n600 5\nsmallthere\n"

    play(tmp_path / "home", scenario, options)


def test_a_client_that_goes_away_ends_it(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.start_and_wait_for(b"up", "a", STAND)
        session = await let_in(rig.engine).open_session("a", ExecCommand(kind=ExecKind.SFTP))
        await session.write(struct.pack(">IBI", 5, 1, 3))
        assert (await session.read())[4:9] == struct.pack(">BI", 2, 3)
        session.close_stdin()
        assert await everything(session.read) == b""
        assert await session.wait() == 0
        session.close()

    play(tmp_path, scenario)


# --- the protocol -------------------------------------------------------------------------------------------------


class Client:
    """Speaks to a server in another process, packet by packet."""

    def __init__(self, folder: Path) -> None:
        # Inside a sandbox nothing can be imported any more.
        script = (
            "import sys; sys.path.append(sys.argv[1]); import sftp; sys.meta_path.clear(); sftp.serve(0, 1, b'/home')"
        )
        runtime = str(Path(sftp.__file__).parent)
        self._server = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", script, runtime], stdin=-1, stdout=-1, cwd=folder
        )
        assert self._server.stdin
        assert self._server.stdout
        self._in, self._out = self._server.stdin, self._server.stdout
        self._number = 0

    def send(self, data: bytes) -> None:
        self._in.write(data)
        self._in.flush()

    def receive(self) -> tuple[int, bytes]:
        head = self._out.read(4)
        data = self._out.read(int.from_bytes(head, "big"))
        return (data[0], data[1:]) if data else (0, b"")

    def ask(self, kind: int, *words: bytes | int) -> tuple[int, bytes]:
        """Words as strings, numbers as they are; answers the kind of the reply and what follows its number."""
        self._number += 1
        body = struct.pack(">BI", kind, self._number) + b"".join(map(_word, words))
        self.send(struct.pack(">I", len(body)) + body)
        kind, data = self.receive()
        assert data[:4] == struct.pack(">I", self._number)
        return kind, data[4:]

    def status(self, kind: int, *words: bytes | int) -> int:
        answer, data = self.ask(kind, *words)
        assert answer == 101
        return int.from_bytes(data[:4], "big")

    def handle(self, kind: int, *words: bytes | int) -> bytes:
        answer, data = self.ask(kind, *words)
        assert answer == 102, data
        return data[4:]

    def close(self) -> int:
        self._in.close()
        self._out.close()
        return self._server.wait(60)


def _word(word: bytes | int) -> bytes:
    return struct.pack(">I", word) if isinstance(word, int) else struct.pack(">I", len(word)) + word


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    client = Client(tmp_path)
    yield client
    assert client.close() == 0


def test_what_cannot_be_done_says_why(client: Client, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("2")
    assert client.status(OPEN, b"missing", 1, 0) == sftp.NO_SUCH_FILE
    assert client.status(OPEN, b"a\0b", 1, 0) == sftp.BAD_MESSAGE
    assert client.status(LSTAT, b"x" * 5000) == sftp.BAD_MESSAGE
    assert client.status(RENAME, b"one", b"two") == sftp.FAILURE
    assert (tmp_path / "two").read_text() == "2"
    assert client.status(CLOSE, b"none") == sftp.FAILURE
    assert client.status(READDIR, b"none") == sftp.FAILURE
    assert client.status(99) == sftp.UNSUPPORTED
    assert client.status(EXTENDED, b"no-such@example.org") == sftp.UNSUPPORTED
    assert client.status(OPEN) == sftp.BAD_MESSAGE  # cut off
    os.mkfifo(tmp_path / "pipe")
    client.handle(OPEN, b"pipe", 1, 0)  # does not wait for somebody to write to it


def test_names_are_given_in_portions(client: Client, tmp_path: Path) -> None:
    names = {b"%d" % number for number in range(500)} | {b"\xff not text"}
    for name in names:
        (tmp_path / os.fsdecode(name)).mkdir()
    handle = client.handle(OPENDIR, b"")
    found: list[bytes] = []
    while True:
        kind, data = client.ask(READDIR, handle)
        if kind == 101:
            break
        count = int.from_bytes(data[:4], "big")
        assert 0 < count <= 102
        found += _names(data[4:], count)
    assert int.from_bytes(data[:4], "big") == sftp.EOF
    assert len(found) == len(set(found))
    assert set(found) == names | {b".", b".."}
    assert client.status(CLOSE, handle) == sftp.OK


def _names(data: bytes, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        for long in (False, True):
            length = int.from_bytes(data[:4], "big")
            if not long:
                found.append(data[4 : 4 + length])
            data = data[4 + length :]
        data = data[32:]
    return found


def test_homes(client: Client, tmp_path: Path) -> None:
    def name(data: bytes) -> bytes:
        return data[8 : 8 + int.from_bytes(data[4:8], "big")]

    assert name(client.ask(REALPATH, b"")[1]) == os.fsencode(tmp_path)
    assert name(client.ask(REALPATH, b"missing/../x")[1]) == os.fsencode(tmp_path / "x")
    assert name(client.ask(EXTENDED, b"expand-path@openssh.com", b"~/x")[1]) == b"/home/x"
    assert client.status(EXTENDED, b"expand-path@openssh.com", b"~root/x") == sftp.NO_SUCH_FILE


def test_open_files_are_bounded(client: Client, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    handles = [client.handle(OPEN, b"file", 1, 0) for _ in range(sftp.MAX_HANDLES)]
    assert client.status(OPEN, b"file", 1, 0) == sftp.FAILURE
    assert client.status(OPENDIR, b"") == sftp.FAILURE
    assert client.status(CLOSE, handles[0]) == sftp.OK
    client.handle(OPEN, b"file", 1, 0)


@pytest.mark.parametrize(
    "nonsense", [struct.pack(">I", 0), struct.pack(">I", 1 << 31), struct.pack(">IB", 1 << 19, 5), b"\0\0\0\1\5"]
)
def test_nonsense_ends_it(client: Client, nonsense: bytes) -> None:
    client.send(nonsense)
    assert client.receive() == (0, b"")
