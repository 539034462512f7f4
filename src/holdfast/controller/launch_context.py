"""Looks up what a launch needs to know besides its job. Most jobs need nothing that is not known already."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from holdfast.core.attempt import JobSnapshot
from holdfast.core.errors import EngineError
from holdfast.core.identity import group_path
from holdfast.core.job import Dialect, Job
from holdfast.core.messages import msg
from holdfast.core.records import Dataset, Group
from holdfast.engines.base import Engine, Isolation
from holdfast.hang_guard import HangGuard, NotResponding
from holdfast.launching import (
    Gateway,
    LaunchContext,
    Platform,
    PrimeHub,
    dataset_variables,
    mlflow_variables,
    wants_job_key,
    wants_user_keys,
)
from holdfast.launching.keys import job_purpose
from holdfast.shared_folders import SharedFolders
from holdfast.store import datasets as dataset_rows
from holdfast.store import people
from holdfast.store.database import Store

TIMEOUT = 15.0  # seconds until a folder counts as one that does not answer
QUICK = 1.0  # seconds in which folders answer that are well
MAX_OTHERS = 12  # volumes of other groups in one task: engines mount only so many folders
_NO_GROUPS: dict[str, Group] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """Folders of the machine; empty: none."""

    volume: str = ""
    files: str = ""
    others: Mapping[str, str] = field(default_factory=dict)


class SurroundingsOf:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        derive: Callable[[bytes], bytes] | None,
        *,
        groups: Callable[[], Mapping[str, Group]] = lambda: _NO_GROUPS,
        folders: SharedFolders | None = None,
        platform: Platform | None = None,
        gateway: Callable[[], Awaitable[Gateway]] | None = None,
    ) -> None:
        """`groups` gives them as they are now; who is in them is asked of the store. `gateway` may take a while when
        the server has just started; without it, tasks reach each other by an sshd of theirs or not at all."""
        self._store = store
        self._engine = engine
        self._derive = derive
        self._groups = groups
        self._folders = folders
        self._platform = platform or Platform()
        self._gateway = gateway
        self._reach = HangGuard(msg("shared folders"))
        self._slow: set[str] = set()  # folders that did not answer quickly when they were last looked at
        self._same: LaunchContext | None = None  # what most jobs need, once the engine is open

    async def find(self, snapshot: JobSnapshot) -> LaunchContext:
        if self._same is None:
            self._same = LaunchContext(
                addresses={node.name: node.address for node in self._engine.nodes()},
                isolated=self._engine.health().isolation is not Isolation.NONE,
            )
        job = snapshot.job
        if job.dialect.openpai:
            return await self._openpai(snapshot, self._same)
        if job.dialect is Dialect.PRIMEHUB:
            return await self._primehub(snapshot, self._same)
        same = self._same if job.task_count == 1 else await self._with_neighbours(snapshot, self._same)
        return await self._own(snapshot, same)

    async def _with_neighbours(self, snapshot: JobSnapshot, same: LaunchContext) -> LaunchContext:
        """For tasks that are to reach each other by ssh."""
        if self._derive is None or self._gateway is None:
            return same
        gateway = await self._gateway()
        seed = None if gateway.trouble else self._derive(job_purpose(snapshot.id))
        return replace(same, gateway=gateway, job_seed=seed)

    # -- our own

    async def _own(self, snapshot: JobSnapshot, same: LaunchContext) -> LaunchContext:
        job = snapshot.job
        group = self._groups().get(job.group) if self._folders else None
        sharing = group if group and (group.shared_volume or job.files) else None
        if not sharing and not job.datasets:
            return same
        shared = await self._shared(sharing, files=job.files) if sharing else _Shared()
        return replace(
            same,
            volume=shared.volume,
            files=shared.files,
            variables=await self._store.read(_named_variables, snapshot.user, job.datasets) if job.datasets else {},
        )

    async def _made(self, wanted: Iterable[Path]) -> list[str]:
        """The folders, made where they are missing; they may lie on a file server."""
        folders, paths = self._folders, list(wanted)
        assert folders is not None
        try:
            made = await self._reach.run(lambda: [folders.make(path) for path in paths], TIMEOUT)
        except NotResponding:
            raise EngineError(msg("the folder of groups' files, {root}, does not answer", root=folders.root)) from None
        except OSError as error:
            raise EngineError(
                msg("the folders of its group cannot be made: {strerror}", strerror=error.strerror)
            ) from error
        return [str(folder) for folder in made]

    # -- PrimeHub's

    async def _primehub(self, snapshot: JobSnapshot, same: LaunchContext) -> LaunchContext:
        job = snapshot.job
        group = self._groups().get(job.group)
        memberships, variables = await self._store.read(_of_group, snapshot.user, job.group)
        shared = await self._shared(group, memberships) if group and self._folders else _Shared()
        return replace(
            same,
            volume=shared.volume,
            files=shared.files,
            variables=variables,
            primehub=PrimeHub(
                platform=self._platform,
                home_symlink=group is None or group.home_symlink,
                other_volumes=shared.others,
                unreachable=await self._unreachable(job),
            ),
        )

    async def _shared(self, group: Group, memberships: Iterable[str] = (), *, files: bool = True) -> _Shared:
        """The folders of the group, and of those of its user's groups that show theirs."""
        assert self._folders is not None
        others = self._others(group.name, memberships)
        volumes = [self._folders.volume(name) for name in others.values()]
        if group.shared_volume:
            volumes.append(self._folders.volume(group.name))
        own = [self._folders.files(group.name), self._folders.removed(group.name)] if files else []  # as `make_files`
        made = await self._made([*own, *volumes])
        made, files_made = made[len(own) :], made[: len(own)]
        return _Shared(
            volume=made.pop() if group.shared_volume else "",
            files=files_made[0] if files else "",
            others=dict(zip(others, made, strict=True)),
        )

    def _others(self, own: str, memberships: Iterable[str]) -> dict[str, str]:
        """Path -> group, of those that show their volume to jobs of other groups; of two with one path, the first."""
        found: dict[str, str] = {}
        for name in sorted(memberships):
            group = self._groups().get(name)
            if group is not None and group.shared_volume and not group.launch_only and name != own:
                found.setdefault(group_path(name), name)
        found.pop(group_path(own), None)
        return dict(list(found.items())[:MAX_OTHERS])

    async def _unreachable(self, job: Job) -> frozenset[str]:
        """Those of its datasets that would keep it from starting: it did not ask for them, so it goes without."""
        mounts = {mount.dataset: mount.source for mount in job.roles[0].mounts if mount.dataset is not None}
        found = await self._look_at([path for path in mounts.values() if path not in self._slow])
        slow = [path for path in mounts.values() if path not in found]
        found |= zip(slow, await asyncio.gather(*map(self._answers, slow)), strict=True)
        return frozenset(name for name, path in mounts.items() if not found[path])

    async def _look_at(self, paths: list[str]) -> dict[str, bool]:
        """All at once, as it nearly always goes; nothing when one of them is slow."""
        if not paths:
            return {}
        try:
            return await self._reach.run(lambda: {path: _is_real_folder(path) for path in paths}, QUICK)
        except NotResponding:
            self._slow.update(paths)
            return {}

    async def _answers(self, path: str) -> bool:
        """However long it takes, within reason; asked by one thread at a time, for it may never return."""
        found: list[bool] = []
        try:
            await self._reach.look(path, lambda: found.append(_is_real_folder(path)), TIMEOUT)
        except NotResponding:
            return False
        self._slow.discard(path)
        return found[0] if found else (await self._look_at([path])).get(path, False)

    # -- OpenPAI's

    async def _openpai(self, snapshot: JobSnapshot, same: LaunchContext) -> LaunchContext:
        user_keys, job_key = wants_user_keys(snapshot.job), wants_job_key(snapshot.job)
        if snapshot.job.task_count > 1:
            same = await self._with_neighbours(snapshot, same)
        if not user_keys and not job_key:
            return same
        return replace(
            same,
            user_keys=await self._keys_of(snapshot.user) if user_keys else (),
            gateway=await self._gateway() if self._gateway else None,
            job_seed=self._derive(job_purpose(snapshot.id)) if self._derive and job_key else same.job_seed,
        )

    async def _keys_of(self, name: str) -> tuple[str, ...]:
        user = await self._store.read(people.get_user, name)
        return public_keys(user.extension) if user else ()


