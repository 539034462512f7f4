"""One walk over the queue by its rules: for each job, in order, whether it may start."""

from __future__ import annotations

from collections.abc import Sequence

from .fitting import exhausted, fit, lacks_ports, set_aside
from .ledger import Room
from .placement import Amount, Waiting

_NOTHING = Amount()


class Walk:
    """What it closes and sets aside lasts as long as the walk."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.closed: set[str] = set()  # groups whose quota has stopped somebody
        self.short: set[str] = set()  # groups of which somebody waits for room on a machine
        self.stuck: list[Waiting] = []  # those that were looked at and may not start, as far as somebody notes them
        self.open = dict(room.free)  # what later jobs may take of machines: free, less what is set aside
        self._aside: dict[str | tuple[str, str], Amount] = {}  # the same of quotas, by group, and by group and user

    def look(self, waiting: Waiting) -> list[str] | None:
        """A machine for each of its tasks, if it may start now. The caller takes them, in `room` and by `took`."""
        group, user, total = waiting.group, waiting.user, waiting.total
        group_quota, user_quota = self.room.quota_of(group)
        if not user_quota.allows(self._used_by_user(group, user), total):
            return None
        if not group_quota.allows(self._used_by(group), total):
            self.closed.add(group)
            return None
        spots = fit(waiting.requests, self.open, self.room)
        if spots is None:
            self._set_aside(waiting, total)
        elif lacks_ports(waiting.requests, spots, self.room.free_ports):
            self.short.add(group)
            return None
        return spots

    def would_start(self, waiting: Waiting) -> bool:
        """Whether it may start now, if the walk came to it; nothing changes by asking."""
        group, user, total = waiting.group, waiting.user, waiting.total
        group_quota, user_quota = self.room.quota_of(group)
        if group in self.closed or exhausted(self.open):
            return False
        if not user_quota.allows(self._used_by_user(group, user), total):
            return False
        if not group_quota.allows(self._used_by(group), total):
            return False
        spots = fit(waiting.requests, self.open, self.room)
        return spots is not None and not lacks_ports(waiting.requests, spots, self.room.free_ports)

    def took(self, waiting: Waiting, spots: Sequence[str]) -> None:
        for request, spot in zip(waiting.requests, spots, strict=True):
            self.open[spot] = self.open[spot].minus(request.needs)

    def _set_aside(self, waiting: Waiting, total: Amount) -> None:
        self.short.add(waiting.group)
        set_aside(waiting.requests, self.open, self.room)
        for key in (waiting.group, (waiting.group, waiting.user)):
            self._aside[key] = self._aside.get(key, _NOTHING).plus(total)

    def _used_by(self, group: str) -> Amount:
        used = self.room.used_by(group)
        return used.plus(self._aside[group]) if group in self._aside else used

    def _used_by_user(self, group: str, user: str) -> Amount:
        used = self.room.used_by_user(group, user)
        return used.plus(self._aside[group, user]) if (group, user) in self._aside else used
