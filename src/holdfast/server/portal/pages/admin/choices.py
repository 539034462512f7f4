"""What several forms offer to choose from."""

from __future__ import annotations

from ...fields import Choice, Field, Section
from ...visit import Visit


async def group_choices(visit: Visit) -> tuple[Choice, ...]:
    return tuple(Choice(group.name, group.name) for group in await visit.services.groups.list(visit.who))


async def who_may(visit: Visit, flag: str = "") -> Section:
    """Everyone, or these groups."""
    say = visit.say
    everyone = Field(name="everyone", label=say("Everyone"), kind="check", help=say("Also groups that come later."))
    groups = Field(name="groups", label=say("Groups"), kind="grants", choices=await group_choices(visit), flag=flag)
    return Section(title=say("Who may use it"), fields=(everyone, groups))


def naming(visit: Visit, *, name_help: str = "", new: bool = True) -> tuple[Field, ...]:
    """Name (of a new thing: it never changes), display name and description."""
    say = visit.say
    name = Field(name="name", label=say("Name"), required=True, help=name_help)
    shown = Field(name="display_name", label=say("Display name"), help=say("What people read; empty: the name."))
    about = Field(name="description", label=say("Description"))
    return (name, shown, about) if new else (shown, about)
