"""The option --slurm of groups and instance types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from .catalogue.grants import parse_pairs

if TYPE_CHECKING:
    from holdfast.api.jobs import SlurmOption as TaskOption

SlurmOption = Annotated[
    list[str] | None,
    typer.Option(
        "--slurm", metavar="NAME=VALUE", help="Option for Slurm, such as partition=gpu; `NAME=` removes it. Repeatable."
    ),
]


def merge_slurm_options(given: list[str] | None, before: Mapping[str, str]) -> dict[str, str] | None:
    """Return the current options with the given ones; None if none was given."""
    pairs = parse_pairs(given, "--slurm")
    return None if pairs is None else {name: value for name, value in {**before, **pairs}.items() if value}


def format_slurm_options(options: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def iter_task_option_lines(options: Sequence[TaskOption]) -> Iterator[str]:
    """Yield the options of each role with their sources, once if all roles have the same."""
    lines = {
        role: ", ".join(f"{option.name}={option.value} ({option.source.replace('-', ' ')})" for option in found)
        for role, found in groupby(options, lambda option: option.role)
    }
    if len(set(lines.values())) == 1:
        yield next(iter(lines.values()))
    else:
        yield from (f"{role}: {line}" for role, line in lines.items())
