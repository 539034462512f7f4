"""Starts one task, from the checks to the spawned runner. Blocking: runs in a thread.

The order of steps is the protocol: lock the claim, check that it never ran, write the start note, spawn. A crash before
the spawn leaves a folder in which nothing ran; after it, a runner that holds the lock.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from holdfast.core.exits.exit import Cause
from holdfast.core.job import HOST_IMAGE, Mount, Resources
from holdfast.core.messages import msg
from holdfast.engines.base import Isolation, LaunchSpec
from holdfast.engines.sandbox_paths import CGROUP_PATH, HOME_PATH, LIBRARY_PATH, NOTES_PATH, SEARCH_PATH
from holdfast.engines.start_refusal import StartRefused, check_task_program
from holdfast.engines.task_program import make_command, make_command_files, make_gpu_variables, make_task_env

from .. import cgroups
from ..folder_content import StartNote
from ..images.image_store import ImageStore
from ..options import EmbeddedOptions
from ..processes import COOKIE_VARIABLE, HAS_NAMESPACED_PROCESS_LIMIT
from ..sandbox import roots
from ..sandbox.gpus import LIBRARIES_FOLDER, PROGRAMS_FOLDER, make_gpu_binds
from ..sandbox.guard import mask_sys_paths
from ..sandbox.mounts import InvalidMount, get_mount_folder, is_within, make_mount_binds, open_mount_source
from ..sandbox.render import (
    FIRST_MOUNT_FD,
    Bind,
    SandboxRoot,
    render_bwrap_args,
    render_process_limit,
    render_start_command,
)
from ..sandbox.sandbox_layers import SandboxLayers
from ..sandbox.site import SandboxSite, make_host_root, make_image_root
from ..sandbox.spawning import RunnerSpec, spawn_runner
from ..task_folder import TaskFolder, try_lock
from ..tree_removal import remove_tree
from .notes import create_notes_folder
from .port_holders import report_port_in_use
from .task_folders import TaskFolders
from .user_files import add_image_user, check_note_size, create_user_folders, make_artifacts_binds

logger = logging.getLogger(__name__)

SETSID_PATH = shutil.which("setsid", path=SEARCH_PATH)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedTask:
    """A runner that was just spawned."""

    folder: TaskFolder
    note: StartNote
    pid: int


@dataclass(eq=False)
class TaskStarter:
    options: EmbeddedOptions
    site: SandboxSite  # replaced when a better one is found
    layers: SandboxLayers
    images: ImageStore
    folders: TaskFolders
    unwatched_attempts: set[str]  # the spawned attempts until they are watched

    def start_task(self, launch: LaunchSpec, folder: TaskFolder) -> StartedTask | None:
        """Start it. Return None if it was started before: observe it instead."""
        made = _create_folder(folder)
        claim = folder.open_claim()
        try:
            if not try_lock(claim) or os.fstat(claim).st_size > 0 or self._is_from_earlier_boot(folder):
                return None
            return self._start_locked_task(launch, folder, claim)
        except (StartRefused, OSError) as error:
            if made or isinstance(error, StartRefused):
                remove_tree(folder.path)
            if isinstance(error, OSError):
                logger.warning(msg("cannot start %s: %s"), launch.attempt_id, error)
            raise _to_refusal(error) from error
        finally:
            os.close(claim)

    def _is_from_earlier_boot(self, folder: TaskFolder) -> bool:
        """Return whether the machine went down just before it ran: then it may have run or not."""
        note = folder.read_start_note()
        return note is not None and note.boot != self.site.boot

    def _start_locked_task(self, launch: LaunchSpec, folder: TaskFolder, claim: int) -> StartedTask:
        check_launch(launch)
        root = self._add_library(self._make_root(launch, folder))
        roots.create_root_folders(folder, root)
        create_user_folders(folder, root, launch.mounts)
        groups = self._create_cgroups(self.folders.get_machine_wide_name(launch.attempt_id), launch.resources)
        try:
            with ExitStack() as opened:
                order = self._make_runner_spec(launch, folder, root, groups, opened)
                note = self._make_start_note(launch, root, groups)
                check_note_size(note)
                folder.write_start_note(note)
                self.unwatched_attempts.add(
                    launch.attempt_id
                )  # before a log exists that could be taken for a complete one
                pid = spawn_runner(folder, claim, order)
        except BaseException:
            self.unwatched_attempts.discard(launch.attempt_id)
            cgroups.remove_cgroup(groups)
            raise
        return StartedTask(folder=folder, note=note, pid=pid)

    def _create_cgroups(self, name: str, resources: Resources) -> tuple[str, ...]:
        """Create the task's cgroups; none if this machine has no cgroups."""
        if self.site.groups is None:
            return ()
        try:
            return self.site.groups.create_cgroup(name, resources, self.options.pids_max)
        except cgroups.CgroupLost as gone:
            logger.error(msg("resource limits of %s cannot be set: the cgroup %s"), name, gone)
            text = msg(
                "The cgroup {problem}. Mount cgroups at {cgroup_point}, or restart the server.",
                problem=gone,
                cgroup_point=CGROUP_PATH,
            )
            raise StartRefused(text, cause=Cause.START_FAILED, transient=True) from gone

    def _make_start_note(self, launch: LaunchSpec, root: SandboxRoot, groups: tuple[str, ...]) -> StartNote:
        return StartNote(
            boot=self.site.boot,
            at=_get_current_time(),
            sandbox=self.site.isolation is not Isolation.NONE,
            cgroups=groups,
            lower_folders=root.lower_folders,
            warning=root.warning,
            memory=0 if groups else launch.resources.memory,
            home=self._find_home(launch, root),
            scratch=launch.scratch or 0,
            hold=launch.hold,
            gpus=launch.gpus,
            max_processes=self._get_max_processes(),
            user=root.task_user,
            replaces_image=root.replaces_image,
        )

    def _find_home(self, launch: LaunchSpec, root: SandboxRoot) -> str:
        """Return the path of its home in the task's folder."""
        if self.site.isolation is Isolation.NONE:
            return "scratch"
        if is_within(HOME_PATH, [os.path.normpath(mount.target) for mount in launch.mounts]):
            return ""
        return roots.find_home_path(root)

    def _make_root(self, launch: LaunchSpec, folder: TaskFolder) -> SandboxRoot:
        image = None if launch.image == HOST_IMAGE else self.images.find_image(launch.image)
        if image is None:
            if launch.image != HOST_IMAGE and self.options.unknown_image != "host":
                known = ", ".join(self.images.list_names())
                text = msg("Image {image} not found. Available images: {known}.", image=repr(launch.image), known=known)
                raise StartRefused(text, cause=Cause.IMAGE_MISSING)
            root = make_host_root(self.site, self.layers, folder)
            if launch.image == HOST_IMAGE:
                return root
            warning = msg("Image {image} not found, so the task runs on the image `host`.", image=repr(launch.image))
            return replace(root, warning=warning, replaces_image=True)
        if self.site.isolation is Isolation.NONE:
            why = msg("jobs are not isolated on this machine")
            text = msg(
                "The image {image} is not supported: {why}. Use the image `host`.", image=repr(launch.image), why=why
            )
            raise StartRefused(text, cause=Cause.NOT_ALLOWED)
        if image.shell is None:
            text = msg("The image {image} has no shell: it contains neither bash nor sh.", image=repr(launch.image))
            raise StartRefused(text, cause=Cause.NO_SHELL)
        self.images.record_use(image)
        root = make_image_root(self.site, self.layers, image, folder)
        return add_image_user(root, image, self.site.guard.privileged) if launch.as_image_user else root

    def _add_library(self, root: SandboxRoot) -> SandboxRoot:
        library = self.layers.prepare_library()
        return replace(root, library=library, lower_folders=(*root.lower_folders, library)) if library else root

    def _make_runner_spec(
        self, launch: LaunchSpec, folder: TaskFolder, root: SandboxRoot, groups: tuple[str, ...], opened: ExitStack
    ) -> RunnerSpec:
        if self.site.condition is not None:
            raise StartRefused(self.site.condition.message, cause=Cause.START_FAILED, transient=True)
        joins = [f"{group}/cgroup.procs" for group in groups]
        if self.site.isolation is Isolation.NONE:
            cookie = self.folders.get_machine_wide_name(launch.attempt_id)
            return make_unsandboxed_spec(launch, folder, root, joins, cookie)
        variables = dict(make_gpu_variables(launch.gpus, renumbered=True))
        binds = self._prepare_host_binds(launch, root, variables)
        binds.append(Bind(source=create_notes_folder(folder), target=NOTES_PATH, read_only=False))
        if root.library:
            binds.append(Bind(source=root.library, target=LIBRARY_PATH))
        binds += make_artifacts_binds(folder, root, launch.mounts)
        mounts = open_mount_sources(launch, root, opened)
        if mounts:
            folder.write_mounts([(bind.target, bind.source) for bind, _ in mounts])
        binds += [replace(bind, fd=number) for number, (bind, _) in enumerate(mounts, FIRST_MOUNT_FD)]
        if root.workdir and is_within(root.workdir, [bind.target for bind, _ in mounts]):
            launch = replace(launch, workdir=launch.workdir or root.workdir)  # other jobs may have put links there
        if root.task_user:
            launch = replace(launch, workdir=launch.workdir or root.workdir or None)
        env = _make_env(launch, root, HOME_PATH, variables, NOTES_PATH, LIBRARY_PATH if root.library else "")
        files = make_command_files(launch, root.task_user, env if root.task_user else None)
        if root.task_user:  # until the switch to the user, nothing may depend on the job's variables
            env = {"PATH": SEARCH_PATH}
        command = render_start_command(launch, root, make_command(launch, root.shell))
        guard = mask_sys_paths(self.site.guard, self.layers.read_mounts(), self._make_cgroup_binds(groups))
        shm = launch.resources.shm or self.options.default_shm
        return RunnerSpec(
            bwrap=self.site.bwrap,
            base=str(self.folders.home),
            args=render_bwrap_args(launch, root, guard, files, env, shm, binds),
            files=files,
            command=render_process_limit(root, self._get_max_processes(), command),
            cgroup_files=joins,
            seccomp=self.site.seccomp,
            mounts=[fd for _, fd in mounts],
        )

    def _get_max_processes(self) -> int:
        """Return the resource limit of a task in its own user namespace, where no cgroup can limit it; else 0."""
        site = self.site
        limited = site.groups is not None and "pids" in site.groups.controllers
        own = site.isolation is not Isolation.NONE and not site.guard.privileged
        return self.options.pids_max if own and not limited and HAS_NAMESPACED_PROCESS_LIMIT else 0

    def _make_cgroup_binds(self, folders: tuple[str, ...]) -> list[Bind]:
        """Return the task's cgroups, bound where programs read their limits."""
        if self.site.groups is None:
            return []
        return [Bind(source=source, target=target) for source, target in self.site.groups.list_binds(folders)]

    def _prepare_host_binds(self, launch: LaunchSpec, root: SandboxRoot, variables: dict[str, str]) -> list[Bind]:
        shown = self.options.host_show if root.env is None else ()  # an imported image is self-contained
        binds = [Bind(source=path, target=path) for path in shown if os.path.lexists(path)]
        if launch.gpus:
            binds += make_gpu_binds(launch.gpus, self.site.gpus)
            if root.env is not None:  # it has no driver
                binds += self.site.driver
                variables["LD_LIBRARY_PATH"] = _append_path(root.env.get("LD_LIBRARY_PATH", ""), LIBRARIES_FOLDER)
                variables["PATH"] = _append_path(root.env.get("PATH", SEARCH_PATH), PROGRAMS_FOLDER)
        return binds


