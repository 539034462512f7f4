"""What a simulation runs tasks on: the sandbox of the embedded engine, or containers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from holdfast.core.attempt import Observation
from holdfast.core.scheduling.placement import Node
from holdfast.engines.base import Launch


class Stage(Protocol):
    name: str  # sandbox, docker or podman
    isolated: bool  # tasks have a root filesystem of their own; known once it is open

    async def open(self, on_change: Callable[[Observation], None]) -> None:
        """Get ready. `on_change` is told of each end."""
        ...

    async def close(self) -> None:
        """End everything that still runs, and leave nothing."""
        ...

    def node(self) -> Node: ...

    def notes(self) -> Sequence[str]:
        """Sentences: in what it falls short of a server's own."""
        ...

    async def missing_image(self, image: str) -> tuple[str, str] | None:
        """None when it is there, else what is wrong and what to do."""
        ...

    async def start(self, launch: Launch) -> Observation: ...

    async def stop(self, attempt_id: str, grace: float) -> None: ...

    def output(self, attempt_id: str) -> AsyncIterator[bytes]:
        """What it writes, as it comes; ends with the task."""
        ...

    async def pids(self, attempt_id: str) -> Sequence[int]:
        """Its processes, as this machine numbers them; empty where they cannot be told."""
        ...
