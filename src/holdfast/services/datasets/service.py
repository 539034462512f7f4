"""Datasets: named folders and variables, granted to everyone or to groups.

A dataset is an admin's folder, an NFS folder, a volume that Holdfast creates, a git checkout or a set of variables.
The rules of each kind are in `kinds`; checkouts are updated by `git_sync`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.catalogue import SecretKind
from holdfast.core.errors import Conflict, NotFound, UserError
from holdfast.core.messages import msg
from holdfast.core.records import Dataset
from holdfast.core.volumes import VolumeKind
from holdfast.engines.base import EngineHealth
from holdfast.shared_folders import SharedFolders
from holdfast.store import datasets as dataset_rows
from holdfast.store import secrets as secret_rows

from ..audit import AuditedStore, AuditEntry, collect_set_fields
from ..disk_work import DiskExecutor
from ..errors import DatasetNotFound, Unavailable
from ..files.folder_removal import remove_folder
from ..name_suggestions import require_group, suggest_name
from ..names import check_name, check_text
from ..people.groups import UNSET, Unset
from ..permissions import require_admin
from . import kinds
from .git_sync import GitState, GitSync
from .mount_rules import MountRules

ADMINS_ONLY_MESSAGE = msg("Only admins can manage datasets")
SYNC_TIMEOUT = 60.0  # seconds
PURGED_FOLDER = ".purged"  # no dataset's name begins with a dot


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetChange:
    path: str | Unset = UNSET
    display_name: str | Unset = UNSET
    description: str | Unset = UNSET
    read_only: bool | Unset = UNSET
    everyone: bool | Unset = UNSET
    per_user: bool | Unset = UNSET
    default: bool | Unset = UNSET
    kind: str | Unset = UNSET
    data: Mapping[str, Any] | Unset = UNSET
    variables: Mapping[str, str] | Unset = UNSET  # of kind env; replaces the previous ones
    grants: Mapping[str, bool] | Unset = UNSET  # group -> whether its jobs can write; replaces all grants


class Datasets:
    def __init__(
        self,
        store: AuditedStore,
        mounts: MountRules,
        folders: SharedFolders,
        git: GitSync,
        work: DiskExecutor,
        list_health: Callable[[], Sequence[EngineHealth]],
        *,
        nfs_folder: str,
    ) -> None:
        self._store = store
        self._git = git
        self._mounts = mounts
        self._folders = folders
        self._work = work
        self._list_health = list_health
        self._nfs_folder = nfs_folder
        self._purge_tasks: set[asyncio.Task[None]] = set()

    async def list_group_datasets(self, group: str) -> list[Dataset]:
        """Return the datasets that jobs of this group get, without a permission check."""
        found = await self._store.read(dataset_rows.list_datasets)
        return [self._add_path(dataset) for dataset in found if dataset.everyone or group in dataset.groups]

    async def list_usable_datasets(self, actor: Actor, group: str) -> list[Dataset]:
        """Return the datasets that jobs of a group can name; none if the actor is not a member."""
        if not has_permission(actor, Permission.SUBMIT_JOB, group):
            return []
        return [dataset for dataset in await self.list(actor) if dataset.everyone or group in dataset.groups]

    async def list(self, actor: Actor) -> list[Dataset]:
        """Return all datasets for admins, the granted ones for other users."""
        found = await self._store.read(dataset_rows.list_datasets)
        return [self._build_visible_dataset(actor, dataset) for dataset in found if can_use_dataset(actor, dataset)]

    async def get(self, actor: Actor, name: str) -> Dataset:
        dataset = await self._store.read(dataset_rows.get_dataset, name)
        if dataset is None or not can_use_dataset(actor, dataset):
            raise _build_dataset_not_found_error(name, await self.list(actor))
        return self._build_visible_dataset(actor, dataset)

    async def exists(self, name: str) -> bool:
        """Return whether the dataset exists, for clients that distinguish "not granted" from "not found"."""
        return await self._store.read(dataset_rows.get_dataset, name) is not None

    async def get_variables(self, actor: Actor, name: str) -> dict[str, str]:
        """Return the variables of a dataset of kind env with their values; admins only."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        dataset = await self.get(actor, name)
        if dataset.kind != kinds.ENV:
            raise UserError(
                msg("The dataset {name} has no variables", name=name), hint=msg("Use a dataset of kind env.")
            )
        return (await self.load_variables([name])).get(name, {})

    async def load_variables(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return dataset -> variables, for internal use: never show or log them."""
        return await self._store.read(dataset_rows.load_dataset_variables, list(names))

    async def wait_until_ready(self, dataset: Dataset) -> None:
        """Wait until jobs can mount it; raise Unavailable with the reason after a timeout."""
        if dataset.kind == kinds.GIT:
            await self._git.wait_until_ready(dataset)

    async def get_git_state(self, dataset: Dataset) -> GitState | None:
        """Return the state of a git checkout; None for other kinds."""
        return await self._git.get_state(dataset) if dataset.kind == kinds.GIT else None

    async def sync_dataset(self, actor: Actor, name: str) -> GitState:
        """Update a git checkout and return its state, at the latest after SYNC_TIMEOUT."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        dataset = await self.get(actor, name)
        if dataset.kind != kinds.GIT:
            raise UserError(
                msg("The dataset {name} is not of kind git", name=name),
                hint=msg("Only datasets of kind git can be synced."),
            )
        return await self._git.sync_dataset(dataset, SYNC_TIMEOUT)

    async def create(
        self, actor: Actor, dataset: Dataset, *, variables: Mapping[str, str] | None = None, adopt: bool = False
    ) -> Dataset:
        """Create a dataset. An admin's folder must exist and is stored by its real path; a volume's folder is created.
        Data of an earlier volume of this name is only reused with `adopt`."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        check_name(dataset.name, "dataset")
        kinds.check_dataset(dataset)
        kinds.check_dataset_path(dataset)
        variables = _validate_variables(dataset.kind, variables)
        dataset = replace(kinds.normalize_dataset(dataset), path=await self._resolve_stored_path(dataset))
        if dataset.kind == kinds.VOLUME:
            await self._create_volume(dataset.name, adopt)
        entry = AuditEntry(
            actor.name, AuditKind.DATASET, AuditAction.CREATED, dataset.name, collect_set_fields(dataset)
        )
        await self._store.write(entry, _insert_dataset, dataset, variables)
        if dataset.kind == kinds.GIT:
            self._git.start_update(dataset.name)
        return self._add_path(dataset)

    async def change(self, actor: Actor, name: str, change: DatasetChange) -> Dataset:
        """Change a dataset; jobs submitted earlier keep their mounts."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        if not isinstance(change.path, Unset):
            change = replace(change, path=await self._resolve_path(change.path))
        entry = AuditEntry(actor.name, AuditKind.DATASET, AuditAction.CHANGED, name, collect_set_fields(change))
        dataset = await self._store.write(entry, _update_dataset, name, change)
        if dataset.kind == kinds.GIT and not isinstance(change.data, Unset):
            await self._git.restart_update(name)
        return self._add_path(dataset)

    async def delete(self, actor: Actor, name: str, *, purge: bool = False) -> None:
        """Delete a dataset but not its folder, nor mounts of jobs submitted earlier. `purge` also deletes the data of a
        volume; other folders were not created by Holdfast."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        entry = AuditEntry(actor.name, AuditKind.DATASET, AuditAction.REMOVED, name, {"purge": purge})
        kind = await self._store.write(entry, _delete_dataset, name, purge)
        if kind == kinds.GIT:
            await self._git.retire_checkout(name)
        if kind == kinds.VOLUME and purge:
            await asyncio.to_thread(_move_to_purged, self._folders.get_dataset_folder(name))
            clearing = asyncio.create_task(self.remove_purged_data())
            self._purge_tasks.add(clearing)
            clearing.add_done_callback(self._purge_tasks.discard)

    async def remove_purged_data(self) -> None:
        """Delete purged data, also that of a server killed while deleting it."""
        ground = self._folders.get_dataset_folder(PURGED_FOLDER)
        await self._work.run_long(lambda stop: remove_folder(ground, stop))

    async def grant(self, actor: Actor, name: str, group: str, writable: bool = False) -> Dataset:
        """Grant the dataset to a group; `writable` replaces an earlier value."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        entry = AuditEntry(
            actor.name, AuditKind.DATASET, AuditAction.GRANTED, name, {"group": group, "writable": writable}
        )
        return self._add_path(await self._store.write(entry, _grant_dataset, name, group, writable))

    async def revoke(self, actor: Actor, name: str, group: str) -> Dataset:
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        entry = AuditEntry(actor.name, AuditKind.DATASET, AuditAction.REVOKED, name, {"group": group})
        return self._add_path(await self._store.write(entry, _revoke_dataset, name, group))

    async def _resolve_stored_path(self, dataset: Dataset) -> str:
        """Return the path to store; empty if derived from the name, so that it stays valid if files.folder moves."""
        if dataset.kind == kinds.NFS and not dataset.path:
            return await self._resolve_nfs_path(dataset)
        return await self._resolve_path(dataset.path) if dataset.kind in (kinds.FOLDER, kinds.NFS) else ""

    async def _resolve_nfs_path(self, dataset: Dataset) -> str:
        """Return where an export is mounted; empty if it is not, and an engine does not need that."""
        try:
            return await self._resolve_path(kinds.build_nfs_path(dataset.data, self._nfs_folder))
        except UserError:
            if any(VolumeKind.NFS in health.volume_kinds for health in self._list_health()):
                return ""
            raise

    async def _resolve_path(self, path: str) -> str:
        check_text(path, "path")
        real = str(await self._mounts.resolve_admin_folder(path))
        try:
            real.encode()
        except UnicodeEncodeError:
            raise UserError(msg("The real path of {path} is not UTF-8", path=path), field="path") from None
        return real

    async def _create_volume(self, name: str, adopt: bool) -> None:
        """Create the folder before the row is written: a folder without a row is harmless."""
        if await self.exists(name):
            return  # inserting the row raises the error
        try:
            folder = await asyncio.to_thread(self._folders.create_folder, self._folders.get_dataset_folder(name))
        except OSError as error:
            raise Unavailable(
                msg("The folder of the volume {name} cannot be created: {error}", name=name, error=error.strerror)
            ) from error
        if not adopt and await asyncio.to_thread(_has_entries, folder):
            raise Conflict(
                msg("{folder} contains data of an earlier volume {name}", name=name, folder=folder),
                field="name",
                hint=msg("Adopt the data with --adopt (adopt: true), choose another name, or move the data."),
            )

    def _add_path(self, dataset: Dataset) -> Dataset:
        """Add the path of a dataset whose folder Holdfast manages."""
        if dataset.kind == kinds.VOLUME:
            return replace(dataset, path=str(self._folders.get_dataset_folder(dataset.name)))
        if dataset.kind == kinds.GIT:
            return replace(dataset, path=str(self._folders.get_git_folder(dataset.name) / dataset.name))
        return dataset

    def _build_visible_dataset(self, actor: Actor, dataset: Dataset) -> Dataset:
        """Remove the name of the git secret, which only admins can see."""
        if has_permission(actor, Permission.MANAGE_INSTALLATION) or "secret" not in dataset.data:
            return self._add_path(dataset)
        data = {key: value for key, value in dataset.data.items() if key != "secret"}
        return self._add_path(replace(dataset, data=data))


