"""Starts one task in a container, exactly once.

The order of steps is the protocol: lock the server's claim, check that it never ran, write its files and the start
note, create the container, start it. After any error of the daemon the container is inspected: the request may have
been carried out. If it is started twice all the same, the runner inside takes its own claim, and the second exits.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.errors import EngineError, sanitize_output
from holdfast.core.exits.exit import Cause
from holdfast.core.job import HOST_IMAGE
from holdfast.core.messages import msg
from holdfast.engines.base import LaunchSpec
from holdfast.engines.embedded.lifecycle.disk_limits import ThreadRunner
from holdfast.engines.embedded.lifecycle.task_folders import TaskFolders
from holdfast.engines.embedded.lifecycle.task_starter import check_launch
from holdfast.engines.embedded.lifecycle.user_files import check_note_size, describe_missing_support, make_root_warning
from holdfast.engines.embedded.task_folder import is_safe_id, try_lock
from holdfast.engines.embedded.tree_removal import remove_tree
from holdfast.engines.sandbox_paths import LIBRARY_PATH
from holdfast.engines.start_refusal import StartRefused
from holdfast.engines.task_program import TaskProgram, build_task_program
from holdfast.engines.task_user import TaskUser, is_root_user

from .container_folder import ContainerFolder
from .daemon import ContainerImage, Daemon, DaemonError
from .image_pulls import ContainerImages
from .image_users import ImageUsers
from .limitations import DaemonDescription, find_task_warning
from .mount_staging import MountStaging
from .names import ContainerNames
from .options import ContainerOptions
from .render import ContainerLimits, ContainerMount, render_create_body
from .task_end import NO_PROGRAM_CODES
from .task_files import create_task_files, create_user_files, list_own_mounts, make_start_note

_LOCK_TIMEOUT = 150.0  # seconds to wait for another server that starts the same task
_LOCK_INTERVAL = 0.02  # seconds between two attempts to lock
_NAME_IN_USE = "in use"  # in the error of a container name that is taken
_CGROUPS_SIZE = 2048  # bytes reserved in the start note for the container's cgroups, which are known once it runs
_MAX_REASON_SIZE = 500  # bytes of the daemon's error that are shown


@dataclass(eq=False)
class ContainerStarter:
    options: ContainerOptions
    daemon: Daemon
    names: ContainerNames
    folders: TaskFolders
    images: ContainerImages
    users: ImageUsers
    staging: MountStaging
    run_in_thread: ThreadRunner
    unwatched_attempts: set[str]  # the attempts that are being started, until they are watched
    boot: str
    library: str = ""  # folder with the packages of every task
    description: DaemonDescription = field(default_factory=DaemonDescription)  # as last seen

    async def start_task(self, launch: LaunchSpec) -> None:
        """Start it, unless it was started before; observe it then. StartRefused if nothing of it runs or is left."""
        check_attempt_id(launch.attempt_id)
        folder = await self.run_in_thread(lambda: self._create_folder(launch.attempt_id))
        async with self._lock_claim(folder):
            if await self.run_in_thread(lambda: self._was_started(folder)):
                return
            try:
                await self._start_locked_task(launch, folder)
            except (StartRefused, OSError) as error:
                self.unwatched_attempts.discard(launch.attempt_id)
                await self.run_in_thread(lambda: remove_tree(folder.path))
                raise _to_refusal(error) from error
            except BaseException:
                self.unwatched_attempts.discard(launch.attempt_id)
                raise

    def _create_folder(self, attempt_id: str) -> ContainerFolder:
        folder = self.folders.get_folder(attempt_id)
        assert isinstance(folder, ContainerFolder)
        folder.create()
        return folder

    @asynccontextmanager
    async def _lock_claim(self, folder: ContainerFolder) -> AsyncIterator[None]:
        """Lock the server's claim. Another server that starts the same task holds it for seconds at most."""
        until = asyncio.get_running_loop().time() + _LOCK_TIMEOUT
        while (claim := await self.run_in_thread(lambda: _try_lock_claim(folder))) is None:
            if asyncio.get_running_loop().time() > until:
                raise EngineError(msg("another server is starting the same task"))
            await asyncio.sleep(_LOCK_INTERVAL)
        try:
            yield
        finally:
            os.close(claim)

    def _was_started(self, folder: ContainerFolder) -> bool:
        """Return whether its commands ran, or may have run before the machine restarted."""
        note = folder.read_start_note()
        claim = folder.read_claim()
        recorded = claim.pid is not None or claim.code is not None or bool(claim.lost)
        return recorded or folder.read_report().claimed or (note is not None and note.boot != self.boot)

    async def _start_locked_task(self, launch: LaunchSpec, folder: ContainerFolder) -> None:
        name = self.names.make_name(launch.attempt_id)
        if folder.read_start_note() is not None and await self._is_started_container(name):
            return  # by a server that died before it recorded that
        self.unwatched_attempts.add(launch.attempt_id)  # before a log exists that could be taken for a complete one
        await self.run_container(name, launch, folder, folder)

    async def run_container(
        self, name: str, launch: LaunchSpec, folder: ContainerFolder, home_folder: ContainerFolder
    ) -> None:
        """Create and start a container with the files of `folder`, and the home in `home_folder`."""
        if launch.gpus and self.description.podman:  # it ignores requests for GPUs
            text = msg("Tasks cannot use GPUs with Podman. Use Docker, or the embedded engine.")
            raise StartRefused(text, cause=Cause.NOT_ALLOWED)
        image = await self._find_image(launch.image)
        user, warning = await self._find_user(launch, image)
        library = LIBRARY_PATH if self.library else ""
        program = build_task_program(launch, image.env, library=library, user=user, workdir=image.workdir)
        mounts = await self.run_in_thread(lambda: self._write_files(launch, folder, program, user, warning))
        home = home_folder if self.options.has_root else None
        try:
            staged = await self.run_in_thread(lambda: self.staging.stage_mounts(name, mounts))
            own = list_own_mounts(folder, home, launch, user, self.library)
            await self._create_container(name, launch, program.argv, image, user, [*own, *staged])
            await self._start_container(name, launch.image)
        finally:
            if mounts:
                await asyncio.shield(self.run_in_thread(lambda: self.staging.unstage_mounts(name)))

    async def _find_user(self, launch: LaunchSpec, image: ContainerImage) -> tuple[TaskUser | None, str]:
        """Return the user to become, None for root, and a warning if this machine cannot do it."""
        if not launch.as_image_user or is_root_user(image.user):
            return None, ""
        if why := describe_missing_support():
            return None, make_root_warning(image.user, why)
        return await self.users.find_user(launch.image, image), ""

    def _write_files(
        self, launch: LaunchSpec, folder: ContainerFolder, program: TaskProgram, user: TaskUser | None, warning: str
    ) -> Sequence[ContainerMount]:
        """Write the task's files, and return the mounts of other folders."""
        check_launch(launch)
        mounts = self.staging.resolve_mounts(launch.mounts)
        if mounts:
            folder.write_mounts([(mount.target, mount.source) for mount in mounts])
        create_task_files(folder, program.files)
        if user is not None:
            create_user_files(folder, launch, user)
        has_root = self.options.has_root
        warning = warning or find_task_warning(self.description, launch, has_root=has_root)
        note = make_start_note(launch, self.boot, user, keeps_home=has_root, warning=warning)
        check_note_size(note, _CGROUPS_SIZE)
        folder.write_start_note(note)
        return mounts

    async def _create_container(
        self,
        name: str,
        launch: LaunchSpec,
        argv: Sequence[str],
        image: ContainerImage,
        user: TaskUser | None,
        mounts: Sequence[ContainerMount],
    ) -> None:
        limits = ContainerLimits(
            pids_max=self.options.pids_max, default_shm=self.options.default_shm, network=self.options.network
        )
        labels = self.names.make_labels(launch.attempt_id, launch.job_id, launch.task)
        body = render_create_body(launch, argv, image, user, labels, mounts, limits)
        try:
            await self.daemon.create(name, body)
        except DaemonError as error:
            found = await self.daemon.inspect(name)
            if found is None and _NAME_IN_USE in str(error):
                await self.daemon.release_name(name)
            elif found is None or not found.own:
                raise _make_start_refusal(str(error)) from error
            elif found.started:
                return
            else:  # left by a server that died: its mounts may be others by now
                await self.daemon.remove(name, force=False)
            await self._create_again(name, body)

    async def _create_again(self, name: str, body: Mapping[str, Any]) -> None:
        try:
            await self.daemon.create(name, body)
        except DaemonError as error:
            raise _make_start_refusal(str(error)) from error

    async def _start_container(self, name: str, image: str) -> None:
        try:
            await self.daemon.start(name)
        except DaemonError as error:
            found = await self.daemon.inspect(name)
            if found is not None and (found.started or found.is_running):
                return
            await self.daemon.remove(name, force=False)
            if found is not None and found.code in NO_PROGRAM_CODES:
                raise make_no_shell_refusal(image) from error
            raise _make_start_refusal(found.error if found and found.error else str(error)) from error

    async def _is_started_container(self, name: str) -> bool:
        found = await self.daemon.inspect(name)
        return found is not None and found.own and found.was_started

    async def _find_image(self, name: str) -> ContainerImage:
        """Return the image of this name. In a simulation, the user may name it in every way that the daemon knows."""
        if name == HOST_IMAGE:  # the engine of its group was changed after its submission
            text = msg("The engine docker has no image `host`. Set `image` in the job.")
            raise StartRefused(text, cause=Cause.IMAGE_MISSING)
        exact = await self.images.find_exact_name(name) if self.options.guards_state else name
        image = await self.daemon.find_image(exact) if exact else None
        if image is None:
            known = ", ".join(self.images.list_public_names())
            text = msg("Image {image} not found. Available images: {known}.", image=repr(name), known=known)
            raise StartRefused(text, cause=Cause.IMAGE_MISSING)
        return image


