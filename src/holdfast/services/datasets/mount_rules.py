"""The folders that a job can mount. Sources are resolved here, so that a symbolic link changed later does not lead
outside the allowed folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.errors import InvalidJob, Problem, UserError
from holdfast.core.job import SHARED_FILES_PATH, Job, Mount, Role
from holdfast.core.messages import join_messages, msg
from holdfast.core.volumes import HostFolder, SharedFolder, Volume, is_mountable
from holdfast.engines.base import EngineHealth
from holdfast.hang_guard import HangGuard, NotResponding

from ..errors import Unavailable
from .volumes import explain_unmountable

P = ParamSpec("P")
T = TypeVar("T")

FOLDER_RESPONSE_TIMEOUT = 15.0  # seconds
_UPLOAD_HINT = msg(
    "Upload your own files with `holdfast files put FILE`. Submit with `holdfast submit --files -- …` (in a job "
    "file: files: true); the job finds them at {files}.",
    files=SHARED_FILES_PATH,
)


class MountRules:
    def __init__(
        self,
        *,
        home: Path,
        allow: Sequence[str],
        shared: Path | None = None,
        find_health: Callable[[Job], EngineHealth] | None = None,
    ) -> None:
        """`find_health` returns what the engine of a job can mount; without it, everything."""
        self._home = home
        self._shared = shared  # contains files of groups and managed datasets; may be inside `home`
        self._allowed_folders = tuple(allow)
        self._find_health = find_health
        self._hang_guard = HangGuard("mounts")

    async def run_guarded(self, paths: Iterable[str], call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function on these folders after checking that each responds."""
        try:
            for path in dict.fromkeys(paths):
                await self._hang_guard.run_once_per_path(path, partial(os.stat, path), FOLDER_RESPONSE_TIMEOUT)
            return await self._hang_guard.run_with_timeout(partial(call, *args, **kwargs), FOLDER_RESPONSE_TIMEOUT)
        except NotResponding:
            raise Unavailable(
                msg("A folder to mount is not responding"),
                hint=msg("Ask an admin: its filesystem or file server may be down."),
            ) from None

    async def resolve_mounts(self, job: Job, actor: Actor) -> Job:
        """Return the job with every source resolved; raise InvalidJob with all sources that are not allowed."""
        self._check_volumes(job)
        if not any(role.mounts for role in job.roles):
            return job
        sources = [mount.volume.folder for role in job.roles for mount in role.mounts]
        return await self.run_guarded(sources, self._resolve_job, job, has_permission(actor, Permission.MOUNT_ANY_PATH))

    def _check_volumes(self, job: Job) -> None:
        """Raise InvalidJob with all mounts that the engine cannot mount."""
        if self._find_health is None or not (job.files or any(role.mounts for role in job.roles)):
            return
        health = self._find_health(job)
        wanted: list[tuple[str, Volume]] = [
            (f"roles.{role.name}.mounts[{index}].source", mount.volume)
            for role in job.roles
            for index, mount in enumerate(role.mounts)
        ]
        if job.files and self._shared is not None:
            wanted.append(("files", SharedFolder(folder=str(self._shared), path="")))
        problems = [
            Problem(field, *explain_unmountable(volume, health))
            for field, volume in wanted
            if not is_mountable(volume, health.volume_kinds)
        ]
        if problems:
            raise InvalidJob(problems)

    async def resolve_dataset_folder(self, path: str) -> Path:
        """Return the real path of a dataset's folder; raise UserError if jobs must not access it."""
        return await self.run_guarded(
            [path], self._resolve_managed_folder if self._is_managed(path) else self._resolve_folder, path
        )

    async def resolve_admin_folder(self, path: str) -> Path:
        """Return the real path of an admin's folder; raise UserError if jobs must not access it."""
        return await self.run_guarded([path], self._resolve_folder, path)

    def _is_managed(self, path: str) -> bool:
        """Return whether the path is in a folder that contains only managed datasets."""
        made = () if self._shared is None else (self._shared / "volumes", self._shared / "git")
        return ".." not in path.split("/") and any(folder in Path(path).parents for folder in made)

    def _resolve_managed_folder(self, path: str) -> Path:
        real = Path(os.path.realpath(path))
        if not real.is_dir():
            raise UserError(msg("The folder {path} does not exist", path=path), field="path")
        return real

    def _resolve_folder(self, path: str) -> Path:
        answer = self._resolve_source(path, any_path=True)
        if not isinstance(answer, Path):
            raise UserError(answer[0], field="path", hint=answer[1])
        if not answer.is_dir():
            raise UserError(msg("{path} is not a folder", path=path), field="path")
        return answer

    def _resolve_job(self, job: Job, any_path: bool) -> Job:
        problems: list[Problem] = []
        roles = tuple(self._resolve_role(role, any_path, problems) for role in job.roles)
        if problems:
            raise InvalidJob(problems)
        return replace(job, roles=roles)

    def _resolve_role(self, role: Role, any_path: bool, problems: list[Problem]) -> Role:
        found = []
        for index, mount in enumerate(role.mounts):
            answer = self._resolve_source(mount.volume.folder, any_path)
            if isinstance(answer, Path):
                found.append(Mount(volume=HostFolder(str(answer)), target=mount.target, read_only=mount.read_only))
            else:
                message, hint = answer
                problems.append(Problem(f"roles.{role.name}.mounts[{index}].source", message, hint))
        return replace(role, mounts=tuple(found))

    def _resolve_source(self, source: str, any_path: bool) -> Path | tuple[str, str | None]:
        """Return the real path, or an error with a hint."""
        if "\0" in source or not source.startswith("/"):
            return msg("{source} is not an absolute path", source=repr(source)), msg(
                "Use a path that starts with /, such as /data/mnist."
            )
        try:
            real = Path(os.path.realpath(source, strict=True))
        except (OSError, ValueError):
            real = None
        allowed = any_path or (real is not None and self._is_allowed(real))
        if not allowed:  # same error for missing paths, which must not reveal what exists on the server
            return msg("{source} is not allowed as a mount", source=source), self._describe_allowed_folders()
        if real is None:
            return msg("{source} does not exist on the server", source=source), None
        return self._find_server_overlap(source, real) or real

    def _find_server_overlap(self, source: str, real: Path) -> tuple[str, str] | None:
        """Return the error for a path that overlaps with the server's folders."""
        home = Path(os.path.realpath(self._home))
        if real.is_relative_to(home):
            return msg("{source} is in the server's state folder", source=source), msg(
                "Use another folder for the data of jobs."
            )
        if home.is_relative_to(real):
            hint = msg("Mount a folder inside it, or move the state folder (HOLDFAST_HOME).")
            return msg("{source} contains the server's state folder", source=source), hint
        if self._shared is not None and (real.is_relative_to(self._shared) or self._shared.is_relative_to(real)):
            hint = msg("Jobs access this folder through their group or a dataset.")
            return msg("{source} overlaps with the folder of shared files (files.folder)", source=source), hint
        return None

    def _is_allowed(self, real: Path) -> bool:
        return any(real.is_relative_to(os.path.realpath(folder)) for folder in self._allowed_folders)

    def _describe_allowed_folders(self) -> str:
        if not self._allowed_folders:
            message = msg(
                "Only admins can mount folders on this server. Admins can allow folders with the setting mounts.allow."
            )
        else:
            message = msg(
                "You can mount folders under: {allow}. Admins can mount any folder.",
                allow=", ".join(self._allowed_folders),
            )
        return join_messages(" ", (message, _UPLOAD_HINT))
