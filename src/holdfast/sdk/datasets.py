"""Calls about datasets."""

from __future__ import annotations

from typing import Unpack

from holdfast import api

from .calls import Call, build_call, build_path, drop_none, endpoint, ignore_body, make_list_parser

SYNC_TIMEOUT = 90.0  # seconds; the server responds sooner


class DatasetCalls:
    @endpoint
    def list_datasets(self) -> Call[tuple[api.datasets.Dataset, ...]]:
        """List the datasets the user can use; for admins, all."""
        return build_call("GET", "/datasets", make_list_parser(api.datasets.Dataset))

    @endpoint
    def get_dataset(self, name: str) -> Call[api.datasets.Dataset]:
        return build_call("GET", build_path("datasets", name), api.datasets.Dataset)

    @endpoint
    def add_dataset(
        self, name: str, path: str | None = None, **fields: Unpack[api.datasets.NewDatasetFields]
    ) -> Call[api.datasets.Dataset]:
        """Add a dataset, read-only by default. Only admins can use it until it is granted to everyone or to groups."""
        return build_call("POST", "/datasets", api.datasets.Dataset, body=drop_none(name=name, path=path, **fields))

    @endpoint
    def change_dataset(self, name: str, **fields: Unpack[api.datasets.DatasetChange]) -> Call[api.datasets.Dataset]:
        """Change the given fields. Submitted jobs are not affected."""
        return build_call("PATCH", build_path("datasets", name), api.datasets.Dataset, body=fields, repeatable=True)

    @endpoint
    def remove_dataset(self, name: str, *, purge: bool = False) -> Call[None]:
        """Remove a dataset. Its folder is kept; `purge` deletes the data of a volume."""
        return build_call("DELETE", build_path("datasets", name), ignore_body, params={"purge": purge})

    @endpoint
    def get_dataset_variables(self, name: str) -> Call[api.datasets.DatasetVariables]:
        """Return the variables of an env dataset with their values; admins only."""
        return build_call("GET", build_path("datasets", name, "variables"), api.datasets.DatasetVariables)

    @endpoint
    def sync_dataset(self, name: str) -> Call[api.datasets.GitState]:
        """Update a git dataset. Returns when done, or after a minute with `busy` set."""
        return build_call(
            "POST", build_path("datasets", name, "sync"), api.datasets.GitState, timeout=SYNC_TIMEOUT, repeatable=True
        )

    @endpoint
    def grant_dataset(self, name: str, group: str, *, writable: bool = False) -> Call[api.datasets.Dataset]:
        """Grant a group access; `writable`: also write access, regardless of `read_only`."""
        params = {"writable": writable}
        return build_call("PUT", build_path("datasets", name, "groups", group), api.datasets.Dataset, params=params)

    @endpoint
    def revoke_dataset(self, name: str, group: str) -> Call[None]:
        return build_call("DELETE", build_path("datasets", name, "groups", group), ignore_body)
