"""Limits of request fields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

MAX_COUNT = 1_000_000  # cores or GPUs
MAX_BYTES = 2**60


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of a value, named as in pydantic's `Field`; the server checks them."""

    gt: float | None = None
    ge: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None


Name = Annotated[str, Limits(max_length=200)]
GroupNames = Annotated[Sequence[Name], Limits(max_length=1000)]
DisplayName = Annotated[str, Limits(max_length=255)]
Text = Annotated[str, Limits(max_length=4096)]
LongText = Annotated[str, Limits(max_length=65536)]
SlurmOptions = Annotated[
    Mapping[Annotated[str, Limits(max_length=63)], Annotated[str, Limits(max_length=255)]], Limits(max_length=20)
]
