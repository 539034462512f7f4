"""Options to grant access to everyone or to groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from holdfast.sdk import Dataset, ImageAlias, InstanceType

GroupsOption = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", metavar="GROUP", help="Group that can use it. Repeatable, or separated by commas."),
]
GroupNameArgument = Annotated[str | None, typer.Argument(metavar="GROUP", help="Name of the group.")]
AllowEveryoneOption = Annotated[bool, typer.Option("--everyone", help="Allow all users to use it.")]
EveryoneOption = Annotated[bool, typer.Option("--everyone", help="All users instead of a group.")]
GroupFilterOption = Annotated[str | None, typer.Option("--group", "-g", help="Only those that this group can use.")]
NewNameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name: lower-case letters, digits, dashes, dots.")]


def split_groups(given: Sequence[str] | None) -> list[str]:
    return [part for text in given or () for part in text.split(",") if part]


def require_group_or_everyone(group: str | None, everyone: bool) -> None:
    if (group is None) != everyone:
        raise typer.BadParameter("give either a group or --everyone", param_hint="GROUP")


def format_audience(item: Dataset | ImageAlias | InstanceType) -> str:
    return "everyone" if item.everyone else ", ".join(item.groups) or "admins"


def format_description(item: ImageAlias | InstanceType) -> str:
    return ": ".join(filter(None, (item.display_name, item.description)))


def parse_pairs(given: Sequence[str] | None, option: str) -> dict[str, str] | None:
    """Parse NAME=VALUE pairs; None if none was given."""
    if not given:
        return None
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        found[name] = value
    return found
