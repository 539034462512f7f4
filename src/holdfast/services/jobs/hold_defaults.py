"""Default holds of groups, for jobs that do not set `hold`."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.job import Hold
from holdfast.store import people
from holdfast.store.database import Store

from ..cached_value import CachedValue


class GroupHoldDefaults:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache = CachedValue(self._load_holds)

    async def get_group_hold(self, group: str) -> Hold | None:
        return (await self._cache.get()).get(group)

    def invalidate(self) -> None:
        self._cache.invalidate()

    async def _load_holds(self) -> Mapping[str, Hold]:
        groups = await self._store.read(people.list_groups)
        return {group.name: group.hold for group in groups if group.hold is not None}
