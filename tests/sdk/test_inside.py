"""What can go wrong with a line into a task before it is one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.sdk import ApiError, CannotConnect, UnexpectedReply
from holdfast.sdk.address import Address
from holdfast.sdk.inside import open_exec, open_port

TOKEN = "hf_secret"


@contextmanager
def answering(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives this to whoever asks anything: its address, and what it was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    asked.append(connection.recv(65536))
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def at(url: str, **more: Path) -> Address:
    return Address(url, TOKEN, "given", **more)


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(CannotConnect, match="nothing listens there"):
        open_exec(at(f"http://127.0.0.1:{port}"), "train")


def test_a_token_is_not_sent_to_a_port_that_its_server_has_left(tmp_path: Path) -> None:
    with answering(b"") as (url, asked):
        (tmp_path / "server.lock").touch()  # which nobody holds
        with pytest.raises(CannotConnect, match="no server runs there"):
            open_exec(at(url, lock=tmp_path / "server.lock"), "train")
        assert asked == []


def test_no_redirect_is_followed() -> None:
    with answering(b"") as (elsewhere, asked):
        moved = f"HTTP/1.1 302 Found\r\nLocation: {elsewhere.replace('http', 'ws')}/\r\nContent-Length: 0\r\n\r\n"
        with answering(moved.encode()) as (url, first), pytest.raises(UnexpectedReply, match="HTTP 302"):
            open_exec(at(url), "train")
        assert f"Bearer {TOKEN}".encode() in first[0]
        assert asked == []


def test_something_else_answers() -> None:
    missing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    with answering(missing) as (url, _), pytest.raises(UnexpectedReply, match="HTTP 404"):
        open_port(at(url), "train", None, 80)
    with answering(b"SSH-2.0-OpenSSH\r\n") as (url, _), pytest.raises(CannotConnect):
        open_port(at(url), "train", None, 80)


@pytest.mark.parametrize(("job", "task"), [("", None), ("..", None), ("train", "a/../b")])
def test_names_that_are_none_ask_nobody(job: str, task: str | None) -> None:
    with answering(b"") as (url, asked):
        with pytest.raises(ApiError):
            open_exec(at(url), job, task)
        assert asked == []
