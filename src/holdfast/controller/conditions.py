"""Current problems of the installation: what the server itself reports, and what its engine says of itself."""

from __future__ import annotations

import logging
from collections.abc import Callable

from holdfast.core.conditions import Condition, ConditionKind
from holdfast.engines.base import Engine

log = logging.getLogger(__name__)


class Conditions:
    def __init__(self, engine: Engine, on_change: Callable[[], None]) -> None:
        self._engine = engine
        self._on_change = on_change
        self._reported: dict[ConditionKind, Condition] = {}

    def current(self) -> tuple[Condition, ...]:
        return (*self._reported.values(), *self._engine.health().conditions)

    def report(self, condition: Condition) -> None:
        """From now on, until it is resolved. May be called again, also with another text."""
        if self._reported.get(condition.kind) != condition:
            self._reported[condition.kind] = condition
            log.warning(condition.message, extra={"event": "condition", "kind": condition.kind.value})
            self._on_change()

    def resolve(self, kind: ConditionKind) -> None:
        """Harmless where there is none."""
        if self._reported.pop(kind, None) is not None:
            log.info("resolved", extra={"event": "condition", "kind": kind.value})
            self._on_change()

    def engine_changed(self) -> None:
        self.log_engine()
        self._on_change()

    def log_engine(self) -> None:
        for condition in self._engine.health().conditions:
            said = {"event": "condition", "kind": condition.kind.value, "error": condition.detail}
            log.warning(condition.message, extra=said)
