"""What can go wrong with a line into a task before it is one."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from holdfast.sdk import ApiError, CannotConnect, Client, UnexpectedReply
from holdfast.sdk.address import Address
from holdfast.sdk.inside import open_exec, open_port
from holdfast.sdk.plain_client import PlainClient, can_use_plain_client

from .scripted import proof_of

TOKEN = "hf_a_secret"


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
                    said = connection.recv(65536)
                    if b"/api/v1/identity?" in said:
                        connection.sendall(_prove(said))
                        said = connection.recv(65536)
                    asked.append(said)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _prove(said: bytes) -> bytes:
    """As the server that issued TOKEN."""
    query = urlsplit(said.split(b" ")[1].decode()).query
    body = proof_of("secret", dict(parse_qsl(query))["nonce"])
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def at(url: str, **more: Path) -> Address:
    return Address(url, TOKEN, "given", **more)


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(CannotConnect, match="connection refused"):
        open_exec(at(f"http://127.0.0.1:{port}"), "train")


def test_a_token_is_not_sent_to_a_port_that_its_server_has_left(tmp_path: Path) -> None:
    with answering(b"") as (url, asked):
        (tmp_path / "server.lock").touch()  # which nobody holds
        with pytest.raises(CannotConnect, match="no server is running there"):
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


def test_who_is_not_let_in_is_told_in_the_servers_words() -> None:
    error = {"code": "not_logged_in", "message": "This token is not valid", "field": None, "hint": "Log in again."}
    with answering(reply("401 Unauthorized", {"error": error})) as (url, _):
        with pytest.raises(ApiError, match="This token is not valid") as caught:
            open_exec(at(url), "train")
        found = caught.value
        assert (found.code, found.status, found.hint) == ("not_logged_in", 401, "Log in again.")


@pytest.mark.parametrize(("job", "task"), [("", None), ("..", None), ("train", "a/../b")])
def test_names_that_are_none_ask_nobody(job: str, task: str | None) -> None:
    with answering(b"") as (url, asked):
        with pytest.raises(ApiError):
            open_exec(at(url), job, task)
        assert asked == []


def reply(status: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data


def test_the_plain_client_asks_and_reads_as_the_other_does() -> None:
    lines = {"items": [{"task": "main-0", "command": "ssh x", "port": 2222}], "host_key": "k", "reason": None}
    with answering(reply("200 OK", lines)) as (url, asked):
        with PlainClient(at(url)) as plain, Client(url, TOKEN) as usual:
            assert plain.list_ssh_commands("my job") == usual.list_ssh_commands("my job")
        first, second = (request.split(b"\r\n")[0] for request in asked)
        assert first == second == b"GET /api/v1/jobs/my%20job/ssh HTTP/1.1"
        assert all(f"Bearer {TOKEN}".encode() in request for request in asked)


def test_the_plain_client_is_refused_in_the_same_words() -> None:
    error = {"code": "conflict", "message": "It ended", "field": None, "hint": "Run it again.", "request_id": "1"}
    with answering(reply("409 Conflict", {"error": error})) as (url, _), PlainClient(at(url)) as plain:
        with pytest.raises(ApiError, match="It ended") as caught:
            plain.get_stack_traces("train")
        assert (caught.value.code, caught.value.hint) == ("conflict", "Run it again.")
    with pytest.raises(CannotConnect, match="connection refused"):
        plain.get_stack_traces("train")


def test_the_plain_client_tells_no_port_that_its_server_has_left(tmp_path: Path) -> None:
    with answering(b"") as (url, asked):
        (tmp_path / "server.lock").touch()
        with pytest.raises(CannotConnect, match="no server is running there"):
            PlainClient(at(url, lock=tmp_path / "server.lock")).get_stack_traces("train")
        assert asked == []


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("http://127.0.0.1:8080", True),
        ("http://localhost", True),
        ("https://127.0.0.1", False),
        ("http://a.example", False),
    ],
)
def test_only_this_machine_is_asked_plainly(url: str, plain: bool) -> None:
    assert can_use_plain_client(at(url)) is plain
