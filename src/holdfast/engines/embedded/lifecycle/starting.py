"""Starting one task, from the checks to the spawned runner. Blocking: runs in a thread.

The order of steps is the protocol: lock the claim, see that nothing ever ran, write the start note, spawn. A crash
before the spawn leaves a folder in which nothing ran; after it, a runner that holds the lock.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from holdfast.core.attempt import Observation, Seen
from holdfast.core.exits.exit import Cause
from holdfast.core.job import HOST_IMAGE, Resources
from holdfast.core.messages import msg
from holdfast.engines.base import Isolation, Launch

from .. import cgroups
from ..folder_content import StartNote
from ..images.image_store import ImageStore
from ..options import EmbeddedOptions
from ..processes import COOKIE, COUNTS_BY_NAMESPACE
from ..sandbox import roots
from ..sandbox.gpus import LIBRARIES, PROGRAMS, device_binds, gpu_variables
from ..sandbox.guard import cover_sys
from ..sandbox.mounting import BadMount, open_source, plan_mounts, within
from ..sandbox.render import (
    MOUNT_FD,
    Bind,
    Root,
    limit_processes,
    render_args,
    render_command,
    render_entry,
    render_hold,
    task_env,
)
from ..sandbox.site import Site, host_root, image_root
from ..sandbox.spawning import Order, spawn
from ..sandbox.views import Views
from ..sandbox_paths import CGROUP_POINT, ENTRY, HOME, LIBRARY, NOTES, PATH
from ..task_folder import TaskFolder, try_lock
from ..tree_removal import remove_tree
from .notes import make_notes
from .places import Places
from .port_holders import report_port_in_use

logger = logging.getLogger(__name__)

HOLD_TEXT = (Path(__file__).parents[3] / "runtime" / "hold.sh").read_text()
SETSID = shutil.which("setsid", path=PATH)
_MAX_VARIABLES = 2000  # bubblewrap takes 9000 arguments, three for each
_MAX_STRING_LENGTH = 128 * 1024 - 1  # of the kernel, for one variable with its name
_MAX_ENV = 1024 * 1024
_MAX_TEXT_LENGTH = 16 * 1024 * 1024  # characters of script and entry: they lie in memory that is not the task's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A runner we have just spawned."""

    folder: TaskFolder
    note: StartNote
    pid: int


