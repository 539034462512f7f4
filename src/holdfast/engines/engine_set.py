"""All engines of a server, as one.

A call for an attempt goes to its engine, which is known from the moment it is placed. An engine that no longer takes
new tasks is kept while it has some. What one engine does not support, or cannot do now, never disturbs the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from holdfast.core.attempt import Observation, ObservedState
from holdfast.core.conditions import Condition, ConditionKind, list_blocking_conditions
from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.core.metrics.samples import GpuState, Reading
from holdfast.core.scheduling.placement import Node

from .artifacts import ArtifactSink, SupportsArtifacts
from .base import (
    Engine,
    EngineHealth,
    ExecCommand,
    ExecRefused,
    ExecSession,
    ImageSummary,
    LaunchSpec,
    LogSource,
    LogStream,
    LogUsage,
    SupportsChecks,
    SupportsDiskLimits,
    SupportsExec,
    SupportsGpuStates,
    SupportsImagePulls,
    SupportsMetrics,
    SupportsStartPreparation,
    TaskDiskUsage,
    TaskProcess,
    ignore_health_change,
)
from .queue_waits import QueueWait, SupportsQueueWaits

log = logging.getLogger(__name__)

OBSERVE_TIMEOUT = 25.0  # seconds; then the tasks of an engine are unreachable


class EngineSet:
    def __init__(self, engines: Sequence[Engine], *, retired: Collection[str] = ()) -> None:
        """The first engine is the default one. `retired`: names of engines that start no new tasks."""
        self._engines = {engine.name: engine for engine in engines}
        self._retired = frozenset(retired)
        self._names_by_attempt: dict[str, str] = {}  # of attempts that are not removed
        self._nodes: Sequence[Node] | None = None  # cached until the health of an engine changes
        self.name = engines[0].name

    @classmethod
    def wrap(cls, engine: Engine | EngineSet) -> EngineSet:
        return engine if isinstance(engine, EngineSet) else cls([engine])

    # --- which engine -------------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The engines that jobs can choose, the default first."""
        return [name for name in self._engines if name not in self._retired]

    def get_engine(self, name: str) -> Engine:
        """Return an engine by its name; the default one if the name is empty. EngineError if there is no such
        engine."""
        engine = self._engines.get(name or self.name)
        if engine is None:
            raise EngineError(msg("The engine {name} is not configured", name=name))
        return engine

    def pulls_images(self, name: str) -> bool:
        """Return whether an engine pulls images from registries."""
        return isinstance(self._engines.get(name or self.name), SupportsImagePulls)

    def knows_images(self, name: str) -> bool:
        """Return whether the images of an engine are known: not while its daemon does not respond."""
        return all(condition.kind is not ConditionKind.ENGINE for condition in self.find_health(name).conditions)

    def has_host_image(self, name: str) -> bool:
        """Return whether tasks of an engine can use the image `host`."""
        return self.find_health(name).has_host_image

    def __iter__(self) -> Iterator[Engine]:
        return iter(self._engines.values())

    def assign_attempts(self, names: Mapping[str, str]) -> None:
        """Record which engine runs which attempt."""
        self._names_by_attempt.update((id, name or self._find_name_by_logs(id)) for id, name in names.items())

    def _find_engine(self, attempt_id: str) -> Engine:
        """Return the engine of an attempt. For one that was removed, the engine that has its logs."""
        return self.get_engine(self._names_by_attempt.get(attempt_id) or self._find_name_by_logs(attempt_id))

    def _find_name_by_logs(self, attempt_id: str) -> str:
        if len(self._engines) == 1:
            return self.name
        found = (name for name, engine in self._engines.items() if engine.open_log(attempt_id, LogStream.STDOUT))
        return next(found, self.name)

    def _group_by_engine(self, attempt_ids: Iterable[str]) -> dict[str, list[str]]:
        groups: dict[str, list[str]] = {}
        for attempt_id in attempt_ids:
            name = self._names_by_attempt.get(attempt_id) or self._find_name_by_logs(attempt_id)
            groups.setdefault(name, []).append(attempt_id)
        return groups

    # --- opening and health -------------------------------------------------------------------------------------------

    async def open(
        self, on_change: Callable[[Observation], None], on_health: Callable[[], None] = ignore_health_change
    ) -> None:
        def handle_health_change() -> None:
            self._nodes = None
            on_health()

        for engine in self:
            await engine.open(on_change, handle_health_change)

    async def complete_checks(self) -> None:
        for engine in self:
            if isinstance(engine, SupportsChecks):
                await engine.complete_checks()

    async def close(self) -> None:
        await asyncio.gather(*(engine.close() for engine in self))

    def get_health(self) -> EngineHealth:
        """Return the health of the default engine, with the conditions of all. Starts are blocked when no engine can
        start tasks; one of several that cannot is left out of its nodes."""
        health = self.get_engine("").get_health()
        if len(self._engines) == 1:
            return health
        present = [engine for engine in self if engine.name not in self._retired or self._has_attempts(engine.name)]
        conditions = [
            replace(condition, engine=engine.name) for engine in present for condition in engine.get_health().conditions
        ]
        if not all(self._find_obstacle(engine) for engine in self):
            conditions = [_limit_to_engine(condition) for condition in conditions]
        others = [engine for engine in present[1:] if not self._find_obstacle(engine)]
        notes = [note for engine in others for note in _describe_other_engine(engine.get_health())]
        return replace(health, notes=(*health.notes, *notes), conditions=tuple(conditions))

    def _has_attempts(self, name: str) -> bool:
        return name in self._names_by_attempt.values()

    def find_health(self, name: str) -> EngineHealth:
        """Return the health of an engine; of the default one if there is no such engine."""
        return self._engines.get(name, self._engines[self.name]).get_health()

    def list_health(self) -> list[EngineHealth]:
        return [engine.get_health() for engine in self]

    def _find_obstacle(self, engine: Engine) -> str:
        """Return why the engine cannot start tasks now; empty if it can."""
        if engine.name in self._retired:
            return msg("The engine {name} takes no new tasks.", name=engine.name)
        return next((each.message for each in list_blocking_conditions(engine.get_health().conditions)), "")

    def list_nodes(self) -> Sequence[Node]:
        """Return the nodes of all engines. Engines on the same machine share its node."""
        if len(self._engines) == 1:
            return self.get_engine("").list_nodes()
        if self._nodes is None:
            self._nodes = self._merge_nodes()
        return self._nodes

    def _merge_nodes(self) -> Sequence[Node]:
        nodes: dict[str, Node] = {}
        for engine in self:
            obstacle = self._find_obstacle(engine)
            for node in engine.list_nodes():
                reason = obstacle or node.engines.get(engine.name, "")
                known = nodes.get(node.name, replace(node, engines={}))
                nodes[node.name] = replace(known, engines={**known.engines, engine.name: reason})
        return list(nodes.values())

    async def list_images(self) -> Sequence[ImageSummary]:
        if len(self._engines) == 1:
            return await self.get_engine("").list_images()
        found: list[ImageSummary] = []
        for engine in self:
            with suppress(EngineError):  # its images are unknown while it does not respond
                found += [replace(image, engine=engine.name) for image in await engine.list_images()]
        return found

    # --- life of a task -----------------------------------------------------------------------------------------------

    def prepare_start(self) -> None:
        for engine in self:
            if isinstance(engine, SupportsStartPreparation):
                engine.prepare_start()

    async def start(self, launch: LaunchSpec) -> Observation:
        self._names_by_attempt[launch.attempt_id] = launch.engine or self.name
        return await self._find_engine(launch.attempt_id).start(launch)

    async def observe(self, attempt_ids: Collection[str]) -> dict[str, Observation]:
        groups = self._group_by_engine(attempt_ids)
        found = await asyncio.gather(*(self._observe_on_engine(name, ids) for name, ids in groups.items()))
        return {id: seen for each in found for id, seen in each.items()}

    async def _observe_on_engine(self, name: str, attempt_ids: list[str]) -> dict[str, Observation]:
        try:
            async with asyncio.timeout(OBSERVE_TIMEOUT):
                return await self.get_engine(name).observe(attempt_ids)
        except EngineError as error:
            if len(attempt_ids) > 1:  # perhaps only one of them cannot be observed
                found = await asyncio.gather(*(self._observe_on_engine(name, [id]) for id in attempt_ids))
                return {id: seen for each in found for id, seen in each.items()}
            return _make_unreachable(attempt_ids, str(error))
        except TimeoutError:
            return _make_unreachable(attempt_ids, msg("The engine {name} did not respond", name=name))

    async def append_log(self, attempt_id: str, key: str, text: str) -> None:
        await self._find_engine(attempt_id).append_log(attempt_id, key, text)

    async def stop(self, attempt_id: str, grace: float) -> None:
        await self._find_engine(attempt_id).stop(attempt_id, grace)

    async def remove(self, attempt_id: str) -> None:
        await self._find_engine(attempt_id).remove(attempt_id)
        self._names_by_attempt.pop(attempt_id, None)

    async def list_attempts(self) -> Sequence[str]:
        found: list[str] = []
        for engine in self:
            try:
                listed = await engine.list_attempts()
            except EngineError as error:
                if len(self._engines) == 1:
                    raise
                log.warning("could not list tasks; retrying", extra={"event": "strays", "error": repr(error)})
                continue
            for attempt_id in listed:
                self._names_by_attempt.setdefault(attempt_id, engine.name)
            found += listed
        return found

    # --- logs and files -----------------------------------------------------------------------------------------------

    def open_log(self, attempt_id: str, stream: LogStream) -> LogSource | None:
        with suppress(EngineError):
            return self._find_engine(attempt_id).open_log(attempt_id, stream)
        return None

    async def remove_logs(self, attempt_id: str) -> None:
        await self._find_engine(attempt_id).remove_logs(attempt_id)

    def collect_artifacts(self, attempt_id: str, sink: ArtifactSink) -> None:
        engine = self._find_engine(attempt_id)
        if isinstance(engine, SupportsArtifacts):
            engine.collect_artifacts(attempt_id, sink)

    async def explain_queue_wait(self, attempt_ids: Collection[str]) -> QueueWait | None:
        """Explain why a task waits in the queue of its engine; None if none of them does."""
        for name, ids in self._group_by_engine(attempt_ids).items():
            engine: object = self._engines.get(name)
            if isinstance(engine, SupportsQueueWaits):
                with suppress(EngineError):
                    if (wait := await engine.explain_queue_wait(ids)) is not None:
                        return wait
        return None

    # --- inside a task ------------------------------------------------------------------------------------------------

    def supports_exec(self, attempt_id: str) -> bool:
        """Return whether commands can run in this task while it exists."""
        with suppress(EngineError):
            return isinstance(self._find_engine(attempt_id), SupportsExec)
        return False

    def _find_exec_engine(self, attempt_id: str) -> SupportsExec:
        engine = self._find_engine(attempt_id)
        if not isinstance(engine, SupportsExec):
            raise ExecRefused(msg("The engine {name} cannot run commands in tasks", name=engine.name))
        return engine

    async def open_session(self, attempt_id: str, command: ExecCommand) -> ExecSession:
        return await self._find_exec_engine(attempt_id).open_session(attempt_id, command)

    async def connect_port(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await self._find_exec_engine(attempt_id).connect_port(attempt_id, port)

    async def revive_task(self, launch: LaunchSpec) -> None:
        await self._find_exec_engine(launch.attempt_id).revive_task(launch)

    async def list_processes(self, attempt_id: str) -> Sequence[TaskProcess]:
        return await self._find_exec_engine(attempt_id).list_processes(attempt_id)

    # --- usage --------------------------------------------------------------------------------------------------------

    def _list_disk_engines(self) -> list[SupportsDiskLimits]:
        return [engine for engine in self if isinstance(engine, SupportsDiskLimits)]

    async def measure_tasks(self, attempt_ids: Collection[str]) -> Mapping[str, Reading]:
        found: dict[str, Reading] = {}
        for name, ids in self._group_by_engine(attempt_ids).items():
            engine: object = self._engines.get(name)
            if isinstance(engine, SupportsMetrics):
                found.update(await engine.measure_tasks(ids))
        return found

    async def read_gpu_states(self) -> Mapping[str, Sequence[GpuState]]:
        found: dict[str, Sequence[GpuState]] = {}
        for engine in self:
            if isinstance(engine, SupportsGpuStates):
                found.update(await engine.read_gpu_states())
        return found

    async def measure_disk(self) -> Mapping[str, TaskDiskUsage]:
        found: dict[str, TaskDiskUsage] = {}
        for engine in self._list_disk_engines():
            found.update(await engine.measure_disk())
        return found

    async def trim_logs(self, keep: int, wanted: int, *, ended: bool = False) -> int:
        freed = 0
        for engine in self._list_disk_engines():
            if freed < wanted:
                freed += await engine.trim_logs(keep, wanted - freed, ended=ended)
        return freed

    async def stop_task_for_full_disk(
        self, attempt_id: str, use: TaskDiskUsage, free: int, grace: float, *, files: bool = False
    ) -> None:
        engine = self._find_engine(attempt_id)
        if isinstance(engine, SupportsDiskLimits):
            await engine.stop_task_for_full_disk(attempt_id, use, free, grace, files=files)

    def record_disk_full(self, seconds_ago: float = 0.0) -> None:
        for engine in self._list_disk_engines():
            engine.record_disk_full(seconds_ago)

    async def measure_ended_tasks(self, attempt_ids: Collection[str]) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for name, ids in self._group_by_engine(attempt_ids).items():
            engine: object = self._engines.get(name)
            if isinstance(engine, SupportsDiskLimits):
                found.update(await engine.measure_ended_tasks(ids))
        return found

    async def measure_logs_by_job(self, timeout: float) -> tuple[Mapping[str, LogUsage], bool]:
        found: dict[str, LogUsage] = {}
        complete = True
        for engine in self._list_disk_engines():
            usages, whole = await engine.measure_logs_by_job(timeout)
            complete = complete and whole
            for job_id, usage in usages.items():
                known = found.get(job_id, LogUsage())
                found[job_id] = LogUsage(known.bytes + usage.bytes, known.tasks + usage.tasks)
        return found, complete


def _limit_to_engine(condition: Condition) -> Condition:
    """Return the condition of one engine while another one starts tasks."""
    if not condition.blocks_starts:
        return condition
    text = msg("{problem} Jobs on other engines are not affected.", problem=condition.message)
    return replace(condition, message=text, blocks_starts=False)


def _describe_other_engine(health: EngineHealth) -> list[str]:
    first = msg(
        "Jobs can also use the engine {name} (isolation: {isolation}, limits: {limits}).",
        name=health.name,
        isolation=health.isolation.value,
        limits=health.limits,
    )
    return [first, *(msg("{engine}: {note}", engine=health.name, note=note) for note in health.notes)]


def _make_unreachable(attempt_ids: Iterable[str], why: str) -> dict[str, Observation]:
    state = ObservedState.UNREACHABLE
    return {id: Observation(attempt_id=id, seen=state, message=why) for id in attempt_ids}