def can_use_dataset(actor: Actor, dataset: Dataset) -> bool:
    return actor.admin or dataset.everyone or any(group in actor.groups for group in dataset.groups)


def _build_dataset_not_found_error(name: str, known: Iterable[Dataset]) -> DatasetNotFound:
    hint = suggest_name(name, [dataset.name for dataset in known], "holdfast dataset ls")
    return DatasetNotFound(msg("Dataset {name} not found", name=name[:100]), hint=hint)


def _validate_variables(kind: str, given: Mapping[str, str] | None) -> Mapping[str, str] | None:
    if kind != kinds.ENV:
        if given:
            raise UserError(msg("Only datasets of kind env have variables"), field="variables")
        return None
    kinds.check_variables(given or {})
    return given or {}


# -- on disk


def _has_entries(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return any(True for _ in entries)


def _move_to_purged(folder: Path) -> None:
    """Move the folder atomically, so that leftovers of a crash are not mistaken for data."""
    ground = folder.with_name(PURGED_FOLDER)
    with suppress(OSError):
        folder.chmod(0o700)  # a job may have changed its mode, and only root can move a folder without write permission
    while os.path.lexists(folder):
        ground.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):  # a concurrent cleanup deleted the target folder
            folder.rename(ground / secrets.token_hex(8))


