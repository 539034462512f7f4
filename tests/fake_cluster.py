"""A fake engine that queues and places tasks itself, as a batch system does: it has one node for all its machines.

Each machine runs one task at a time. Tasks start in the order in which they came, gangs as a whole. What waits for the
rest of its gang is lost with the engine object; everything else is kept by the `FakeMachine`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.exits.exit import Cause
from holdfast.core.job import GIB
from holdfast.core.scheduling.placement import Node
from holdfast.engines.base import LaunchSpec
from tests.fake_engine import FakeEngine, FakeMachine, FakeTask

FIRST_PORT = 20000


class FakeCluster(FakeEngine):
    machines = ("n0", "n1", "n2")
    queue_limit = 3
    interval = 1.0  # seconds between two looks at the queue

    def __init__(self, machine: FakeMachine | None = None, **options: Any) -> None:
        node = Node(name="cluster", cpu=1.0, memory=GIB, queue_limit=self.queue_limit)
        super().__init__(machine, **{"nodes": (node,), **options})
        self._prepared: dict[str, LaunchSpec] = {}  # members of gangs that are not complete
        self._timer: asyncio.TimerHandle | None = None

    # --- the contract -------------------------------------------------------------------------------------------------

    async def open(self, *listeners: Any) -> None:
        await super().open(*listeners)
        self._look_later()

    async def observe(self, attempt_ids: Collection[str]) -> dict[str, Observation]:
        found = await super().observe(attempt_ids)
        return found | {id: self._observe_prepared(id) for id in attempt_ids if self._is_prepared(id)}

    def _start_task(self, launch: LaunchSpec) -> Observation:
        present = self.machine.tasks.get(launch.attempt_id)
        if present is not None:
            return self._observe_task(present)
        refusal = self._find_refusal(launch) or self._find_excess(launch)
        if refusal is not None:
            return refusal
        self._prepared[launch.attempt_id] = launch
        gang = launch.gang or (launch.attempt_id,)
        if not all(id in self._prepared for id in gang):
            return self._observe_prepared(launch.attempt_id)
        for id in gang:
            self._submit(self._prepared.pop(id))
        self._measure_queue()
        self._look_later()
        return self.machine.tasks[launch.attempt_id].seen

    def _stop_task(self, attempt_id: str, grace: float) -> None:
        if self._is_prepared(attempt_id):
            self._submit(self._prepared.pop(attempt_id))  # to be ended at once
        super()._stop_task(attempt_id, grace)

    def _is_prepared(self, attempt_id: str) -> bool:
        """Another server on the same cluster may have submitted it meanwhile."""
        return attempt_id in self._prepared and attempt_id not in self.machine.tasks

    # --- the queue ----------------------------------------------------------------------------------------------------

    def _find_excess(self, launch: LaunchSpec) -> Observation | None:
        if len(launch.gang) <= len(self.machines):
            return None
        message = f"The cluster has {len(self.machines)} machines."
        return Observation(
            attempt_id=launch.attempt_id, seen=ObservedState.REFUSED, message=message, cause=Cause.TOO_LARGE
        )

    def _observe_prepared(self, attempt_id: str) -> Observation:
        message = "Waits for the other tasks of its gang"
        return Observation(attempt_id=attempt_id, seen=ObservedState.STARTING, message=message)

    def _submit(self, launch: LaunchSpec) -> None:
        seen = Observation(
            attempt_id=launch.attempt_id, seen=ObservedState.QUEUED, message="Waits for a machine", since=self._now()
        )
        self.machine.tasks[launch.attempt_id] = FakeTask(launch=launch, seen=seen)

    def _measure_queue(self) -> None:
        waits = [task for task in self.machine.tasks.values() if task.seen.seen is ObservedState.QUEUED]
        if len({task.launch.job_id for task in waits}) > 1:
            self.machine.longest_queue = max(self.machine.longest_queue, len(waits))

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.interval, self._look)

    def _look(self) -> None:
        """Start what is first in the queue, while there are machines for it. The cluster does so without a server."""
        self._timer = None
        while (gang := self._find_first()) and len(gang) <= len(self._list_free_machines()):
            for task in gang:
                self.run_task(task.launch.attempt_id)
        if gang:
            self._look_later()

    def _find_first(self) -> list[FakeTask]:
        """The first task that waits, with those of its gang; one that was stopped is not waited for."""
        queued = [task for task in self.machine.tasks.values() if task.seen.seen is ObservedState.QUEUED]
        first = next(iter(queued), None)
        return [task for task in queued if first and (task is first or task.launch.attempt_id in first.launch.gang)]

    def _list_free_machines(self) -> list[str]:
        used = {task.seen.node for task in self.machine.tasks.values() if task.seen.seen.alive}
        return [name for name in self.machines if name not in used]

    def _observe_start(self, launch: LaunchSpec) -> Observation:
        node, ports, port = self._list_free_machines()[0], {}, FIRST_PORT
        for label, count in launch.port_counts.items():
            ports[label] = tuple(range(port, port + count))
            port += count
        gpus = tuple(range(launch.resources.gpu))
        return replace(super()._observe_start(launch), node=node, gpus=gpus, ports=ports)
