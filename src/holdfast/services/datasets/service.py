"""Datasets: folders and variables with a name, granted to everyone or to groups.

Folders of an admin's, folders on file servers, volumes that we make, checkouts of git and sets of variables: what each
kind may say of itself is in dataset_kinds, how checkouts come about in git_sync.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor, Verb, may
from holdfast.core.audit import Act, AuditKind
from holdfast.core.catalogue import SecretKind
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.messages import msg
from holdfast.core.records import Dataset
from holdfast.shared_folders import SharedFolders
from holdfast.store import datasets as dataset_rows
from holdfast.store import secrets as secret_rows

from ..audit import AuditedStore, AuditEntry, given
from ..disk_work import DiskWork
from ..files.folder_removal import remove_folder
from ..name_suggestions import nearest, need_group
from ..names import check_name, check_text
from ..people.groups import UNSET, Unset
from ..refusals import NoDataset, Unavailable
from . import kinds
from .git_sync import GitState, GitSync
from .mount_rules import MountRules

SYNC_TIMEOUT = 60.0  # seconds
PURGED = ".purged"  # no dataset's name begins with a dot


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
    variables: Mapping[str, str] | Unset = UNSET  # of the kind env; in place of those it had
    grants: Mapping[str, bool] | Unset = UNSET  # group -> may its jobs write: these and no others


class Datasets:
    def __init__(
        self,
        store: AuditedStore,
        mounts: MountRules,
        folders: SharedFolders,
        git: GitSync,
        work: DiskWork,
        *,
        nfs_folder: str,
    ) -> None:
        self._store = store
        self._git = git
        self._mounts = mounts
        self._folders = folders
        self._work = work
        self._nfs_folder = nfs_folder
        self._clearing: set[asyncio.Task[None]] = set()

    async def of_group(self, group: str) -> list[Dataset]:
        """What jobs of this group are given; for the platform's own use."""
        found = await self._store.read(dataset_rows.list_datasets)
        return [self._placed(dataset) for dataset in found if dataset.everyone or group in dataset.groups]

    async def usable(self, actor: Actor, group: str) -> list[Dataset]:
        """What jobs of a group can name. None, of a group one is not in."""
        if not may(actor, Verb.SUBMIT_JOB, group):
            return []
        return [dataset for dataset in await self.list(actor) if dataset.everyone or group in dataset.groups]

    async def list(self, actor: Actor) -> list[Dataset]:
        """All, for admins; those granted to them, for others."""
        found = await self._store.read(dataset_rows.list_datasets)
        return [self._shown(actor, dataset) for dataset in found if may_use(actor, dataset)]

    async def get(self, actor: Actor, name: str) -> Dataset:
        dataset = await self._store.read(dataset_rows.get_dataset, name)
        if dataset is None or not may_use(actor, dataset):
            raise _unknown(name, await self.list(actor))
        return self._shown(actor, dataset)

    async def exists(self, name: str) -> bool:
        """For clients that tell what is not granted from what is not there."""
        return await self._store.read(dataset_rows.get_dataset, name) is not None

    async def variables(self, actor: Actor, name: str) -> dict[str, str]:
        """Of the kind env, with their values; for admins."""
        _need_admin(actor)
        dataset = await self.get(actor, name)
        if dataset.kind != kinds.ENV:
            raise UserError(msg("The dataset {name} has no variables", name=name), hint=msg("Only the kind env has."))
        return (await self.variables_of([name])).get(name, {})

    async def variables_of(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Dataset -> variables, for the platform's own use: never show or log them."""
        return await self._store.read(dataset_rows.variables_of, list(names))

    async def ready(self, dataset: Dataset) -> None:
        """Returns when jobs can be given it; Unavailable with the reason when that does not come about soon."""
        if dataset.kind == kinds.GIT:
            await self._git.ready(dataset)

    async def git_state(self, dataset: Dataset) -> GitState | None:
        """How far a checkout is; None of other kinds. Whoever has the dataset may know."""
        return await self._git.state(dataset) if dataset.kind == kinds.GIT else None

    async def sync(self, actor: Actor, name: str) -> GitState:
        """Bring a checkout up to date; how far that is after a while, if it takes longer."""
        _need_admin(actor)
        dataset = await self.get(actor, name)
        if dataset.kind != kinds.GIT:
            raise UserError(
                msg("The dataset {name} is not of the kind git", name=name),
                hint=msg("Only those are brought up to date."),
            )
        return await self._git.sync(dataset, SYNC_TIMEOUT)

    async def create(
        self,
        actor: Actor,
        dataset: Dataset,
        *,
        variables: Mapping[str, str] | None = None,
        adopt: bool = False,
    ) -> Dataset:
        """A folder of an admin's must be there, and what is kept is its real path; a volume's is made. Where one of an
        earlier volume of this name still holds data, only `adopt` takes it over."""
        _need_admin(actor)
        check_name(dataset.name, "dataset")
        kinds.check(dataset)
        kinds.check_path(dataset)
        variables = _variables(dataset.kind, variables)
        dataset = replace(kinds.tidy(dataset), path=await self._kept_path(dataset))
        if dataset.kind == kinds.VOLUME:
            await self._make_volume(dataset.name, adopt)
        deed = _deed(actor, Act.CREATED, dataset.name, given(dataset))
        await self._store.write(deed, _create, dataset, variables)
        if dataset.kind == kinds.GIT:
            self._git.begin(dataset.name)
        return self._placed(dataset)

    async def change(self, actor: Actor, name: str, change: DatasetChange) -> Dataset:
        """Jobs that were submitted before keep what they were given."""
        _need_admin(actor)
        if not isinstance(change.path, Unset):
            change = replace(change, path=await self._real_path(change.path))
        dataset = await self._store.write(_deed(actor, Act.CHANGED, name, given(change)), _change, name, change)
        if dataset.kind == kinds.GIT and not isinstance(change.data, Unset):
            await self._git.begin_anew(name)
        return self._placed(dataset)

    async def delete(self, actor: Actor, name: str, *, purge: bool = False) -> None:
        """The folder stays, and so do the mounts of jobs that were submitted before. Only `purge` removes the data too,
        and only that of a volume: other folders were not made by us."""
        _need_admin(actor)
        kind = await self._store.write(_deed(actor, Act.REMOVED, name, {"purge": purge}), _delete, name, purge)
        if kind == kinds.GIT:
            await self._git.forget(name)
        if kind == kinds.VOLUME and purge:
            await asyncio.to_thread(_put_away, self._folders.dataset(name))
            clearing = asyncio.create_task(self.clear_purged())
            self._clearing.add(clearing)
            clearing.add_done_callback(self._clearing.discard)

    async def clear_purged(self) -> None:
        """Remove what was purged, also by a server that was killed over it."""
        ground = self._folders.dataset(PURGED)
        await self._work.long(lambda stop: remove_folder(ground, stop))

    async def grant(self, actor: Actor, name: str, group: str, writable: bool = False) -> Dataset:
        """To the members of a group; whether its jobs may write is as given, whatever it was before."""
        _need_admin(actor)
        deed = _deed(actor, Act.GRANTED, name, {"group": group, "writable": writable})
        return self._placed(await self._store.write(deed, _grant, name, group, writable))

    async def revoke(self, actor: Actor, name: str, group: str) -> Dataset:
        _need_admin(actor)
        deed = _deed(actor, Act.REVOKED, name, {"group": group})
        return self._placed(await self._store.write(deed, _revoke, name, group))

    async def _kept_path(self, dataset: Dataset) -> str:
        """Empty where the path follows from the name: it must be right also after the admin moved files.folder."""
        if dataset.kind == kinds.NFS and not dataset.path:
            return await self._real_path(kinds.nfs_path(dataset.data, self._nfs_folder))
        return await self._real_path(dataset.path) if dataset.kind in (kinds.FOLDER, kinds.NFS) else ""

    async def _real_path(self, path: str) -> str:
        check_text(path, "path")
        real = str(await self._mounts.given(path))
        try:
            real.encode()
        except UnicodeEncodeError:
            raise UserError(msg("The real path of {path} is not UTF-8", path=path), field="path") from None
        return real

    async def _make_volume(self, name: str, adopt: bool) -> None:
        """Before its row is written: a folder without one does no harm."""
        if await self.exists(name):
            return  # the row says so
        try:
            folder = await asyncio.to_thread(self._folders.make, self._folders.dataset(name))
        except OSError as error:
            raise Unavailable(
                msg("The folder of the volume {name} cannot be made: {strerror}", name=name, strerror=error.strerror)
            ) from error
        if not adopt and await asyncio.to_thread(_has_anything, folder):
            raise Conflict(
                msg("There is data left of an earlier volume {name}, in {folder}", name=name, folder=folder),
                field="name",
                hint=msg("Take it over with --adopt (adopt: true), choose another name, or move the data away."),
            )

    def _placed(self, dataset: Dataset) -> Dataset:
        """With the path of what lies where we put it."""
        if dataset.kind == kinds.VOLUME:
            return replace(dataset, path=str(self._folders.dataset(dataset.name)))
        if dataset.kind == kinds.GIT:
            return replace(dataset, path=str(self._folders.git(dataset.name) / dataset.name))
        return dataset

    def _shown(self, actor: Actor, dataset: Dataset) -> Dataset:
        """Which secret git goes by is the admins' alone."""
        if may(actor, Verb.MANAGE_PLACE) or "secret" not in dataset.data:
            return self._placed(dataset)
        data = {key: value for key, value in dataset.data.items() if key != "secret"}
        return self._placed(replace(dataset, data=data))


def _deed(actor: Actor, act: Act, name: str, detail: Mapping[str, Any] | None = None) -> AuditEntry:
    return AuditEntry(actor=actor.name, kind=AuditKind.DATASET, act=act, subject=name, detail=detail or {})


def may_use(actor: Actor, dataset: Dataset) -> bool:
    return actor.admin or dataset.everyone or any(group in actor.groups for group in dataset.groups)


def _need_admin(actor: Actor) -> None:
    if not may(actor, Verb.MANAGE_PLACE):
        raise Forbidden(msg("Only admins manage datasets"))


def _unknown(name: str, known: Iterable[Dataset]) -> NoDataset:
    hint = nearest(name, [dataset.name for dataset in known], "holdfast dataset ls")
    return NoDataset(msg("There is no dataset {name}", name=name[:100]), hint=hint)


def _variables(kind: str, given: Mapping[str, str] | None) -> Mapping[str, str] | None:
    if kind != kinds.ENV:
        if given:
            raise UserError(msg("Only the kind env has variables"), field="variables")
        return None
    kinds.check_variables(given or {})
    return given or {}


# -- on disk


def _has_anything(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return any(True for _ in entries)


def _put_away(folder: Path) -> None:
    """In one step, so that what is left of it after a crash is not taken for data."""
    ground = folder.with_name(PURGED)
    with suppress(OSError):
        folder.chmod(0o700)  # a job may have closed it, and only root moves a folder that it may not write to
    while os.path.lexists(folder):
        ground.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):  # somebody has just cleared the ground away
            folder.rename(ground / secrets.token_hex(8))


# -- within one write each


def _need(conn: Connection, name: str) -> Dataset:
    dataset = dataset_rows.get_dataset(conn, name)
    if dataset is None:
        raise _unknown(name, dataset_rows.list_datasets(conn))
    return dataset


def _create(conn: Connection, dataset: Dataset, variables: Mapping[str, str] | None) -> None:
    _check_secret(conn, dataset)
    dataset_rows.create_dataset(conn, dataset=dataset, variables=variables)


def _check_secret(conn: Connection, dataset: Dataset) -> None:
    name = dataset.data.get("secret") if dataset.kind == kinds.GIT else None
    if name is None:
        return
    secret = secret_rows.get_secret(conn, name)
    if secret is None:
        known = [known.name for known in secret_rows.list_secrets(conn) if known.kind is SecretKind.OPAQUE]
        hint = nearest(name, known, "holdfast secret ls")
        raise NotFound(msg("There is no secret {name}", name=name[:100]), field="data", hint=hint)
    if secret.kind is not SecretKind.OPAQUE:
        raise UserError(msg("The secret {name} is for a registry, not for git", name=name), field="data")


def _change(conn: Connection, name: str, change: DatasetChange) -> Dataset:
    given = {key: value for key in change.__slots__ if not isinstance(value := getattr(change, key), Unset)}
    variables, grants = given.pop("variables", None), given.pop("grants", None)
    before = _need(conn, name)
    if given.get("kind") == kinds.FOLDER:
        given.setdefault("data", {})
    after = kinds.tidy(replace(before, **given))
    kinds.check(after)
    _check_kind(before.kind, after.kind)
    kinds.check_path(after)
    _check_secret(conn, after)
    dataset_rows.update_dataset(conn, dataset=after)
    if variables is not None:
        dataset_rows.set_variables(conn, name, _variables(after.kind, variables) or {})
    return after if grants is None else _set_grants(conn, after, grants)


def _set_grants(conn: Connection, dataset: Dataset, wanted: Mapping[str, bool]) -> Dataset:
    for group in set(dataset.groups) - wanted.keys():
        dataset_rows.revoke(conn, dataset.name, group)
    for group, writable in sorted(wanted.items()):
        _grant(conn, dataset.name, group, writable)
    return _need(conn, dataset.name)


def _check_kind(before: str, after: str) -> None:
    """What was mounted from one place cannot turn into variables, nor a volume into somebody's folder."""
    if before != after and not {before, after} <= {kinds.FOLDER, kinds.NFS}:
        hint = msg("Remove it and add another; a volume's data stays.")
        raise UserError(
            msg("A dataset of the kind {before} cannot become {after}", before=before, after=after),
            field="kind",
            hint=hint,
        )


def _delete(conn: Connection, name: str, purge: bool) -> str:
    """The kind it was of."""
    kind = _need(conn, name).kind
    if purge and kind in (kinds.FOLDER, kinds.NFS):
        hint = msg("Remove the dataset without purge, and the data yourself.")
        raise UserError(
            msg("The folder of {name} was not made by Holdfast, which will not remove it", name=name), hint=hint
        )
    dataset_rows.delete_dataset(conn, name)
    return kind


def _grant(conn: Connection, name: str, group: str, writable: bool) -> Dataset:
    dataset = _need(conn, name)
    if writable and dataset.kind in (kinds.GIT, kinds.ENV):
        raise UserError(msg("Nobody can write to a dataset of the kind {kind}", kind=dataset.kind), field="writable")
    need_group(conn, group)
    dataset_rows.grant(conn, dataset.name, group, writable=writable)
    return _need(conn, name)


def _revoke(conn: Connection, name: str, group: str) -> Dataset:
    _need(conn, name)
    if not dataset_rows.revoke(conn, name, group):
        raise NotFound(msg("The dataset {name} is not granted to {group}", name=name, group=group[:100]))
    return _need(conn, name)
