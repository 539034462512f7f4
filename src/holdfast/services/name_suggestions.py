"""Hints for unknown names: the most similar known name, or the command that lists them."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection

from holdfast.core.errors import NotFound, UserError
from holdfast.core.job import HOST_IMAGE
from holdfast.core.messages import join_messages, msg
from holdfast.jobspec.fields import build_similar_name_hint
from holdfast.store import people

from .errors import HostImageUnavailable


def suggest_name(name: str, known: Collection[str], command: str = "") -> str:
    """Return a hint; empty if there is none. `known`: only names that the user can see."""
    tagged = sorted(word for word in known if name and word.startswith(f"{name}:"))  # an image without its tag
    near = msg("Did you mean {name}?", name=repr(tagged[-1])) if tagged else build_similar_name_hint(name, known)
    return near or (msg("`{command}` lists them.", command=command) if command else "")


def check_engine(name: str, known: Collection[str], *, is_group: bool = False) -> None:
    """Raise UserError if an engine was chosen that is not configured. `is_group`: for a group."""
    if name and name not in known:
        hint = msg("Available engines: {names}.", names=", ".join(known))
        if is_group:
            reset = msg("To reset it to the server's engine: `holdfast group set GROUP --engine default`.")
            hint = join_messages(" ", (hint, reset))
        raise UserError(
            msg("The engine {name} is not configured on this server", name=name[:100]), field="engine", hint=hint
        )


def build_host_image_error(engine: str, others: Collection[str]) -> HostImageUnavailable:
    """Return the error for a job without an image. `others`: the engines that have the image `host`."""
    hint = (
        msg("Set `image`, or use `engine: {name}`.", name=next(iter(others)))
        if others
        else msg("Set `image`. `holdfast image ls` lists the images on this server.")
    )
    return HostImageUnavailable(
        msg("The engine {name} has no image `{image}`", name=engine, image=HOST_IMAGE), field="image", hint=hint
    )


def build_group_not_found_error(name: str, known: Collection[str], field: str | None = None) -> NotFound:
    return NotFound(
        msg("Group {name} not found", name=name[:100]), field=field, hint=suggest_name(name, known, "holdfast group ls")
    )


def build_user_not_found_error(name: str, known: Collection[str]) -> NotFound:
    return NotFound(msg("User {name} not found", name=name[:100]), hint=suggest_name(name, known, "holdfast user ls"))


def require_group(conn: Connection, name: str, field: str | None = None) -> None:
    """Raise NotFound for an unknown group. Only for writes of admins, who can see all groups."""
    if people.get_group(conn, name) is None:
        raise build_group_not_found_error(name, [group.name for group in people.list_groups(conn)], field)
