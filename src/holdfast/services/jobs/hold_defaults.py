"""By which hold a job is kept that does not say: its group's."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.job import Hold
from holdfast.store import people
from holdfast.store.database import Store

from ..cached_value import Remembered


class GroupHolds:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known = Remembered(self._read)

    async def of(self, group: str) -> Hold | None:
        return (await self._known.get()).get(group)

    def forget(self) -> None:
        """Groups changed."""
        self._known.forget()

    async def _read(self) -> Mapping[str, Hold]:
        groups = await self._store.read(people.list_groups)
        return {group.name: group.hold for group in groups if group.hold is not None}
