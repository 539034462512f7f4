"""Stores of the tests share what SQLAlchemy has compiled. Each would compile its statements anew, up to half of what a
short test costs: the cache is an engine's own, and its keys hold the engine's dialect."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, create_engine

from holdfast.store import connections

_first: dict[str, Engine] = {}


def _create_sharing_engine(*args: Any, **more: Any) -> Engine:
    engine = create_engine(*args, **more)
    first = _first.setdefault(engine.dialect.name, engine)
    engine.dialect = first.dialect
    engine._compiled_cache = first._compiled_cache
    return engine


def share() -> None:
    """From here on, in this process."""
    connections.create_engine = _create_sharing_engine  # type: ignore[attr-defined]
