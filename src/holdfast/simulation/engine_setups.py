"""The engines of a simulation: how each is built, prepared and cleaned up, and what it says about images."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from holdfast.core.attempt import ObservedState
from holdfast.core.errors import UserError
from holdfast.core.job import HOST_IMAGE, Mount
from holdfast.core.volumes import HostFolder
from holdfast.engines.base import Engine, EngineHealth, LaunchSpec
from holdfast.engines.embedded import cgroups
from holdfast.engines.embedded.engine import EmbeddedEngine
from holdfast.engines.embedded.tree_removal import remove_tree
from holdfast.services.name_suggestions import suggest_name
from holdfast.settings import Settings
from holdfast.start_options import build_engine_options

from .engine_choice import PODMAN, EngineChoice
from .homes import STAND_INS_FOLDER
from .podman_service import PodmanService

_REMOVE_TIMEOUT = 30.0  # seconds for a container to delete the files that other containers left
_REMOVE_INTERVAL = 0.05  # seconds between two looks at it
_REMOVE_SCRIPT = "rm -rf /stand-ins/* /stand-ins/.[!.]*"


class EngineSetup:
    name = ""  # sandbox, docker or podman
    engine: Engine
    pull_hint = ""  # for an image that cannot be pulled, with {image}
    last_launch: LaunchSpec | None = None  # of this simulation

    def __init__(self, settings: Settings) -> None:
        self.pulls_unknown = settings.images.unknown == "pull"
        self.uses_host_for_unknown = settings.images.unknown == "host"

    async def prepare(self) -> None:
        """Prepare what the engine needs. UserError if that is not possible."""

    def check_health(self, health: EngineHealth) -> None:
        """Raise UserError if the engine cannot be used."""

    async def remove_files(self) -> None:
        """Remove files of tasks that this user cannot delete."""

    async def clean_up(self) -> None:
        """Remove what `prepare` and the engine left, after it was closed."""

    def list_notes(self, health: EngineHealth) -> Sequence[str]:
        return health.notes

    async def is_image_present(self, image: str) -> bool:
        """Return whether the image exists under another kind of name than those in the list of images."""
        return False

    def find_host_image_problem(self) -> tuple[str, str] | None:
        return None

    def describe_missing_image(self, image: str, known: Sequence[str]) -> tuple[str, str]:
        raise NotImplementedError


class SandboxSetup(EngineSetup):
    """The embedded engine. Of the state folder of this user's server, only the images are used."""

    name = "sandbox"

    def __init__(self, home: Path, state: Path, settings: Settings) -> None:
        super().__init__(settings)
        self._home = home
        self._state = state
        self._cgroup_name = f"holdfast-simulation-{home.name}"
        options = build_engine_options(home, settings)
        self.engine = EmbeddedEngine(
            home, replace(options, cgroup=self._cgroup_name, hidden=(*options.hidden, str(state)), scratch_interval=1.0)
        )

    async def prepare(self) -> None:
        await asyncio.to_thread(_copy_image_indexes, self._state / "images", self._home / "images")

    async def clean_up(self) -> None:
        await asyncio.to_thread(_remove_cgroups, self._cgroup_name)

    def describe_missing_image(self, image: str, known: Sequence[str]) -> tuple[str, str]:
        near = suggest_name(image, known)
        how = f"Import it: `docker save {image} -o image.tar`, then `holdfast image import {image} image.tar`."
        other = "Or use the image of Docker or Podman: --with docker."
        return f"The image {image} is not imported", " ".join(filter(None, (near, how, other)))


