"""Placed OpenPAI jobs to build launches from, and a real engine to run them on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.core.attempt import JobSnapshot, TaskAttempt
from holdfast.core.job import MIB, Job, JobFormat
from holdfast.core.states import TaskState
from holdfast.engines.base import LaunchSpec, LogStream
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.jobspec import parse_job
from holdfast.launching import AttemptLaunchBuilder, LaunchContext
from tests.contracts.engine_contract import Rig, read_all
from tests.engines.scenarios import play

ADDRESSES = {"node-a": "10.0.0.11", "node-b": "10.0.0.12"}
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PLUGINS = "com.microsoft.pai.runtimeplugin"


def v2_job(commands: list[str], **more: Any) -> Job:
    """A job of one role `worker`; keys of the role and of the file can be given."""
    role = {
        "dockerImage": "image",
        "resourcePerInstance": {"cpu": 1, "memoryMB": 512, "gpu": 0},
        "commands": commands,
        **more.pop("role", {}),
    }
    config = {
        "protocolVersion": 2,
        "name": "job",
        "type": "job",
        "prerequisites": [{"type": "dockerimage", "name": "image", "uri": "host"}, *more.pop("prerequisites", [])],
        "taskRoles": {"worker": role},
        **more,
    }
    return parse(config)


def with_plugins(commands: list[str], *calls: Mapping[str, Any], **more: Any) -> Job:
    extras = {**more.pop("extras", {}), PLUGINS: list(calls)}
    return v2_job(commands, extras=extras, **more)


def v1_job(command: str, **more: Any) -> Job:
    role = {"name": "worker", "command": command, "memoryMB": 512, **more.pop("role", {})}
    return parse({"jobName": "job", "image": "host", "taskRoles": [role], **more}, JobFormat.OPENPAI_V1)


def parse(config: Mapping[str, Any], dialect: JobFormat = JobFormat.OPENPAI_V2) -> Job:
    return parse_job(json.dumps(config), dialect=dialect).job


def placed(job: Job, *, unplaced: int = 0, id: str = "j1", ports_from: int = 20_000) -> JobSnapshot:
    """Every task on a machine, turn by turn, with ports in order; the last `unplaced` still wait."""
    port = iter(range(ports_from, 65_536))
    tasks = []
    for role in job.roles:
        for index in range(role.instances):
            ports = {label: tuple(next(port) for _ in range(count)) for label, count in role.ports.items()}
            node = list(ADDRESSES)[len(tasks) % 2]
            tasks.append(
                TaskAttempt(
                    role=role.name, index=index, state=TaskState.PREPARING, node=node, ports=ports, placed_at=AT
                )
            )
    for number in range(len(tasks) - unplaced, len(tasks)):
        tasks[number] = TaskAttempt(role=tasks[number].role, index=tasks[number].index)
    return JobSnapshot(id=id, job=job, user="alice", submitted_at=AT, tasks=tuple(tasks))


def launch_of(job: Job | JobSnapshot, number: int = 0, **surroundings: Any) -> LaunchSpec:
    snapshot = placed(job) if isinstance(job, Job) else job
    given = LaunchContext(**{"addresses": ADDRESSES, **surroundings})
    return AttemptLaunchBuilder(snapshot).build_launch(snapshot.tasks[number], given)


class Ran:
    """How a task went on a real engine."""

    def __init__(self, code: int | None, out: bytes, err: bytes) -> None:
        self.code, self.raw, self.err = code, out, err.decode()

    @property
    def out(self) -> str:
        return self.raw.decode()


def run(home: Path, job: Job | LaunchSpec, options: EmbeddedOptions | None = None, **surroundings: Any) -> Ran:
    launch = job if isinstance(job, LaunchSpec) else launch_of(job, **surroundings)
    # Ports are made up here, and a machine may use them.
    launch = replace(launch, ports={}, resources=replace(launch.resources, memory=512 * MIB))
    found: list[Ran] = []

    async def scenario(rig: Rig) -> None:
        seen = await rig.engine.start(launch)
        end = await rig.end_of(launch.attempt_id)
        assert end.code is not None, (seen, end)
        streams = [
            await read_all(rig.log(launch.attempt_id, stream)) for stream in (LogStream.STDOUT, LogStream.STDERR)
        ]
        found.append(Ran(end.code, *streams))

    play(home, scenario, options)
    return found[0]