# -- inside a write transaction


def _require_dataset(conn: Connection, name: str) -> Dataset:
    dataset = dataset_rows.get_dataset(conn, name)
    if dataset is None:
        raise _build_dataset_not_found_error(name, dataset_rows.list_datasets(conn))
    return dataset


def _insert_dataset(conn: Connection, dataset: Dataset, variables: Mapping[str, str] | None) -> None:
    _check_git_secret(conn, dataset)
    dataset_rows.create_dataset(conn, dataset=dataset, variables=variables)


def _check_git_secret(conn: Connection, dataset: Dataset) -> None:
    name = dataset.data.get("secret") if dataset.kind == kinds.GIT else None
    if name is None:
        return
    secret = secret_rows.get_secret(conn, name)
    if secret is None:
        known = [known.name for known in secret_rows.list_secrets(conn) if known.kind is SecretKind.OPAQUE]
        hint = suggest_name(name, known, "holdfast secret ls")
        raise NotFound(msg("Secret {name} not found", name=name[:100]), field="data", hint=hint)
    if secret.kind is not SecretKind.OPAQUE:
        raise UserError(msg("The secret {name} is for a registry, not for git", name=name), field="data")


def _update_dataset(conn: Connection, name: str, change: DatasetChange) -> Dataset:
    changes = collect_set_fields(change)
    variables, grants = changes.pop("variables", None), changes.pop("grants", None)
    before = _require_dataset(conn, name)
    if changes.get("kind") == kinds.FOLDER:
        changes.setdefault("data", {})
    after = kinds.normalize_dataset(replace(before, **changes))
    kinds.check_dataset(after)
    _check_kind_change(before.kind, after.kind)
    kinds.check_dataset_path(after)
    _check_git_secret(conn, after)
    dataset_rows.update_dataset(conn, dataset=after)
    if variables is not None:
        dataset_rows.set_dataset_variables(conn, name, _validate_variables(after.kind, variables) or {})
    return after if grants is None else _replace_grants(conn, after, grants)


