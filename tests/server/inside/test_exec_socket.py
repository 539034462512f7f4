"""Commands and shells over a WebSocket, in real tasks."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from holdfast.server.rest.sockets.flow_control import WINDOW_SIZE
from tests.server.rig import Rig

from .lines import TaskWire, open_line, running

pytestmark = pytest.mark.anyio


async def test_a_command_has_its_words_streams_and_status(rig: Rig) -> None:
    job = await running(rig)
    async with open_line(rig, f"{job.id}/tasks/main-0/exec") as wire:
        wire.say({"argv": ["sh", "-c", 'echo "$1"; echo "$MARK" >&2; exit 7', "sh", "a  b"], "env": {"MARK": "wrong"}})
        assert await wire.words("entered") == {"job": job.id, "task": "main-0", "held": False}
        assert await wire.output() == (b"a  b\n", b"wrong\n", 7)
        await wire.until(lambda: wire.code is not None)
        assert wire.code == 1000


async def test_input_goes_in_as_it_is_and_is_said_to_be_taken(rig: Rig) -> None:
    job = await running(rig)
    data = bytes(range(256)) * 4096
    async with open_line(rig, f"{job.id}/tasks/-/exec") as wire:
        wire.say({"argv": ["sha256sum"]})
        for at in range(0, len(data), 65536):
            wire.give(data[at : at + 65536])
        wire.say({"end": True})
        said: list[object] = []
        while not (said and isinstance(said[-1], dict) and "exit" in said[-1]):
            said.append(await wire.next())
        assert hashlib.sha256(data).hexdigest().encode() in b"".join(each for each in said if isinstance(each, bytes))
        taken = [each["taken"] for each in said if isinstance(each, dict) and "taken" in each]
        assert taken == sorted(taken)
        assert len(data) - 65536 <= taken[-1] <= len(data)


async def test_output_waits_for_a_client_that_does_not_take_it(rig: Rig) -> None:
    job = await running(rig)
    async with open_line(rig, f"{job.id}/tasks/-/exec") as wire:
        wire.say({"script": f"head -c {4 * WINDOW_SIZE} /dev/zero"})
        wire.say({"taken": 0})
        assert await _until_full(wire, WINDOW_SIZE) < WINDOW_SIZE + 64 * 1024
        seen = 0
        while True:
            message = await wire.next()
            if isinstance(message, bytes):
                seen += len(message) - 1
                wire.say({"taken": seen})
            elif "exit" in message:
                break
        assert seen == 4 * WINDOW_SIZE


async def _until_full(wire: TaskWire, size: int) -> int:
    """Bytes that have come once so many have, and some time to send more has passed."""

    def came() -> int:
        return sum(len(each) - 1 for each in wire.received if isinstance(each, bytes))

    await wire.until(lambda: came() >= size)
    for _ in range(50):
        await asyncio.sleep(0)
    return came()


async def test_a_terminal_has_a_size_that_follows(rig: Rig) -> None:
    job = await running(rig)
    async with open_line(rig, f"{job.id}/tasks/-/exec") as wire:
        script = "echo $TERM; stty size; trap 'stty size; exit 4' WINCH; echo set; while :; do sleep 0.02; done"
        wire.say({"script": script, "terminal": {"columns": 111, "rows": 33, "term": "vt100"}})
        assert b"vt100\r\n" in await _read(wire, b"33 111", b"\nset")
        wire.say({"resize": [90, 20]})
        await _read(wire, b"20 90")
        assert await wire.words("exit") == 4


async def test_keys_go_through_a_terminal(rig: Rig) -> None:
    job = await running(rig)
    async with open_line(rig, f"{job.id}/tasks/-/exec") as wire:
        wire.say({"argv": ["sh"], "terminal": {}})
        wire.give(b"sh -c \"echo rea''dy; exec sleep 1000\"\r")
        await _read(wire, b"ready")
        wire.give(b"\x03")
        wire.give(b"exit 5\r")
        assert await wire.words("exit") == 5


async def test_a_signal_reaches_the_command(rig: Rig) -> None:
    job = await running(rig)
    async with open_line(rig, f"{job.id}/tasks/-/exec") as wire:
        wire.say({"script": "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.02; done"})
        await _read(wire, b"ready")
        wire.say({"signal": 2})
        await _read(wire, b"caught")
        assert await wire.words("exit") == 9


async def test_who_hangs_up_leaves_nothing_running(rig: Rig) -> None:
    job = await running(rig)
    async with open_line(rig, f"{job.id}/tasks/-/exec") as wire:
        wire.say({"script": "echo pid $$.; sleep 1000"})
        pid = (await _read(wire, b".")).partition(b"pid ")[2].partition(b".")[0].decode()
    async with open_line(rig, f"{job.id}/tasks/-/exec") as wire:
        wire.say({"script": f"while kill -0 {pid}; do sleep 0.02; done"})
        assert (await wire.output())[2] == 0


async def test_what_is_said_wrong_is_told(rig: Rig) -> None:
    job = await running(rig)
    for first, said in (
        ({"argv": "ls"}, "argv must be a list"),
        ({"argv": ["ls"], "script": "ls"}, "not both"),
        ({"argv": ["a\0b"]}, "without NUL"),
        ({"env": {"A=B": "c"}}, "not a valid variable name"),
        ({"terminal": {"columns": 0}}, "columns and rows must be between 1 and 2000"),
        ({"terminal": True}, "an object"),
    ):
        async with open_line(rig, f"{job.id}/tasks/-/exec") as wire:
            wire.say(first)
            told, code = await wire.refusal()
            assert said in told
            assert code == 4400


async def test_nonsense_ends_the_line(rig: Rig) -> None:
    job = await running(rig)
    for nonsense in ("[]", "{", "[" * 50_000):
        async with open_line(rig, f"{job.id}/tasks/-/exec") as wire:
            wire.say({"argv": ["sleep", "1000"]})
            await wire.words("entered")
            wire._to_server.put_nowait({"type": "websocket.receive", "text": nonsense})
            assert (await wire.refusal())[1] == 4400


async def _read(wire: TaskWire, *parts: bytes) -> bytes:
    """What came until it holds all these."""
    seen = b""
    while not all(part in seen for part in parts):
        message = await wire.next()
        if isinstance(message, bytes):
            seen += message
        else:
            assert "exit" not in message, (seen, message)
    return seen
