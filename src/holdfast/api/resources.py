"""Quantities of resources."""

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A quantity of resources."""

    cpu: Annotated[float, "Cores."] = 0.0
    memory: Annotated[int, "Bytes."] = 0
    gpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """An upper bound of each resource; null is unbounded."""

    cpu: Annotated[float | None, "Cores."] = None
    memory: Annotated[int | None, "Bytes."] = None
    gpu: int | None = None
