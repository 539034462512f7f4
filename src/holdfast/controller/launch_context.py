"""Collects the data that a launch needs besides its job. Most jobs need nothing more."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from holdfast.core.attempt import JobSnapshot
from holdfast.core.errors import EngineError
from holdfast.core.identity import format_group_path
from holdfast.core.job import Job, JobFormat
from holdfast.core.messages import msg
from holdfast.core.records import Dataset, Group
from holdfast.core.scheduling.placement import Node
from holdfast.core.slurm_options import SLURM_ENGINE
from holdfast.core.volumes import SharedFolder
from holdfast.engines.base import Engine, Isolation
from holdfast.engines.engine_set import EngineSet
from holdfast.hang_guard import HangGuard, NotResponding
from holdfast.launching import (
    GatewayAddress,
    LaunchContext,
    PrimeHubContext,
    PrimeHubSettings,
    make_dataset_variables,
    make_mlflow_variables,
    needs_job_key,
    needs_user_keys,
)
from holdfast.launching.keys import make_job_key_purpose
from holdfast.shared_folders import SharedFolders
from holdfast.store import datasets as dataset_rows
from holdfast.store import people
from holdfast.store.database import Store

FOLDER_TIMEOUT = 15.0  # seconds until a folder counts as not responding
QUICK_FOLDER_TIMEOUT = 1.0  # seconds in which healthy folders respond
MAX_OTHER_VOLUMES = 12  # volumes of other groups in one task: engines mount only so many folders
_NO_GROUPS: dict[str, Group] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _SharedPaths:
    volume: SharedFolder | None = None
    files: SharedFolder | None = None
    others: Mapping[str, SharedFolder] = field(default_factory=dict)


class LaunchContextBuilder:
    def __init__(
        self,
        store: Store,
        engine: Engine | EngineSet,
        derive: Callable[[bytes], bytes] | None,
        *,
        groups: Callable[[], Mapping[str, Group]] = lambda: _NO_GROUPS,
        folders: SharedFolders | None = None,
        platform: PrimeHubSettings | None = None,
        gateway: Callable[[], Awaitable[GatewayAddress]] | None = None,
    ) -> None:
        """`groups` returns the current groups; members are read from the store. `gateway` may be slow shortly after the
        server's start; without it, tasks connect to each other by their own sshd or not at all."""
        self._store = store
        self._engine = EngineSet.wrap(engine)
        self._derive = derive
        self._groups = groups
        self._folders = folders
        self._platform = platform or PrimeHubSettings()
        self._gateway = gateway
        self._hang_guard = HangGuard(msg("shared folders"))
        self._slow_folders: set[str] = set()  # folders that were slow at the last check
        self._nodes: Sequence[Node] = ()
        self._base_contexts: dict[str, LaunchContext] = {}  # what most jobs need, by engine, with these nodes

    async def build_context(self, snapshot: JobSnapshot) -> LaunchContext:
        job, base = snapshot.job, self._get_base_context(snapshot)
        if job.dialect.is_openpai:
            return await self._build_openpai_context(snapshot, base)
        if job.dialect is JobFormat.PRIMEHUB:
            return await self._build_primehub_context(snapshot, base)
        same = base if job.task_count == 1 else await self._add_intra_job_ssh(snapshot, base)
        return await self._build_holdfast_context(snapshot, same)

    def _get_base_context(self, snapshot: JobSnapshot) -> LaunchContext:
        nodes = self._engine.list_nodes()
        if nodes is not self._nodes:
            self._nodes, self._base_contexts = nodes, {}
        engine = next((task.engine for task in snapshot.tasks if task.engine), "")
        found = self._base_contexts.get(engine)
        if found is None:
            found = self._base_contexts[engine] = LaunchContext(
                addresses={node.name: node.address for node in nodes},
                queue_nodes=frozenset(node.name for node in nodes if node.is_queue),
                isolated=self._engine.find_health(engine).isolation is not Isolation.NONE,
            )
        group = self._groups().get(snapshot.job.group) if engine == SLURM_ENGINE else None
        return replace(found, group_options=group.slurm) if group and group.slurm else found

    async def _add_intra_job_ssh(self, snapshot: JobSnapshot, same: LaunchContext) -> LaunchContext:
        if self._derive is None or self._gateway is None:
            return same
        gateway = await self._gateway()
        seed = None if gateway.unavailable_reason else self._derive(make_job_key_purpose(snapshot.id))
        return replace(same, gateway=gateway, job_seed=seed)

    # -- Holdfast's format

    async def _build_holdfast_context(self, snapshot: JobSnapshot, same: LaunchContext) -> LaunchContext:
        job = snapshot.job
        group = self._groups().get(job.group) if self._folders else None
        sharing = group if group and (group.shared_volume or job.files) else None
        if not sharing and not job.datasets:
            return same
        shared = await self._create_shared_folders(sharing, files=job.files) if sharing else _SharedPaths()
        return replace(
            same,
            volume=shared.volume,
            files=shared.files,
            variables=await self._store.read(_load_named_variables, snapshot.user, job.datasets)
            if job.datasets
            else {},
        )

    async def _create_folders(self, wanted: Iterable[Path]) -> list[SharedFolder]:
        """Create missing folders and return all; they may be on a file server."""
        folders, paths = self._folders, list(wanted)
        assert folders is not None
        try:
            made = await self._hang_guard.run_with_timeout(
                lambda: [folders.create_folder(path) for path in paths], FOLDER_TIMEOUT
            )
        except NotResponding:
            raise EngineError(
                msg("the folder for shared files, {root}, is not responding", root=folders.root)
            ) from None
        except OSError as error:
            raise EngineError(msg("cannot create the folders of its group: {error}", error=error.strerror)) from error
        return [folders.make_volume(folder) for folder in made]

    # -- PrimeHub's format

    async def _build_primehub_context(self, snapshot: JobSnapshot, same: LaunchContext) -> LaunchContext:
        job = snapshot.job
        group = self._groups().get(job.group)
        memberships, variables = await self._store.read(_load_group_variables, snapshot.user, job.group)
        shared = await self._create_shared_folders(group, memberships) if group and self._folders else _SharedPaths()
        return replace(
            same,
            volume=shared.volume,
            files=shared.files,
            variables=variables,
            primehub=PrimeHubContext(
                platform=self._platform,
                home_symlink=group is None or group.home_symlink,
                other_volumes=shared.others,
                unreachable=await self._find_unreachable_datasets(job),
            ),
        )

    async def _create_shared_folders(
        self, group: Group, memberships: Iterable[str] = (), *, files: bool = True
    ) -> _SharedPaths:
        """Return the folders of the group, and of the user's groups that share theirs."""
        assert self._folders is not None
        others = self._get_other_volumes(group.name, memberships)
        volumes = [self._folders.get_volume_folder(name) for name in others.values()]
        if group.shared_volume:
            volumes.append(self._folders.get_volume_folder(group.name))
        own = (
            [self._folders.get_files_folder(group.name), self._folders.get_removed_folder(group.name)] if files else []
        )  # as `create_files_folder`
        made = await self._create_folders([*own, *volumes])
        made, files_made = made[len(own) :], made[: len(own)]
        return _SharedPaths(
            volume=made.pop() if group.shared_volume else None,
            files=files_made[0] if files else None,
            others=dict(zip(others, made, strict=True)),
        )

    def _get_other_volumes(self, own: str, memberships: Iterable[str]) -> dict[str, str]:
        """Return path -> group of volumes that other groups share; the first of two with the same path."""
        found: dict[str, str] = {}
        for name in sorted(memberships):
            group = self._groups().get(name)
            if group is not None and group.shared_volume and not group.launch_only and name != own:
                found.setdefault(format_group_path(name), name)
        found.pop(format_group_path(own), None)
        return dict(list(found.items())[:MAX_OTHER_VOLUMES])

    async def _find_unreachable_datasets(self, job: Job) -> frozenset[str]:
        """Return default datasets that would block its start; the job runs without them."""
        mounts = {
            mount.dataset: mount.volume.folder
            for mount in job.roles[0].mounts
            if mount.dataset is not None and mount.volume.folder
        }
        found = await self._probe_folders([path for path in mounts.values() if path not in self._slow_folders])
        slow = [path for path in mounts.values() if path not in found]
        found |= zip(slow, await asyncio.gather(*map(self._is_responding, slow)), strict=True)
        return frozenset(name for name, path in mounts.items() if not found[path])

    async def _probe_folders(self, paths: list[str]) -> dict[str, bool]:
        """Check all folders at once; empty if one is slow."""
        if not paths:
            return {}
        try:
            return await self._hang_guard.run_with_timeout(
                lambda: {path: _is_real_folder(path) for path in paths}, QUICK_FOLDER_TIMEOUT
            )
        except NotResponding:
            self._slow_folders.update(paths)
            return {}

    async def _is_responding(self, path: str) -> bool:
        """Check a slow folder with a long timeout, in one thread at a time, since it may hang."""
        found: list[bool] = []
        try:
            await self._hang_guard.run_once_per_path(path, lambda: found.append(_is_real_folder(path)), FOLDER_TIMEOUT)
        except NotResponding:
            return False
        self._slow_folders.discard(path)
        return found[0] if found else (await self._probe_folders([path])).get(path, False)

    # -- OpenPAI's formats

    async def _build_openpai_context(self, snapshot: JobSnapshot, same: LaunchContext) -> LaunchContext:
        user_keys, job_key = needs_user_keys(snapshot.job), needs_job_key(snapshot.job)
        if snapshot.job.task_count > 1:
            same = await self._add_intra_job_ssh(snapshot, same)
        if not user_keys and not job_key:
            return same
        return replace(
            same,
            user_keys=await self._load_user_keys(snapshot.user) if user_keys else (),
            gateway=await self._gateway() if self._gateway else None,
            job_seed=self._derive(make_job_key_purpose(snapshot.id)) if self._derive and job_key else same.job_seed,
        )

    async def _load_user_keys(self, name: str) -> tuple[str, ...]:
        user = await self._store.read(people.get_user, name)
        return extract_public_keys(user.extension) if user else ()


