"""Which folders of the machine a job may mount. Sources are resolved here, so that a symlink that is changed later does
not lead elsewhere than what was allowed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from holdfast.core.access import Actor, Verb, may
from holdfast.core.errors import InvalidJob, Problem, UserError
from holdfast.core.job import FILES, Job, Mount, Role
from holdfast.core.messages import join_messages, msg
from holdfast.hang_guard import HangGuard, NotResponding

from ..refusals import Unavailable

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT = 15.0  # seconds
_INSTEAD = msg(
    "Your own files get into a job by `holdfast files put FILE` and `holdfast submit --files "
    "-- …` (in a job file: files: true); the job sees them at {files}.",
    files=FILES,
)


class MountRules:
    def __init__(self, *, home: Path, allow: Sequence[str], shared: Path | None = None) -> None:
        self._home = home
        self._shared = shared  # where groups' files lie, and datasets that we made; it may lie in `home`
        self._allow = tuple(allow)
        self._reach = HangGuard("mounts")

    async def look(self, paths: Iterable[str], call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call what touches these folders of others, each of which has to answer first."""
        try:
            for path in dict.fromkeys(paths):
                await self._reach.look(path, partial(os.stat, path), TIMEOUT)
            return await self._reach.run(partial(call, *args, **kwargs), TIMEOUT)
        except NotResponding:
            raise Unavailable(
                msg("A folder that is to be mounted does not answer"),
                hint=msg("Ask an admin: its file system, or the server it is on, may be down."),
            ) from None

    async def apply(self, job: Job, actor: Actor) -> Job:
        """The job with every source resolved; InvalidJob with all that may not be mounted."""
        if not any(role.mounts for role in job.roles):
            return job
        sources = [mount.source for role in job.roles for mount in role.mounts]
        return await self.look(sources, self._apply, job, may(actor, Verb.MOUNT_ANY_PATH))

    async def folder(self, path: str) -> Path:
        """The real path of a dataset's folder: an admin's, or one that we made; UserError when jobs must not see it."""
        return await self.look([path], self._made if self._is_made(path) else self._folder, path)

    async def given(self, path: str) -> Path:
        """The real path of a folder that an admin gives to others; UserError when jobs must not see it."""
        return await self.look([path], self._folder, path)

    def _is_made(self, path: str) -> bool:
        """One of a dataset, by its place: nothing else lies there."""
        made = () if self._shared is None else (self._shared / "volumes", self._shared / "git")
        return ".." not in path.split("/") and any(folder in Path(path).parents for folder in made)

    def _made(self, path: str) -> Path:
        real = Path(os.path.realpath(path))
        if not real.is_dir():
            raise UserError(msg("The folder {path} is missing", path=path), field="path")
        return real

    def _folder(self, path: str) -> Path:
        answer = self._source(path, any_path=True)
        if not isinstance(answer, Path):
            raise UserError(answer[0], field="path", hint=answer[1])
        if not answer.is_dir():
            raise UserError(msg("{path} is not a folder", path=path), field="path")
        return answer

    def _apply(self, job: Job, any_path: bool) -> Job:
        problems: list[Problem] = []
        roles = tuple(self._role(role, any_path, problems) for role in job.roles)
        if problems:
            raise InvalidJob(problems)
        return replace(job, roles=roles)

    def _role(self, role: Role, any_path: bool, problems: list[Problem]) -> Role:
        found = []
        for index, mount in enumerate(role.mounts):
            answer = self._source(mount.source, any_path)
            if isinstance(answer, Path):
                found.append(Mount(source=str(answer), target=mount.target, read_only=mount.read_only))
            else:
                message, hint = answer
                problems.append(Problem(f"roles.{role.name}.mounts[{index}].source", message, hint))
        return replace(role, mounts=tuple(found))

    def _source(self, source: str, any_path: bool) -> Path | tuple[str, str | None]:
        """The real path, or why not."""
        if "\0" in source or not source.startswith("/"):
            return msg("{source} is not an absolute path", source=repr(source)), msg(
                "Write it from the root, such as /data/mnist."
            )
        try:
            real = Path(os.path.realpath(source, strict=True))
        except (OSError, ValueError):
            real = None
        allowed = any_path or (real is not None and self._is_allowed(real))
        if not allowed:  # the same words for what is missing: nobody may look around the machine this way
            return msg("{source} may not be mounted", source=source), self._what_is_allowed()
        if real is None:
            return msg("{source} does not exist on this machine", source=source), None
        return self._ours(source, real) or real

    def _ours(self, source: str, real: Path) -> tuple[str, str] | None:
        """Why not, of a place that is in, or holds, what the server keeps."""
        home = Path(os.path.realpath(self._home))
        if real.is_relative_to(home):
            return msg("{source} is in the server's own state folder", source=source), msg(
                "Keep what jobs need in another folder."
            )
        if home.is_relative_to(real):
            hint = msg("Mount a folder inside it, or move the state folder (HOLDFAST_HOME).")
            return msg("{source} holds the server's own state folder", source=source), hint
        if self._shared is not None and (real.is_relative_to(self._shared) or self._shared.is_relative_to(real)):
            hint = msg("Jobs get it by their group, or by the name of a dataset.")
            return msg("{source} is, holds or lies in the folder of groups' files (files.folder)", source=source), hint
        return None

    def _is_allowed(self, real: Path) -> bool:
        return any(real.is_relative_to(os.path.realpath(folder)) for folder in self._allow)

    def _what_is_allowed(self) -> str:
        if not self._allow:
            said = msg(
                "No folder may be mounted here but by admins; an admin can allow some with the setting mounts.allow."
            )
        else:
            said = msg(
                "Folders under these may be mounted: {allow}. An admin may mount any.", allow=", ".join(self._allow)
            )
        return join_messages(" ", (said, _INSTEAD))
