"""What to try where there is nothing of a name: the nearest one that whoever asks may know, or how to list them."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection

from holdfast.core.errors import NotFound
from holdfast.core.messages import msg
from holdfast.jobspec.fields import guess
from holdfast.store import people


def nearest(name: str, known: Collection[str], command: str = "") -> str:
    """A hint; empty when nothing is near and no command lists them. `known`: never more than whoever asks may see."""
    tagged = sorted(word for word in known if name and word.startswith(f"{name}:"))  # an image without its tag
    near = msg("Did you mean {x1}?", x1=repr(tagged[-1])) if tagged else guess(name, known)
    return near or (msg("`{command}` lists them.", command=command) if command else "")


def no_group(name: str, known: Collection[str], field: str | None = None) -> NotFound:
    return NotFound(
        msg("There is no group {name}", name=name[:100]), field=field, hint=nearest(name, known, "holdfast group ls")
    )


def no_user(name: str, known: Collection[str]) -> NotFound:
    return NotFound(msg("There is no user {name}", name=name[:100]), hint=nearest(name, known, "holdfast user ls"))


def need_group(conn: Connection, name: str, field: str | None = None) -> None:
    """Within a write of an admin's, who may know all groups."""
    if people.get_group(conn, name) is None:
        raise no_group(name, [group.name for group in people.list_groups(conn)], field)
