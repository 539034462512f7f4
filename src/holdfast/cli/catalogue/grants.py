"""Who something is for: everyone, or groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

Groups = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", metavar="GROUP", help="A group that may use it; may be repeated, or with commas."),
]
GroupName = Annotated[str | None, typer.Argument(metavar="GROUP", help="The group's name.")]
NewEveryone = Annotated[bool, typer.Option("--everyone", help="All users may use it.")]
Everyone = Annotated[bool, typer.Option("--everyone", help="All users, in place of a group.")]


def split_groups(given: Sequence[str] | None) -> list[str]:
    return [part for text in given or () for part in text.split(",") if part]


def need_one(group: str | None, everyone: bool) -> None:
    if (group is None) != everyone:
        raise typer.BadParameter("name a group, or say --everyone", param_hint="GROUP")


def who(everyone: bool, groups: Sequence[str]) -> str:
    return "everyone" if everyone else ", ".join(groups) or "admins"


def parse_pairs(given: Sequence[str] | None, option: str) -> dict[str, str] | None:
    """NAME=VALUE each; None when none was given."""
    if not given:
        return None
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} must look like NAME=VALUE", param_hint=option)
        found[name] = value
    return found