def public_keys(extension: Mapping[str, Any]) -> tuple[str, ...]:
    """What a user keeps under sshKeys; clients write it as they like, so nothing is taken for granted."""
    listed = extension.get("sshKeys")
    values = [each.get("value") for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    return tuple(value for value in values if isinstance(value, str))


def _is_real_folder(path: str) -> bool:
    """An engine follows no link on the way to what it mounts."""
    return os.path.realpath(path) == path and Path(path).is_dir()


# -- variables: read when a task starts, never stored with the job


def _of_group(conn: Connection, user: str, group: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The user's groups, and the variables that every job of this group is given."""
    owner = people.get_user(conn, user)
    mine = [each for each in dataset_rows.list_datasets(conn) if each.everyone or group in each.groups]
    mlflow = people.group_mlflow(conn, group)
    variables = {**(mlflow_variables(mlflow) if mlflow else {}), **_of(conn, mine)}
    return tuple(owner.groups) if owner else (), variables


def _named_variables(conn: Connection, user: str, names: Iterable[str]) -> dict[str, str]:
    """Those of the datasets that a job names, as far as its user still has them."""
    owner = people.get_user(conn, user)
    found = [dataset_rows.get_dataset(conn, name) for name in names] if owner else []
    granted = [each for each in found if each and owner and (owner.admin or _is_granted(each, owner.groups))]
    return _of(conn, granted)


def _is_granted(dataset: Dataset, groups: Iterable[str]) -> bool:
    return dataset.everyone or any(group in dataset.groups for group in groups)


def _of(conn: Connection, datasets: Iterable[Dataset]) -> dict[str, str]:
    names = [dataset.name for dataset in datasets if dataset.kind == "env"]
    return dataset_variables(dataset_rows.variables_of(conn, names)) if names else {}