def open_mount_sources(launch: LaunchSpec, root: SandboxRoot, opened: ExitStack) -> list[tuple[Bind, int]]:
    """Open the source of each mount; `opened` closes them."""
    mounts = []
    try:
        for bind in make_mount_binds(launch.mounts, root.lower):
            fd = open_mount_source(bind.source)
            opened.callback(os.close, fd)
            mounts.append((bind, fd))
    except InvalidMount as bad:
        raise StartRefused(str(bad), cause=Cause.NOT_ALLOWED) from bad
    return mounts


def _get_mount_folder(mount: Mount) -> str:
    try:
        return get_mount_folder(mount)
    except InvalidMount as bad:
        raise StartRefused(str(bad), cause=Cause.NOT_ALLOWED) from bad


def _append_path(paths: str, more: str) -> str:
    parts = [part for part in paths.split(":") if part]
    return ":".join(parts if more in parts else [*parts, more])


def make_unsandboxed_spec(
    launch: LaunchSpec, folder: TaskFolder, root: SandboxRoot, joins: list[str], cookie: str
) -> RunnerSpec:
    scratch = folder["scratch"]
    os.makedirs(scratch, mode=0o700, exist_ok=True)
    notes = create_notes_folder(folder)
    gpus = make_gpu_variables(launch.gpus, renumbered=False)
    env = _make_env(launch, root, scratch, gpus, notes, root.library)
    env[COOKIE_VARIABLE] = cookie
    for name, file in make_command_files(launch).items():
        _write_file(folder[name], file.encode())
    _check_unsandboxed_mounts(launch.mounts)
    if launch.mounts:
        folder.write_mounts([(os.path.normpath(mount.volume.folder),) * 2 for mount in launch.mounts])
    if launch.workdir and not os.path.isdir(launch.workdir):
        text = msg("The working folder {workdir} does not exist on this machine.", workdir=launch.workdir)
        raise StartRefused(text, cause=Cause.NOT_ALLOWED)
    # In its own session, or `kill 0` in a script would hit the runner too.
    session = [SETSID_PATH, "-w"] if SETSID_PATH else []
    command = [*session, *make_command(launch, root.shell, folder.path)]
    return RunnerSpec(command=command, env=env, workdir=launch.workdir or scratch, cgroup_files=joins)


