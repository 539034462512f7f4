"""Who runs where, now: a queue, what is in use, capacity and quotas -> assignments.

`Ledger` and `Queue` are plain bookkeeping that changes in place; nothing here does I/O. One pass costs what it places
and the few jobs it has to look past, not the number of jobs that exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine and all it has."""

    name: str
    cpu: float
    memory: int  # bytes
    gpus: tuple[int, ...] = ()
    port_start: int = 15000  # inclusive
    port_end: int = 40000  # exclusive
    address: str = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Upper bounds on what is in use at one time; None: no bound."""

    cpu: float | None = None
    memory: int | None = None  # bytes
    gpu: int | None = None
