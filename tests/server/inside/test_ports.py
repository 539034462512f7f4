"""Ports of tasks, and debuggers that wait in them, over a WebSocket."""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast.core.records import JobSummary
from holdfast.server.rest.sockets import ports as port_sockets
from holdfast.services.inside.service import build_connection_limiter
from tests.server.portal.socket_client import TIMEOUT
from tests.server.rig import Rig

from .lines import TaskWire, open_line, running

pytestmark = pytest.mark.anyio

# Says what it was sent once it has all of it.
ECHO = """
import os, socket
with socket.create_server(("127.0.0.1", int(os.environ["HOLDFAST_PORT_ECHO"]))) as server:
    print("listening", flush=True)
    while True:
        connection, _ = server.accept()
        with connection:
            data = b""
            while piece := connection.recv(65536):
                data += piece
            connection.sendall(data)
"""
# As paipdb does: a note that it waits, a token, then a prompt.
DEBUGGER = """
import contextlib, json, os, socket, time
with socket.create_server(("127.0.0.1", 0)) as server:
    note = {"version": 1, "pid": os.getpid(), "file": "/code/train.py", "line": 42, "function": "step",
            "why": "breakpoint", "port": server.getsockname()[1], "token": "s3cret", "since": time.time(),
            "until": None, "attached": False, "waits": True}
    notes = os.environ["HOLDFAST_NOTES"]
    with open(notes + "/.tmp-debugger-1.json", "w") as file:
        file.write(json.dumps(note))
    os.rename(notes + "/.tmp-debugger-1.json", notes + "/debugger-1.json")
    while True:
        connection, _ = server.accept()
        with contextlib.suppress(OSError), connection, connection.makefile("rwb", 0) as stream:
            stream.write(b"Token: ")
            right = stream.readline() == b"s3cret\\n"
            stream.write(b"(Pdb) " if right else b"no\\n")
            while line := stream.readline():
                stream.write(b"you said " + line + b"(Pdb) ")
"""


async def start(rig: Rig, program: str, **more: object) -> JobSummary:
    job = {"name": "serve", "env": {"PROGRAM": program}, "command": 'python3 -c "$PROGRAM"', **more}
    return await running(rig, json.dumps(job))


async def bytes_until(wire: TaskWire, end: bytes) -> bytes:
    seen = b""
    while end not in seen:
        message = await wire.next()
        assert isinstance(message, bytes), message
        seen += message
    return seen


async def when_it_listens(rig: Rig, job: JobSummary) -> None:
    async with open_line(rig, f"{job.id}/tasks/-/exec") as wire:
        wire.say({"script": "until (: < /dev/tcp/127.0.0.1/$HOLDFAST_PORT_ECHO) 2>/dev/null; do sleep 0.02; done"})
        assert (await wire.output())[2] == 0


async def test_a_port_by_its_name_with_both_ends(rig: Rig) -> None:
    job = await start(rig, ECHO, ports={"echo": 1})
    await when_it_listens(rig, job)
    data = bytes(range(256)) * 2048
    async with open_line(rig, f"{job.id}/tasks/main-0/ports/echo") as wire:
        entered = await wire.words("entered")
        assert entered["port"] == (await rig.get(f"/jobs/{job.id}")).json()["tasks"][0]["ports"]["echo"][0]
        for at in range(0, len(data), 60_000):
            wire.give(data[at : at + 60_000])
        wire.say({"end": True})
        echoed, words = b"", {}
        while "end" not in words:
            message = await wire.next()
            if isinstance(message, bytes):
                echoed += message
            else:
                words = message
        assert echoed == data
        await wire.until(lambda: wire.code is not None)
        assert wire.code == 1000


async def test_a_port_where_nobody_listens_or_that_has_no_such_name(rig: Rig) -> None:
    job = await running(rig, "name: quiet\nports: {web: 1}\ncommand: sleep 1000\n")
    for port, code, said in (
        ("web", 4409, "Nothing listens"),
        ("http", 4404, "no port named http"),
        ("70000", 4400, "is not a valid port"),
        ("0", 4400, "is not a valid port"),
    ):
        async with open_line(rig, f"{job.id}/tasks/-/ports/{port}") as wire:
            told, closed = await wire.refusal()
            assert (closed, said in told) == (code, True), told


async def test_a_debugger_is_reached_without_its_token(rig: Rig) -> None:
    job = await start(rig, DEBUGGER)
    async with open_line(rig, f"{job.id}/tasks/-/debugger", query="wait=20") as wire:
        wire.say({"taken": 0})
        entered = await wire.words("entered")
        assert (entered["task"], entered["debugger"]["file"], entered["debugger"]["line"]) == (
            "main-0",
            "/code/train.py",
            42,
        )
        await bytes_until(wire, b"(Pdb) ")
        wire.give(b"p x\n")
        assert b"you said p x\n" in await bytes_until(wire, b"(Pdb) ")