def _check_unsandboxed_mounts(mounts: Sequence[Mount]) -> None:
    for mount in mounts:
        source = os.path.normpath(_get_mount_folder(mount))
        if os.path.normpath(mount.target) != source:
            why = msg("without isolation, the target must equal the source")
            text = msg(
                "{source} cannot be mounted at {target}: {why}.", source=mount.source, target=mount.target, why=why
            )
            raise StartRefused(text, cause=Cause.NOT_ALLOWED)
        try:
            os.close(open_mount_source(source))
        except InvalidMount as bad:
            raise StartRefused(str(bad), cause=Cause.NOT_ALLOWED) from bad


def _make_env(
    launch: LaunchSpec, root: SandboxRoot, home: str, gpus: Mapping[str, str], notes: str, library: str
) -> dict[str, str]:
    return make_task_env(
        launch,
        home=home,
        gpus=gpus,
        notes=notes,
        image_env=root.env,
        shell=root.shell,
        user=root.task_user,
        user_name=root.user,
        library=library,
    )


def _write_file(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(fd, "wb") as file:
        file.write(data)


def _get_current_time() -> datetime:
    """Return the current time, truncated to milliseconds as in the start note."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def _create_folder(folder: TaskFolder) -> bool:
    try:
        os.mkdir(folder.path, 0o700)
    except FileExistsError:
        return False
    return True


def check_launch(launch: LaunchSpec) -> None:
    """Check in advance what would fail inside the sandbox."""
    check_task_program(launch)
    for numbers in launch.ports.values():
        for port in numbers:
            check_port(port, launch.job_id)


def check_port(port: int, job_id: str) -> None:
    """Check that no process listens there. A port in TIME_WAIT is free: the task can bind it with SO_REUSEADDR."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen(1)
        except OSError as error:
            text = report_port_in_use(port, job_id)
            raise StartRefused(text, cause=Cause.PORT_IN_USE, transient=True) from error


def _to_refusal(error: StartRefused | OSError) -> StartRefused:
    if isinstance(error, StartRefused):
        return error
    text = msg("The machine cannot start the task: {error}", error=error.strerror or error)
    return StartRefused(text, cause=Cause.START_FAILED, transient=True)
