"""Running commands inside tasks, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from holdfast.engines.base import Engine, ExecCommand, ExecSession, SupportsExec


class Said(NamedTuple):
    code: int
    out: str
    errors: str


def let_in(engine: Engine) -> SupportsExec:
    assert isinstance(engine, SupportsExec)
    return engine


async def inside(engine: Engine, attempt_id: str, command: ExecCommand | str, given: bytes = b"") -> Said:
    """Run a command, or a line of shell, to its end."""
    command = ExecCommand(script=command) if isinstance(command, str) else command
    session = await let_in(engine).open_session(attempt_id, command)
    try:
        return await finish(session, given)
    finally:
        session.close()


async def finish(session: ExecSession, given: bytes = b"") -> Said:
    async def feed() -> None:
        await session.write(given)
        session.close_stdin()

    out, errors, code, _ = await asyncio.gather(
        everything(session.read), everything(session.read_stderr), session.wait(), feed()
    )
    return Said(code, out.decode(), errors.decode())


async def everything(read: Callable[[], Awaitable[bytes]]) -> bytes:
    found = []
    while block := await read():
        found.append(block)
    return b"".join(found)


class Screen:
    """What has been seen of a session so far."""

    def __init__(self, session: ExecSession) -> None:
        self.session = session
        self.text = ""

    async def type(self, text: str) -> None:
        await self.session.write(text.encode())

    async def shows(self, word: str) -> str:
        """Wait for it; answers what came up to it, and forgets that."""
        while word not in self.text:
            block = await self.session.read()
            assert block, f"it ended without {word!r}: {self.text!r}"
            self.text += block.decode("utf-8", "replace")
        before, _, self.text = self.text.partition(word)
        return before