class Refusal(Exception):
    """It cannot be started; nothing of it is left."""

    def __init__(self, message: str, *, cause: Cause = Cause.INVALID_TASK, transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.transient = transient


def refused(attempt_id: str, refusal: Refusal) -> Observation:
    return Observation(
        attempt_id=attempt_id,
        seen=Seen.REFUSED,
        message=refusal.message,
        cause=refusal.cause,
        transient=refusal.transient,
    )


class Starter:
    def __init__(
        self,
        options: EmbeddedOptions,
        site: Site,
        views: Views,
        images: ImageStore,
        places: Places,
        unsettled: set[str],
    ) -> None:
        """`unsettled` gains those that are spawned; whoever takes them up takes them out."""
        self._options = options
        self._places = places
        self._site = site  # replaced when a better one is found
        self._views = views
        self._images = images
        self._unsettled = unsettled

    def use_site(self, site: Site) -> None:
        self._site = site

    def start(self, launch: Launch, folder: TaskFolder) -> Started | None:
        """None when it was started before, by whomever: look at it instead."""
        made = _make_folder(folder)
        claim = folder.open_claim()
        try:
            if not try_lock(claim) or os.fstat(claim).st_size > 0 or self._is_of_another_boot(folder):
                return None
            return self._start_locked(launch, folder, claim)
        except (Refusal, OSError) as error:
            if made or isinstance(error, Refusal):
                remove_tree(folder.path)
            if isinstance(error, OSError):
                logger.warning(msg("%s could not be started: %s"), launch.attempt_id, error)
            raise _as_refusal(error) from error
        finally:
            os.close(claim)

    def _is_of_another_boot(self, folder: TaskFolder) -> bool:
        """It was about to run when the machine went down: whether it did, nobody can tell."""
        note = folder.read_start()
        return note is not None and note.boot != self._site.boot

    def _start_locked(self, launch: Launch, folder: TaskFolder, claim: int) -> Started:
        check_launch(launch)
        root = self._with_library(self._root(launch, folder))
        roots.make_folders(folder, root)
        groups = self._make_groups(self._places.machine_name(launch.attempt_id), launch.resources)
        try:
            with ExitStack() as opened:
                order = self._order(launch, folder, root, groups, opened)
                note = self._note(launch, root, groups)
                folder.write_start(note)
                self._unsettled.add(launch.attempt_id)  # before there is a log that could be taken for a whole one
                pid = spawn(folder, claim, order)
        except BaseException:
            self._unsettled.discard(launch.attempt_id)
            cgroups.remove(groups)
            raise
        return Started(folder=folder, note=note, pid=pid)

    def _make_groups(self, name: str, resources: Resources) -> tuple[str, ...]:
        """The task's control groups; none where there are no control groups on this machine."""
        if self._site.groups is None:
            return ()
        try:
            return self._site.groups.make(name, resources, self._options.pids_max)
        except cgroups.GroupsGone as gone:
            logger.error(msg("%s cannot be limited: the control group %s"), name, gone)
            text = msg(
                "The control group {gone}. Mount control groups at {cgroup_point}, or restart the server.",
                gone=gone,
                cgroup_point=CGROUP_POINT,
            )
            raise Refusal(text, cause=Cause.START_FAILED, transient=True) from gone

    def _note(self, launch: Launch, root: Root, groups: tuple[str, ...]) -> StartNote:
        return StartNote(
            boot=self._site.boot,
            at=_now(),
            sandbox=self._site.isolation is not Isolation.NONE,
            cgroups=groups,
            stands_on=root.stands_on,
            warning=root.warning,
            memory=0 if groups else launch.resources.memory,
            home=self._home(launch, root),
            scratch=launch.scratch or 0,
            hold=launch.hold,
            gpus=launch.gpus,
            max_processes=self._max_processes(),
        )

    def _home(self, launch: Launch, root: Root) -> str:
        """Where in the task's folder its home lies."""
        if self._site.isolation is Isolation.NONE:
            return "scratch"
        if within(HOME, [os.path.normpath(mount.target) for mount in launch.mounts]):
            return ""
        return roots.home_of(root)

    def _root(self, launch: Launch, folder: TaskFolder) -> Root:
        image = None if launch.image == HOST_IMAGE else self._images.find(launch.image)
        if image is None:
            if launch.image != HOST_IMAGE and self._options.unknown_image != "host":
                known = ", ".join(self._images.names())
                text = msg(
                    "There is no image {image} here. Known images: {known}.", image=repr(launch.image), known=known
                )
                raise Refusal(text, cause=Cause.IMAGE_MISSING)
            root = host_root(self._site, self._views, folder)
            if launch.image == HOST_IMAGE:
                return root
            warning = msg("There is no image {image} here, so it runs on the image host.", image=repr(launch.image))
            return replace(root, warning=warning)
        if self._site.isolation is Isolation.NONE:
            why = msg("jobs are not isolated on this machine")
            text = msg(
                "The image {image} cannot be used: {why}, so only the image host can run.",
                image=repr(launch.image),
                why=why,
            )
            raise Refusal(text, cause=Cause.NOT_ALLOWED)
        if image.shell is None:
            text = msg("The image {image} has no shell: neither bash nor sh was found in it.", image=repr(launch.image))
            raise Refusal(text, cause=Cause.NO_SHELL)
        return image_root(self._site, self._views, image, folder)

    def _with_library(self, root: Root) -> Root:
        library = self._views.library()
        return replace(root, library=library, stands_on=(*root.stands_on, library)) if library else root

    def _order(
        self, launch: Launch, folder: TaskFolder, root: Root, groups: tuple[str, ...], opened: ExitStack
    ) -> Order:
        if self._site.condition is not None:
            raise Refusal(self._site.condition.message, cause=Cause.START_FAILED, transient=True)
        joins = [f"{group}/cgroup.procs" for group in groups]
        if self._site.isolation is Isolation.NONE:
            cookie = self._places.machine_name(launch.attempt_id)
            return plain_order(launch, folder, root, joins, cookie)
        variables = dict(gpu_variables(launch.gpus, renumbered=True))
        binds = self._device_binds(launch, root, variables)
        binds.append(Bind(source=make_notes(folder), target=NOTES, read_only=False))
        if root.library:
            binds.append(Bind(source=root.library, target=LIBRARY))
        mounts = open_mounts(launch, root, opened)
        if mounts:
            folder.write_mounts([(bind.target, bind.source) for bind, _ in mounts])
        binds += [replace(bind, fd=number) for number, (bind, _) in enumerate(mounts, MOUNT_FD)]
        if root.workdir and within(root.workdir, [bind.target for bind, _ in mounts]):
            launch = replace(launch, workdir=launch.workdir or root.workdir)  # others may have put links there
        env = task_env(launch, root, HOME, variables)
        command = render_entry(launch, root, _held(launch, root, _command(launch, root)))
        guard = cover_sys(self._site.guard, self._views.mounts(), self._own_groups(groups))
        shm = launch.resources.shm or self._options.default_shm
        return Order(
            bwrap=self._site.bwrap,
            base=str(self._places.home),
            args=render_args(launch, root, guard, env, shm, binds),
            script=launch.script,
            entry=launch.entry,
            hold=HOLD_TEXT if launch.hold else "",
            command=limit_processes(root, self._max_processes(), command),
            joins=joins,
            seccomp=self._site.seccomp,
            mounts=[fd for _, fd in mounts],
        )

    def _max_processes(self) -> int:
        """The resource limit of a task in a user namespace of its own, where no control group can limit it; else 0."""
        site = self._site
        limited = site.groups is not None and "pids" in site.groups.controllers
        own = site.isolation is not Isolation.NONE and not site.guard.privileged
        return self._options.pids_max if own and not limited and COUNTS_BY_NAMESPACE else 0

    def _own_groups(self, folders: tuple[str, ...]) -> list[Bind]:
        """The task's control groups where programs look for the limits they run under."""
        if self._site.groups is None:
            return []
        return [Bind(source=source, target=target) for source, target in self._site.groups.shown(folders)]

    def _device_binds(self, launch: Launch, root: Root, variables: dict[str, str]) -> list[Bind]:
        shown = self._options.host_show if root.env is None else ()  # an imported image is complete in itself
        binds = [Bind(source=path, target=path) for path in shown if os.path.lexists(path)]
        if launch.gpus:
            binds += device_binds(launch.gpus, self._site.gpus)
            if root.env is not None:  # it has no driver of its own
                binds += self._site.driver
                variables["LD_LIBRARY_PATH"] = _with_path(root.env.get("LD_LIBRARY_PATH", ""), LIBRARIES)
                variables["PATH"] = _with_path(root.env.get("PATH", PATH), PROGRAMS)
        return binds


def open_mounts(launch: Launch, root: Root, opened: ExitStack) -> list[tuple[Bind, int]]:
    """Each mount with a descriptor of its source, which `opened` closes."""
    mounts = []
    try:
        for bind in plan_mounts(launch.mounts, root.lower):
            fd = open_source(bind.source)
            opened.callback(os.close, fd)
            mounts.append((bind, fd))
    except BadMount as bad:
        raise Refusal(str(bad), cause=Cause.NOT_ALLOWED) from bad
    return mounts


def _with_path(paths: str, more: str) -> str:
    parts = [part for part in paths.split(":") if part]
    return ":".join(parts if more in parts else [*parts, more])


def _command(launch: Launch, root: Root) -> list[str]:
    return render_command(root, launch.shell_options, entry=ENTRY if launch.entry else "")


def _held(launch: Launch, root: Root, command: list[str]) -> list[str]:
    return render_hold(root, command) if launch.hold else command


def plain_order(launch: Launch, folder: TaskFolder, root: Root, joins: list[str], cookie: str) -> Order:
    """Without a sandbox: a process tree in a folder of its own."""
    scratch = folder["scratch"]
    os.makedirs(scratch, mode=0o700, exist_ok=True)
    notes = make_notes(folder)
    env = task_env(launch, root, scratch, gpu_variables(launch.gpus, renumbered=False), notes, root.library)
    env[COOKIE] = cookie
    script = _write_script(folder["script"], launch.script)
    entry = _write_script(folder["entry"], launch.entry) if launch.entry else ""
    for mount in launch.mounts:
        if os.path.normpath(mount.target) != os.path.normpath(mount.source):
            why = msg("jobs are not isolated on this machine, so folders appear under their own names only")
            text = msg(
                "{source} cannot be mounted at {target}: {why}.", source=mount.source, target=mount.target, why=why
            )
            raise Refusal(text, cause=Cause.NOT_ALLOWED)
    if launch.mounts:
        folder.write_mounts([(os.path.normpath(mount.source),) * 2 for mount in launch.mounts])
    if launch.workdir and not os.path.isdir(launch.workdir):
        text = msg("There is no folder {workdir} on this machine to work in.", workdir=launch.workdir)
        raise Refusal(text, cause=Cause.NOT_ALLOWED)
    # In a session of its own, or `kill 0` in a script would hit the runner too.
    session = [SETSID, "-w"] if SETSID else []
    command = render_command(root, launch.shell_options, script, entry)
    if launch.hold:
        command = render_hold(root, command, _write_script(folder["hold"], HOLD_TEXT), notes)
    command = [*session, *command]
    return Order(command=command, env=env, workdir=launch.workdir or scratch, joins=joins)


def _write_script(path: str, text: str) -> str:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(fd, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)
    return path


def _now() -> datetime:
    """To the millisecond, as the note keeps it."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def _make_folder(folder: TaskFolder) -> bool:
    try:
        os.mkdir(folder.path, 0o700)
    except FileExistsError:
        return False
    return True


def check_launch(launch: Launch) -> None:
    """What would fail inside the sandbox, said before."""
    if "\0" in launch.script or "\0" in launch.entry:
        raise Refusal(msg("The commands contain a NUL byte, which no shell can run."))
    size = len(launch.script) + len(launch.entry)
    if size > _MAX_TEXT_LENGTH:
        raise Refusal(
            msg(
                "The commands, with all that runs around them, have {size} characters; {longest_text} can run.",
                size=size,
                longest_text=_MAX_TEXT_LENGTH,
            )
        )
    check_env(launch.env)
    for numbers in launch.ports.values():
        for port in numbers:
            check_port(port, launch.job_id)


def check_env(env: Mapping[str, str]) -> None:
    if len(env) > _MAX_VARIABLES:
        raise Refusal(
            msg(
                "{env} environment variables are more than the {most_variables} a task can have.",
                env=len(env),
                most_variables=_MAX_VARIABLES,
            )
        )
    total = 0
    for name, value in env.items():
        size = len(name) + len(value.encode("utf-8", "surrogateescape")) + 1
        total += size
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise Refusal(
                msg("The environment variable {name} cannot be set: its name or value is not allowed.", name=repr(name))
            )
        if size > _MAX_STRING_LENGTH:
            raise Refusal(
                msg(
                    "The environment variable {name} is longer than {longest_string} bytes.",
                    name=name,
                    longest_string=_MAX_STRING_LENGTH,
                )
            )
    if total > _MAX_ENV:
        raise Refusal(
            msg(
                "The environment variables take {total} bytes; {most_env} is the most a task can have.",
                total=total,
                most_env=_MAX_ENV,
            )
        )


def check_port(port: int, job_id: str) -> None:
    """Nobody listens there. A port in TIME_WAIT is free: whoever asked for it will bind with SO_REUSEADDR."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen(1)
        except OSError as error:
            text = report_port_in_use(port, job_id)
            raise Refusal(text, cause=Cause.PORT_IN_USE, transient=True) from error


def _as_refusal(error: Refusal | OSError) -> Refusal:
    if isinstance(error, Refusal):
        return error
    text = msg("The machine could not start it: {strerror}", strerror=error.strerror or error)
    return Refusal(text, cause=Cause.START_FAILED, transient=True)