def check_attempt_id(attempt_id: str) -> None:
    if not is_safe_id(attempt_id):
        raise StartRefused(msg("The attempt ID {attempt_id} is not a valid file name.", attempt_id=repr(attempt_id)))


def make_no_shell_refusal(image: str) -> StartRefused:
    text = msg("The image {image} has no shell: it contains neither bash nor sh.", image=repr(image))
    return StartRefused(text, cause=Cause.NO_SHELL)


def _make_start_refusal(reason: str) -> StartRefused:
    shown = sanitize_output(reason.encode()[:_MAX_REASON_SIZE])
    text = msg("The container does not start: {reason}", reason=shown)
    return StartRefused(text, cause=Cause.START_FAILED, transient=True)


def _to_refusal(error: StartRefused | OSError) -> StartRefused:
    if isinstance(error, StartRefused):
        return error
    text = msg("The machine cannot start the task: {error}", error=error.strerror or error)
    return StartRefused(text, cause=Cause.START_FAILED, transient=True)


def _try_lock_claim(folder: ContainerFolder) -> int | None:
    """Return the locked claim; None if another server has locked it, or has just removed the folder."""
    try:
        claim = folder.open_claim()
    except FileNotFoundError:
        folder.create()
        return None
    if try_lock(claim) and _is_same_file(claim, folder["claim"]):
        return claim
    os.close(claim)
    return None


def _is_same_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False