def _replace_grants(conn: Connection, dataset: Dataset, wanted: Mapping[str, bool]) -> Dataset:
    for group in set(dataset.groups) - wanted.keys():
        dataset_rows.delete_dataset_grant(conn, dataset.name, group)
    for group, writable in sorted(wanted.items()):
        _grant_dataset(conn, dataset.name, group, writable)
    return _require_dataset(conn, dataset.name)


def _check_kind_change(before: str, after: str) -> None:
    """Reject a change of kind, except between folder and nfs."""
    if before != after and not {before, after} <= {kinds.FOLDER, kinds.NFS}:
        hint = msg("Delete the dataset and create another; the data of a volume is kept.")
        raise UserError(
            msg("A dataset of kind {before} cannot be changed to {after}", before=before, after=after),
            field="kind",
            hint=hint,
        )


def _delete_dataset(conn: Connection, name: str, purge: bool) -> str:
    """Delete the row and return its kind."""
    kind = _require_dataset(conn, name).kind
    if purge and kind in (kinds.FOLDER, kinds.NFS):
        hint = msg("Delete the dataset without purge, then delete the data yourself.")
        raise UserError(msg("Holdfast did not create the folder of {name} and cannot delete it", name=name), hint=hint)
    dataset_rows.delete_dataset(conn, name)
    return kind


def _grant_dataset(conn: Connection, name: str, group: str, writable: bool) -> Dataset:
    dataset = _require_dataset(conn, name)
    if writable and dataset.kind in (kinds.GIT, kinds.ENV):
        raise UserError(msg("Datasets of kind {kind} are read-only", kind=dataset.kind), field="writable")
    require_group(conn, group)
    dataset_rows.insert_dataset_grant(conn, dataset.name, group, writable=writable)
    return _require_dataset(conn, name)


def _revoke_dataset(conn: Connection, name: str, group: str) -> Dataset:
    _require_dataset(conn, name)
    if not dataset_rows.delete_dataset_grant(conn, name, group):
        raise NotFound(msg("The dataset {name} is not granted to {group}", name=name, group=group[:100]))
    return _require_dataset(conn, name)
