"""Amounts of resources."""

from dataclasses import dataclass
from typing import Annotated

from .limits import MAX_BYTES, MAX_COUNT, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAmount:
    """An amount of resources."""

    cpu: Annotated[float, "Cores."] = 0.0
    memory: Annotated[int, "Bytes."] = 0
    gpu: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Limit of each resource; null: unlimited."""

    cpu: Annotated[float | None, "Cores.", Limits(ge=0, le=MAX_COUNT)] = None
    memory: Annotated[int | None, "Bytes.", Limits(ge=0, le=MAX_BYTES)] = None
    gpu: Annotated[int | None, Limits(ge=0, le=MAX_COUNT)] = None
