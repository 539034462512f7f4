"""Calls about datasets."""

from __future__ import annotations

from typing import Unpack

from holdfast import api

from .exchange import Call, as_a, as_items, as_nothing, call, endpoint, given, segment

SYNC_TIMEOUT = 90.0  # seconds; the server answers sooner


class DatasetCalls:
    @endpoint
    def datasets(self) -> Call[tuple[api.datasets.Dataset, ...]]:
        """Those one may use; all, for admins."""
        return call("GET", "/datasets", as_items(api.datasets.Dataset))

    @endpoint
    def dataset(self, name: str) -> Call[api.datasets.Dataset]:
        return call("GET", _dataset(name), as_a(api.datasets.Dataset))

    @endpoint
    def add_dataset(
        self, name: str, path: str | None = None, **fields: Unpack[api.datasets.NewDatasetFields]
    ) -> Call[api.datasets.Dataset]:
        """Give something a name that jobs are given it by, read-only unless said otherwise: a folder of the machine, or
        what its kind says. Nobody else may use it until it is granted: to everyone, or to groups."""
        return call("POST", "/datasets", as_a(api.datasets.Dataset), body=given(name=name, path=path, **fields))

    @endpoint
    def change_dataset(self, name: str, **fields: Unpack[api.datasets.DatasetChange]) -> Call[api.datasets.Dataset]:
        """Change what is given. Jobs that were submitted before keep what they have."""
        return call("PATCH", _dataset(name), as_a(api.datasets.Dataset), body=fields, repeatable=True)

    @endpoint
    def remove_dataset(self, name: str, *, purge: bool = False) -> Call[None]:
        """Its folder stays; with `purge`, the data of a volume goes too."""
        return call("DELETE", _dataset(name), as_nothing, params={"purge": purge})

    @endpoint
    def dataset_variables(self, name: str) -> Call[api.datasets.Variables]:
        """Of the kind env, with their values; for admins."""
        return call("GET", f"{_dataset(name)}/variables", as_a(api.datasets.Variables))

    @endpoint
    def sync_dataset(self, name: str) -> Call[api.datasets.GitState]:
        """Bring a git dataset up to date. Returns when that is done, or after a minute, busy."""
        return call(
            "POST", f"{_dataset(name)}/sync", as_a(api.datasets.GitState), timeout=SYNC_TIMEOUT, repeatable=True
        )

    @endpoint
    def grant_dataset(self, name: str, group: str, *, writable: bool = False) -> Call[api.datasets.Dataset]:
        """Let the members of a group use it; `writable`: and their jobs write to it, whatever read_only says."""
        params = {"writable": writable}
        return call("PUT", f"{_dataset(name)}/groups/{segment(group)}", as_a(api.datasets.Dataset), params=params)

    @endpoint
    def revoke_dataset(self, name: str, group: str) -> Call[None]:
        return call("DELETE", f"{_dataset(name)}/groups/{segment(group)}", as_nothing)


def _dataset(name: str) -> str:
    return f"/datasets/{segment(name)}"