async def test_words_of_a_debugger_that_refuses_move_no_cursor(rig: Rig) -> None:
    job = await start(rig, DEBUGGER.replace("Token: ", "\\x1b]0;mine\\x07go away").replace("readline()", "close()"))
    async with open_line(rig, f"{job.id}/tasks/-/debugger", query="wait=20") as wire:
        assert await wire.refusal() == ("?]0;mine?go away", 4409)


async def test_who_may_only_look_sees_that_it_waits_but_not_how_to_get_there(rig: Rig) -> None:
    job = await start(rig, DEBUGGER)
    async with open_line(rig, f"{job.id}/tasks/-/debugger", query="wait=20") as wire:
        await wire.words("entered")
    member = await rig.token_of("ann", "default")
    seen = (await rig.get(f"/jobs/{job.id}", headers=member)).json()["debuggers"]
    assert [(each["task"], each["line"], each["port"], each["token"]) for each in seen] == [("main-0", 42, None, None)]
    own = (await rig.get(f"/jobs/{job.id}")).json()["debuggers"]
    assert [each["token"] for each in own] == ["s3cret"]
    assert own[0]["port"] > 0


async def test_a_list_of_jobs_says_where_one_waits_and_so_does_why(rig: Rig) -> None:
    plain = await running(rig, json.dumps({"name": "plain", "command": "sleep 1000"}))
    job = await start(rig, DEBUGGER)
    async with open_line(rig, f"{job.id}/tasks/-/debugger", query="wait=20") as wire:
        await wire.words("entered")
    listed = (await rig.get("/jobs")).json()["items"]
    assert {each["id"]: each["debugger"] for each in listed} == {job.id: "train.py:42 in main-0", plain.id: None}
    why = (await rig.get(f"/jobs/{job.id}/why")).json()
    assert (why["verdict"], why["debugger"]) == ("debugger", "train.py:42 in main-0")
    assert (await rig.post(f"/jobs/{job.id}/stop")).status_code == 202
    await rig.get(f"/jobs/{job.id}/wait")
    assert {each["debugger"] for each in (await rig.get("/jobs")).json()["items"]} == {None}


async def test_no_debugger_waits(rig: Rig) -> None:
    job = await running(rig)
    for query, code, said in (
        ("", 4409, "No debugger is waiting"),
        ("wait=0.05", 4409, "No debugger is waiting"),
        ("wait=-1", 4400, "wait must be between 0 and"),
        ("wait=nan", 4400, "wait must be between 0 and"),
        ("wait=1e9", 4400, "wait must be between 0 and"),
    ):
        async with open_line(rig, f"{job.id}/tasks/-/debugger", query=query) as wire:
            told, closed = await wire.refusal()
            assert (closed, said in told) == (code, True), told


async def test_one_user_waits_for_only_so_many_debuggers(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    limiter = build_connection_limiter("WebSockets that wait for a debugger", 1, 10)
    monkeypatch.setattr(port_sockets, "_debugger_wait_limiter", limiter)
    job, serving = await running(rig), await start(rig, DEBUGGER)
    path = f"{job.id}/tasks/-/debugger"
    async with open_line(rig, f"{serving.id}/tasks/-/debugger", query="wait=20") as attached:
        await attached.words("entered")  # it does not wait any more
        async with open_line(rig, path, query="wait=3600"):
            async with asyncio.timeout(TIMEOUT):
                while not limiter._used_slots:
                    await asyncio.sleep(0.01)
            async with open_line(rig, path, query="wait=3600") as second:
                assert await second.refusal() == ("You already have 1 WebSockets that wait for a debugger open", 4409)
            async with open_line(rig, path) as third:
                assert "No debugger is waiting" in (await third.refusal())[0]
        async with open_line(rig, path, query="wait=0.05") as again:
            assert "No debugger is waiting" in (await again.refusal())[0]


async def test_a_wait_ends_with_the_job(rig: Rig) -> None:
    job = await running(rig)
    async with open_line(rig, f"{job.id}/tasks/-/debugger", query="wait=3600") as wire:
        wire.say({"taken": 0})
        await rig.house.controller.stop_job(job.id, "admin")
        assert (await wire.refusal())[1] == 4409


async def test_who_was_at_a_debugger_is_an_event(rig: Rig) -> None:
    job = await start(rig, DEBUGGER)
    async with open_line(rig, f"{job.id}/tasks/-/debugger", query="wait=20") as wire:
        await wire.words("entered")
        events: list[str] = []
        while "admin opened a session in main-0 (debugger)" not in events:
            found = (await rig.get(f"/jobs/{job.id}/events")).json()["items"]
            events = [event["message"] for event in found]


async def test_a_task_that_is_not_there_is_not_waited_for(rig: Rig) -> None:
    job = await running(rig)
    async with open_line(rig, f"{job.id}/tasks/main-7/debugger", query="wait=3600") as wire:
        assert (await wire.refusal())[1] == 4404
