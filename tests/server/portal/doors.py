"""A scripted engine with doors: people may enter its tasks, in which nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.engines.base import Command, ExecRefused, Launch, ProcessInfo, Session
from holdfast.engines.fake import FakeEngine


class Doors(FakeEngine):
    def __init__(self) -> None:
        super().__init__()
        self.inside: list[ProcessInfo] = []  # that each task runs

    async def enter(self, attempt_id: str, command: Command) -> Session:
        raise ExecRefused("Nobody is at home")

    async def connect(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ExecRefused("Nobody is at home")

    async def revive(self, launch: Launch) -> None:
        raise ExecRefused("Nobody is at home")

    async def processes(self, attempt_id: str) -> Sequence[ProcessInfo]:
        return self.inside
