"""Decides how a task is set up: with which image and user, and whether its node must isolate it. Blocking."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.core.exits.exit import Cause
from holdfast.core.job import HOST_IMAGE
from holdfast.core.messages import msg
from holdfast.core.volumes import LOCAL_KINDS, is_mountable
from holdfast.engines.base import LaunchSpec
from holdfast.engines.embedded.image import Image
from holdfast.engines.embedded.images.image_store import ImageStore
from holdfast.engines.embedded.lifecycle.artifacts import ARTIFACTS_FOLDER
from holdfast.engines.embedded.lifecycle.user_files import (
    add_image_user,
    create_owned_file,
    create_owned_folder,
    needs_artifacts_folder,
    overlaps_mounts,
)
from holdfast.engines.embedded.sandbox.render import Bind, SandboxRoot
from holdfast.engines.embedded.sandbox.roots import resolve_path_inside
from holdfast.engines.embedded.task_folder import TaskFolder
from holdfast.engines.sandbox_paths import HOME_PATH
from holdfast.engines.start_refusal import StartRefused, check_task_program
from holdfast.engines.task_program import LOG_FILES, TaskFile, build_task_program
from holdfast.engines.task_user import TaskUser

from ..node_programs import NodePrograms
from ..options import SlurmOptions
from ..render import MAX_GANG_SIZE
from ..users.shared_folders import open_path
from ..users.task_owners import USER_MODE
from ..users.unix_user import UnixUser
from .node_isolation import IsolationMode, NodeIsolation, parse_isolation
from .sandbox_files import SandboxPlan, has_moved_volume, make_sandbox_files, make_volume_binds

NODES_FOLDER = "nodes"  # in the engine's folder: nodes record there how tasks run on them


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSetup:
    """The files of a task that depend on its image and on its isolation."""

    files: Mapping[str, TaskFile]
    warning: str = ""
    replaces_image: bool = False  # of the image `host`, since the task's own is missing
    lower_folders: tuple[str, ...] = ()  # shared folders that it uses
    user: TaskUser | None = None  # the image's user, if the task becomes it


class TaskSetups:
    def __init__(self, options: SlurmOptions, home: Path, programs: NodePrograms, images: ImageStore) -> None:
        self._options = options
        self._home = home
        self.programs = programs
        self._images = images

    def check_launch(self, launch: LaunchSpec) -> None:
        """Raise StartRefused if this engine cannot run it. It looks at the sources of mounts."""
        check_task_program(launch)
        image = self._find_image(launch)
        if len(launch.gang) > MAX_GANG_SIZE:
            text = msg("Slurm starts at most {limit} tasks together.", limit=MAX_GANG_SIZE)
            raise StartRefused(text, cause=Cause.NOT_ALLOWED)
        self._check_mounts(launch, image)

    def _find_image(self, launch: LaunchSpec) -> Image | None:
        """Return its image; None if it runs on the files of the node. StartRefused if it can run on neither."""
        if launch.image == HOST_IMAGE:
            return None
        is_isolated = self._options.isolation != IsolationMode.NONE
        image = self._images.find_image(launch.image) if is_isolated else None
        if image is None and self._options.unknown_image == HOST_IMAGE:
            return None
        if not is_isolated:
            text = msg(
                "The image {image} needs isolation, which `slurm.isolation` disables. Use the image `host`, "
                "or change the setting.",
                image=repr(launch.image),
            )
            raise StartRefused(text, cause=Cause.IMAGE_MISSING)
        if image is None:
            known = ", ".join(self._images.list_names())
            text = msg("Image {image} not found. Available images: {known}.", image=repr(launch.image), known=known)
            raise StartRefused(text, cause=Cause.IMAGE_MISSING)
        if image.shell is None:
            text = msg("The image {image} has no shell: it contains neither bash nor sh.", image=repr(launch.image))
            raise StartRefused(text, cause=Cause.NO_SHELL)
        return image

    def _check_mounts(self, launch: LaunchSpec, image: Image | None) -> None:
        for mount in launch.mounts:
            source, target = mount.volume.folder, os.path.normpath(mount.target)
            if not is_mountable(mount.volume, LOCAL_KINDS):
                text = msg("The Slurm engine cannot mount {source}.", source=mount.volume.address)
                raise StartRefused(text, cause=Cause.NOT_ALLOWED)
            if self._options.isolation == IsolationMode.NONE and os.path.normpath(source) != target:
                why = msg("without isolation, the target must equal the source")
                text = msg("{source} cannot be mounted at {target}: {why}.", source=source, target=target, why=why)
                raise StartRefused(text, cause=Cause.NOT_ALLOWED)
            if not os.path.exists(source):
                raise StartRefused(msg("The mount source {source} does not exist.", source=source))
        make_volume_binds(launch, image.rootfs if image else "")

    def read_nodes(self) -> dict[str, NodeIsolation]:
        """Return how nodes have run tasks, by name; nothing if tasks run as other users, which do not record it."""
        found: dict[str, NodeIsolation] = {}
        if self._options.run_as == USER_MODE:
            return found
        with suppress(OSError):
            for entry in os.scandir(self._home / NODES_FOLDER):
                if "." not in entry.name:  # it is being written
                    with suppress(OSError):
                        found[entry.name] = parse_isolation(Path(entry.path).read_bytes()[:1000])
        return found

    def prepare(self, launch: LaunchSpec, folder: str, scratch: str, owner: UnixUser | None = None) -> TaskSetup:
        """`scratch`: the folder that contains its home. `owner`: the user that it runs as, if not the server's."""
        image = self._find_image(launch)
        if image is not None:
            if owner is not None:
                open_path(image.rootfs, str(self._home))
            return self._prepare_image(launch, image, folder, scratch, can_switch=owner is None)
        user_name = owner.name if owner else getpass.getuser()
        program = build_task_program(launch, folder=folder, home=scratch, user_name=user_name)
        files = dict(program.files)
        if self._options.isolation != IsolationMode.NONE:
            files |= self._make_sandbox_files(launch, scratch=scratch, home=scratch)
        if launch.image == HOST_IMAGE:
            return TaskSetup(files=files)
        warning = msg("{image} is not used: tasks in Slurm run on the files of the node.", image=launch.image)
        return TaskSetup(files=files, warning=warning, replaces_image=True)

    def _prepare_image(
        self, launch: LaunchSpec, image: Image, folder: str, scratch: str, *, can_switch: bool
    ) -> TaskSetup:
        """`can_switch`: the task can become the image's user, if the server is root."""
        self._images.record_use(image)
        root = SandboxRoot(lower=image.rootfs)
        if launch.as_image_user:
            why = "" if can_switch else msg("tasks run as the Unix users of their owners")
            root = add_image_user(root, image, os.geteuid() == 0, why)
        user = root.task_user
        workdir = resolve_path_inside(image.rootfs, image.workdir) if image.workdir else None
        own = replace(launch, workdir=launch.workdir or workdir)  # in the sandbox, where no link leads outside
        program = build_task_program(own, image.env, folder=folder, home=HOME_PATH, user=user)
        # The image's user does not own its files; the folder above them is only for the server's user.
        files = {name: replace(file, secret=file.secret and user is None) for name, file in program.files.items()}
        files |= self._make_sandbox_files(
            launch, scratch=scratch, home=HOME_PATH, image=image.rootfs, artifacts=_find_artifacts_folder(launch, root)
        )
        return TaskSetup(files=files, warning=root.warning, lower_folders=(image.rootfs,), user=user)

    def _make_sandbox_files(
        self, launch: LaunchSpec, *, scratch: str, home: str, image: str = "", artifacts: str = ""
    ) -> dict[str, TaskFile]:
        binds = make_volume_binds(launch, image)
        if artifacts:
            binds.insert(0, Bind(source=f"{scratch}/{ARTIFACTS_FOLDER}", target=artifacts, read_only=False))
        plan = SandboxPlan(
            required=self._options.isolation != IsolationMode.AUTO or has_moved_volume(launch) or bool(image),
            image=image,
            home=home,
            scratch=scratch,
            programs=self.programs.folder,
            node_folder=self._options.node_folder,
            nodes=str(self._home / NODES_FOLDER),
            hidden=(str(self._home), *self._options.hidden),
            host_show=self._options.host_show,
            binds=binds,
        )
        return make_sandbox_files(launch, plan)


def _find_artifacts_folder(launch: LaunchSpec, root: SandboxRoot) -> str:
    """Return where the image's user expects the folder of artifacts, if not in the home of every task."""
    user = root.task_user
    if user is None or not needs_artifacts_folder(user):
        return ""
    path = f"{resolve_path_inside(root.lower, user.home)}/{ARTIFACTS_FOLDER}"
    return "" if overlaps_mounts([path], launch.mounts) else path


def give_files_to_user(folder: TaskFolder, scratch: str, user: TaskUser) -> None:
    """Let the image's user enter the folder of the task, and own its home and logs. The task has never run."""
    os.chmod(folder.path, 0o711)
    for name in LOG_FILES:
        create_owned_file(folder[name], user)
    create_owned_folder(scratch, user)
    os.chmod(scratch, 0o755)
    if needs_artifacts_folder(user):
        create_owned_folder(f"{scratch}/{ARTIFACTS_FOLDER}", user)
