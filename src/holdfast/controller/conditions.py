"""Current problems of the installation, reported by the server and its engine."""

from __future__ import annotations

import logging
from collections.abc import Callable

from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.messages import msg
from holdfast.engines.base import Engine

log = logging.getLogger(__name__)

DATABASE_CONDITION = Condition(
    kind=ConditionKind.DATABASE,
    message=msg("Changes to jobs cannot be saved."),
    hint=msg(
        "See the server's log for the database error. Changes are kept in memory and saved when the database recovers."
    ),
)


class Conditions:
    def __init__(self, engine: Engine, on_change: Callable[[], None]) -> None:
        self._engine = engine
        self._on_change = on_change
        self._reported: dict[ConditionKind, Condition] = {}

    def list_conditions(self) -> tuple[Condition, ...]:
        return (*self._reported.values(), *self._engine.get_health().conditions)

    def report_condition(self, condition: Condition) -> None:
        """Report a condition until it is resolved. It can be repeated with another text."""
        if self._reported.get(condition.kind) != condition:
            self._reported[condition.kind] = condition
            log.warning(condition.message, extra={"event": "condition", "kind": condition.kind.value})
            self._on_change()

    def resolve_condition(self, kind: ConditionKind) -> None:
        """Resolve a condition; no error if there is none."""
        if self._reported.pop(kind, None) is not None:
            log.info("resolved", extra={"event": "condition", "kind": kind.value})
            self._on_change()

    def handle_engine_change(self) -> None:
        self.log_engine_conditions()
        self._on_change()

    def log_engine_conditions(self) -> None:
        for condition in self._engine.get_health().conditions:
            details = {"event": "condition", "kind": condition.kind.value, "error": condition.detail}
            log.warning(condition.message, extra=details)
