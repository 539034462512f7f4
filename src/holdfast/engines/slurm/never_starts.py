"""Since when Slurm says that it can never start a task. Pure.

Such a task does not fail at once: an admin may add nodes or change a partition, and Slurm may be mistaken for a moment
while it reads its configuration. The time begins anew when the reason ends, or Slurm does not respond.
"""

from __future__ import annotations

from .reasons import WaitClass, classify_reason


class NeverStarts:
    def __init__(self, timeout: float) -> None:
        self._timeout = timeout  # seconds; 0: tasks wait forever
        self._since: dict[str, float] = {}

    def has_expired(self, attempt_id: str, reason: str, now: float) -> bool:
        """Record the reason of a pending task; return whether it has been one of these for too long."""
        if classify_reason(reason) is not WaitClass.NEVER:
            self.forget(attempt_id)
            return False
        since = self._since.setdefault(attempt_id, now)
        return bool(self._timeout) and now - since >= self._timeout

    def forget(self, attempt_id: str) -> None:
        self._since.pop(attempt_id, None)

    def forget_all(self) -> None:
        self._since.clear()