def extract_public_keys(extension: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the user's sshKeys; clients write this field, so it is validated."""
    listed = extension.get("sshKeys")
    values = [each.get("value") for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    return tuple(value for value in values if isinstance(value, str))


def _is_real_folder(path: str) -> bool:
    """Whether it is a folder without links in its path: engines follow none."""
    return os.path.realpath(path) == path and Path(path).is_dir()


# -- variables: read when a task starts, never stored with the job


def _load_group_variables(conn: Connection, user: str, group: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the user's groups, and the variables of every job of this group."""
    owner = people.get_user(conn, user)
    mine = [each for each in dataset_rows.list_datasets(conn) if each.everyone or group in each.groups]
    mlflow = people.load_group_mlflow(conn, group)
    variables = {**(make_mlflow_variables(mlflow) if mlflow else {}), **_load_dataset_variables(conn, mine)}
    return tuple(owner.groups) if owner else (), variables


def _load_named_variables(conn: Connection, user: str, names: Iterable[str]) -> dict[str, str]:
    """Return the variables of the job's datasets that its user can still use."""
    owner = people.get_user(conn, user)
    found = [dataset_rows.get_dataset(conn, name) for name in names] if owner else []
    granted = [each for each in found if each and owner and (owner.admin or _is_granted(each, owner.groups))]
    return _load_dataset_variables(conn, granted)


def _is_granted(dataset: Dataset, groups: Iterable[str]) -> bool:
    return dataset.everyone or any(group in dataset.groups for group in groups)


def _load_dataset_variables(conn: Connection, datasets: Iterable[Dataset]) -> dict[str, str]:
    names = [dataset.name for dataset in datasets if dataset.kind == "env"]
    return make_dataset_variables(dataset_rows.load_dataset_variables(conn, names)) if names else {}
