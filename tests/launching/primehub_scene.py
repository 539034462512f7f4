"""Placed PrimeHub jobs, and groups' folders around them, for a real engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdfast.core.job import MIB, Job, JobFormat, Mount, Resources
from holdfast.core.volumes import HostFolder, SharedFolder
from holdfast.engines.base import LaunchSpec
from holdfast.engines.embedded import EmbeddedOptions
from holdfast.jobspec import Defaults, parse_job
from holdfast.launching import ArtifactLimits, PrimeHubContext, PrimeHubSettings

from .scene import Ran, launch_of, placed, run

DEFAULTS = Defaults(instance_types={"cpu-1": Resources(cpu=1.0, memory=512 * MIB)})
ARTIFACTS = ArtifactLimits(bytes=100 * MIB, files=1000, keep=timedelta(days=7))
JOB_ID = "job-202601020304-abc123"


def primehub_job(command: str, *, group: str = "Team_A", **form: Any) -> Job:
    whole = {
        "displayName": "a job",
        "instanceType": "cpu-1",
        "image": "host",
        "command": command,
        "groupName": group,
        **form,
    }
    return parse_job(json.dumps(whole), dialect=JobFormat.PRIMEHUB, defaults=DEFAULTS).job


@dataclass
class Place:
    """A group Team_A with volume and files, and whatever else a test adds."""

    root: Path
    mounts: list[Mount] = field(default_factory=list)
    others: dict[str, SharedFolder] = field(default_factory=dict)

    @property
    def volume(self) -> Path:
        return self._made("Team_A/volume")

    @property
    def files(self) -> Path:
        return self._made("Team_A/files")

    def dataset(self, name: str, *, read_only: bool = True, target: str = "") -> Path:
        folder = self._made(f"datasets/{name}")
        mount = Mount(
            volume=HostFolder(str(folder)), target=target or f"/mnt/dataset-{name}", read_only=read_only, dataset=name
        )
        self.mounts.append(mount)
        return folder

    def other(self, path: str) -> Path:
        folder = self._made(f"{path}/volume")
        self.others[path] = SharedFolder(folder=str(folder), path=f"{path}/volume")
        return folder

    def launch(self, command: str | Job, *, platform: PrimeHubSettings | None = None, **more: Any) -> LaunchSpec:
        job = primehub_job(command) if isinstance(command, str) else command
        role = replace(job.roles[0], mounts=tuple(self.mounts))
        volume = SharedFolder(folder=str(self.volume), path="Team_A/volume") if more.pop("volume", True) else None
        around = {"isolated": more.pop("isolated", True), "variables": more.pop("variables", {})}
        given = PrimeHubContext(
            platform=platform or PrimeHubSettings(timezone="Asia/Taipei", artifacts=ARTIFACTS),
            other_volumes=self.others,
            **more,
        )
        snapshot = placed(replace(job, roles=(role,)), id=JOB_ID)
        files = SharedFolder(folder=str(self.files), path="Team_A/files")
        return launch_of(snapshot, volume=volume, files=files, primehub=given, **around)

    def run(self, command: str | Job, options: EmbeddedOptions | None = None, **more: Any) -> Ran:
        """Without a sandbox, if the options say so."""
        if options is not None and options.isolation == "off":
            more["isolated"] = False
        return run(self.root / "home", self.launch(command, **more), options)

    def lines(self, command: str | Job, options: EmbeddedOptions | None = None, **more: Any) -> list[str]:
        """What it printed; it has to succeed."""
        ran = self.run(command, options, **more)
        assert ran.code == 0, ran.out + ran.err
        return ran.out.splitlines()

    def _made(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def echo(names: Sequence[str]) -> str:
    return "; ".join(f'echo "{name}=${{{name}-unset}}"' for name in names)


def as_lines(values: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in values.items()]
