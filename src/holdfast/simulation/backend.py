"""Backend that runs the tasks of a simulation: the sandbox of the embedded engine, or containers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from holdfast.core.attempt import Observation
from holdfast.core.scheduling.placement import Node
from holdfast.engines.base import LaunchSpec


class Backend(Protocol):
    name: str  # sandbox, docker or podman
    isolated: bool  # tasks have their own root file system; set by open()

    async def open(self, on_change: Callable[[Observation], None]) -> None:
        """Prepare the backend. `on_change` is called for each end of a task."""
        ...

    async def close(self) -> None:
        """Stop all tasks and clean up."""
        ...

    def get_node(self) -> Node: ...

    def list_notes(self) -> Sequence[str]:
        """Return the differences from a server's engine, as sentences."""
        ...

    async def find_image_problem(self, image: str) -> tuple[str, str] | None:
        """Return None if the image exists, else (problem, hint)."""
        ...

    async def start(self, launch: LaunchSpec) -> Observation: ...

    async def stop(self, attempt_id: str, grace: float) -> None: ...

    def read_output(self, attempt_id: str) -> AsyncIterator[bytes]:
        """Stream the output of a task until it ends."""
        ...

    async def list_pids(self, attempt_id: str) -> Sequence[int]:
        """Return the process IDs of a task on this machine; empty if unknown."""
        ...
