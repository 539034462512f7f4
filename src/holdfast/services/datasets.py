"""Datasets: folders with a name, granted to everyone or to groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from holdfast.core.access import Actor, Verb, may
from holdfast.core.errors import Forbidden, NotFound, UserError
from holdfast.core.records import Dataset
from holdfast.store import datasets as dataset_rows
from holdfast.store.database import Store

from .groups import UNSET, Unset
from .mounts import MountRules
from .names import check_name, check_text
from .refusals import NoDataset

FOLDER, NFS = "folder", "nfs"
_NFS_KEYS = {"server", "path"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetChange:
    path: str | Unset = UNSET
    description: str | Unset = UNSET
    read_only: bool | Unset = UNSET
    everyone: bool | Unset = UNSET
    per_user: bool | Unset = UNSET
    default: bool | Unset = UNSET
    kind: str | Unset = UNSET
    data: Mapping[str, Any] | Unset = UNSET


class Datasets:
    def __init__(self, store: Store, mounts: MountRules) -> None:
        self._store = store
        self._mounts = mounts

    async def list(self, actor: Actor) -> list[Dataset]:
        """All, for admins; those granted to them, for others."""
        found = await self._store.read(dataset_rows.list_datasets)
        return [dataset for dataset in found if may_use(actor, dataset)]

    async def get(self, actor: Actor, name: str) -> Dataset:
        dataset = await self._store.read(dataset_rows.get_dataset, name)
        if dataset is None or not may_use(actor, dataset):
            raise _unknown(name)
        return dataset

    async def exists(self, name: str) -> bool:
        """For clients that tell what is not granted from what is not there."""
        return await self._store.read(dataset_rows.get_dataset, name) is not None

    async def create(self, actor: Actor, dataset: Dataset) -> Dataset:
        """Its folder must be there. What is kept is the folder's real path."""
        _need_admin(actor)
        check_name(dataset.name, "dataset")
        _check(dataset)
        dataset = replace(
            dataset,
            path=await self._real_path(dataset.path),
            groups=tuple(sorted(set(dataset.groups))),
        )
        await self._store.write(dataset_rows.create_dataset, dataset=dataset)
        return dataset

    async def change(self, actor: Actor, name: str, change: DatasetChange) -> Dataset:
        """Jobs that were submitted before keep what they were given."""
        _need_admin(actor)
        if not isinstance(change.path, Unset):
            change = replace(change, path=await self._real_path(change.path))
        return await self._store.write(_change, name, change)

    async def delete(self, actor: Actor, name: str) -> None:
        """The folder stays, and so do the mounts of jobs that were submitted before."""
        _need_admin(actor)
        await self._store.write(_delete, name)

    async def grant(self, actor: Actor, name: str, group: str) -> Dataset:
        _need_admin(actor)
        return await self._store.write(_grant, name, group)

    async def revoke(self, actor: Actor, name: str, group: str) -> Dataset:
        _need_admin(actor)
        return await self._store.write(_revoke, name, group)

    async def _real_path(self, path: str) -> str:
        check_text(path, "path")
        real = str(await self._mounts.folder(path))
        try:
            real.encode()
        except UnicodeEncodeError:
            raise UserError(f"The real path of {path} is not UTF-8", field="path") from None
        return real


def may_use(actor: Actor, dataset: Dataset) -> bool:
    return actor.admin or dataset.everyone or any(group in actor.groups for group in dataset.groups)


def _need_admin(actor: Actor) -> None:
    if not may(actor, Verb.MANAGE_PLACE):
        raise Forbidden("Only admins manage datasets")


def _unknown(name: str) -> NoDataset:
    return NoDataset(f"There is no dataset {name[:100]}")


def _check(dataset: Dataset) -> None:
    check_text(dataset.description, "description")
    if dataset.kind not in (FOLDER, NFS):
        raise UserError(f"There is no kind {dataset.kind[:50]!r} of datasets", field="kind", hint="folder or nfs.")
    keys = set(dataset.data)
    if dataset.kind == FOLDER and keys:
        raise UserError("A folder has no data", field="data", hint="Only the kind nfs has: server and path.")
    texts = all(isinstance(value, str) and value and value.isprintable() for value in dataset.data.values())
    if dataset.kind == NFS and (keys != _NFS_KEYS or not texts):
        raise UserError("data of the kind nfs is a server and a path", field="data")


# -- within one write each


def _need(conn: Connection, name: str) -> Dataset:
    dataset = dataset_rows.get_dataset(conn, name)
    if dataset is None:
        raise _unknown(name)
    return dataset


def _change(conn: Connection, name: str, change: DatasetChange) -> Dataset:
    given = {key: value for key in change.__slots__ if not isinstance(value := getattr(change, key), Unset)}
    if given.get("kind") == FOLDER:
        given.setdefault("data", {})
    after = replace(_need(conn, name), **given)
    _check(after)
    dataset_rows.update_dataset(conn, dataset=after)
    return after


def _delete(conn: Connection, name: str) -> None:
    _need(conn, name)
    dataset_rows.delete_dataset(conn, name)


def _grant(conn: Connection, name: str, group: str) -> Dataset:
    dataset = _need(conn, name)
    dataset_rows.grant(conn, dataset.name, group)
    return _need(conn, name)


def _revoke(conn: Connection, name: str, group: str) -> Dataset:
    _need(conn, name)
    if not dataset_rows.revoke(conn, name, group):
        raise NotFound(f"The dataset {name} is not granted to {group[:100]}")
    return _need(conn, name)
