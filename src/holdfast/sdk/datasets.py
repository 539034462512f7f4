"""Calls about datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .exchange import Call, as_a, as_items, as_nothing, call, endpoint, given, segment
from .models import Dataset


class DatasetCalls:
    @endpoint
    def datasets(self) -> Call[tuple[Dataset, ...]]:
        """Those one may use; all, for admins."""
        return call("GET", "/datasets", as_items(Dataset))

    @endpoint
    def dataset(self, name: str) -> Call[Dataset]:
        return call("GET", _dataset(name), as_a(Dataset))

    @endpoint
    def add_dataset(
        self,
        name: str,
        path: str,
        *,
        description: str | None = None,
        read_only: bool | None = None,
        everyone: bool | None = None,
        groups: Sequence[str] | None = None,
        per_user: bool | None = None,
        default: bool | None = None,
        kind: str | None = None,
        data: Mapping[str, str] | None = None,
    ) -> Call[Dataset]:
        """Give a folder of the machine a name, read-only unless said otherwise. Nobody else may use it until it is
        granted: to everyone, or to groups."""
        body = given(
            name=name,
            path=path,
            description=description,
            read_only=read_only,
            everyone=everyone,
            groups=None if groups is None else list(groups),
            per_user=per_user,
            default=default,
            kind=kind,
            data=data,
        )
        return call("POST", "/datasets", as_a(Dataset), body=body)

    @endpoint
    def change_dataset(
        self,
        name: str,
        *,
        path: str | None = None,
        description: str | None = None,
        read_only: bool | None = None,
        everyone: bool | None = None,
        per_user: bool | None = None,
        default: bool | None = None,
        kind: str | None = None,
        data: Mapping[str, str] | None = None,
    ) -> Call[Dataset]:
        """Change what is given. Jobs that were submitted before keep what they have."""
        body = given(
            path=path,
            description=description,
            read_only=read_only,
            everyone=everyone,
            per_user=per_user,
            default=default,
            kind=kind,
            data=data,
        )
        return call("PATCH", _dataset(name), as_a(Dataset), body=body, repeatable=True)

    @endpoint
    def remove_dataset(self, name: str) -> Call[None]:
        """Its folder stays."""
        return call("DELETE", _dataset(name), as_nothing)

    @endpoint
    def grant_dataset(self, name: str, group: str) -> Call[Dataset]:
        """Let the members of a group use it."""
        return call("PUT", f"{_dataset(name)}/groups/{segment(group)}", as_a(Dataset))

    @endpoint
    def revoke_dataset(self, name: str, group: str) -> Call[None]:
        return call("DELETE", f"{_dataset(name)}/groups/{segment(group)}", as_nothing)


def _dataset(name: str) -> str:
    return f"/datasets/{segment(name)}"