class ContainerSetup(EngineSetup):
    """The container engine, with the daemon of this user or of the machine."""

    def __init__(self, choice: EngineChoice, home: Path, settings: Settings) -> None:
        super().__init__(settings)
        from holdfast.engines.container import ContainerEngine, ContainerOptions  # the sandbox does not need its client

        self.name = choice.name
        self.uses_host_for_unknown = False
        self.pull_hint = f"Pull it with your credentials: `{self.name} pull {{image}}`."
        self._service = PodmanService(choice.socket) if choice.name == PODMAN else None
        self._socket = choice.socket
        self._stand_ins = home / STAND_INS_FOLDER
        options = build_engine_options(home, settings)
        fields = {each.name: getattr(options, each.name) for each in dataclasses.fields(options)}
        self._containers = ContainerEngine(home, ContainerOptions(socket=self._socket, guards_state=False, **fields))
        self.engine = self._containers

    async def prepare(self) -> None:
        if self._service is not None:
            await self._service.start()

    async def clean_up(self) -> None:
        if self._service is not None:
            await self._service.stop()

    def check_health(self, health: EngineHealth) -> None:
        for condition in health.conditions:
            if not os.access(self._socket, os.W_OK) and Path(self._socket).exists():
                raise UserError(
                    f"You have no access to {self._socket}",
                    hint="Ask an admin to add you to the group docker, then log in again.",
                )
            reason = (
                condition.detail
                or condition.message.removeprefix("Jobs on the engine docker stay pending: ").capitalize()
            )
            raise UserError(
                f"{self.name} cannot be used: {reason}",
                hint="Check that its service is running. Set DOCKER_HOST if its socket has another path.",
            )

    def list_notes(self, health: EngineHealth) -> Sequence[str]:
        from holdfast.engines.container.limitations import NO_INSPECTION_NOTE, SERVER_ONLY_NOTES

        notes = [f"Tasks run in {self.name} containers as root, with the host's network."]
        if NO_INSPECTION_NOTE in health.notes:
            notes.append("Listening ports are not checked: that requires root on this machine.")
        return [*notes, *(note for note in health.notes if note not in SERVER_ONLY_NOTES)]

    async def is_image_present(self, image: str) -> bool:
        return await self._containers.is_image_present(image)

    def find_host_image_problem(self) -> tuple[str, str]:
        return (
            f"{self.name} cannot run the image {HOST_IMAGE}, which is this machine itself",
            "Use --with sandbox, or another image.",
        )

    def describe_missing_image(self, image: str, known: Sequence[str]) -> tuple[str, str]:
        near = suggest_name(image, known)
        how = f"Pull it: `{self.name} pull {image}`, or use `{self.name} load`."
        return f"{self.name} has no image {image}", " ".join(filter(None, (near, how)))

    async def remove_files(self) -> None:
        """Remove the stand-ins. Folders that a container created in them belong to root, so one more deletes them."""
        if await asyncio.to_thread(remove_tree, str(self._stand_ins)) or self.last_launch is None:
            return
        launch = replace(
            self.last_launch,
            attempt_id=f"{self.last_launch.attempt_id}.clean",
            script=_REMOVE_SCRIPT,
            entry="",
            shell_options=(),
            env={},
            ports={},
            gpus=(),
            workdir=None,
            mounts=(Mount(volume=HostFolder(str(self._stand_ins)), target="/stand-ins", read_only=False),),
        )
        seen = await self.engine.start(launch)
        with suppress(TimeoutError):
            async with asyncio.timeout(_REMOVE_TIMEOUT):
                while seen.seen is ObservedState.RUNNING:
                    await asyncio.sleep(_REMOVE_INTERVAL)
                    seen = (await self.engine.observe([launch.attempt_id]))[launch.attempt_id]


def _copy_image_indexes(theirs: Path, ours: Path) -> None:
    """Copy the index file of each image; the image's own files are used where they are."""
    ours.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):
        for index in theirs.glob("*.json"):
            with suppress(OSError):
                shutil.copyfile(index, ours / index.name)


def _remove_cgroups(name: str) -> None:
    groups, _ = cgroups.find_cgroups(name=name)
    for _, parent in groups.parents if groups else ():
        with os.scandir(parent) as entries:
            inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        cgroups.remove_cgroup((*inner, parent))
