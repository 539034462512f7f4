"""A scripted engine with doors: people may enter its tasks, in which nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.engines.base import ExecCommand, ExecRefused, ExecSession, LaunchSpec, TaskProcess
from tests.fake_engine import FakeEngine


class Doors(FakeEngine):
    def __init__(self) -> None:
        super().__init__()
        self.inside: list[TaskProcess] = []  # that each task runs

    async def open_session(self, attempt_id: str, command: ExecCommand) -> ExecSession:
        raise ExecRefused("Nobody is at home")

    async def connect_port(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ExecRefused("Nobody is at home")

    async def revive_task(self, launch: LaunchSpec) -> None:
        raise ExecRefused("Nobody is at home")

    async def list_processes(self, attempt_id: str) -> Sequence[TaskProcess]:
        return self.inside
