"""key: one's own SSH keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import output
from ..options import Json, Yes, connect
from ..prompts import sure
from ..quantities import show_instant

keys = typer.Typer(help="Your SSH keys.", no_args_is_help=True)

MAX_SIZE = 64 * 1024  # bytes; what is more is no public key


@keys.command("ls")
def list_keys(json: Json = False) -> None:
    """List your SSH keys."""
    with connect() as client:
        found = client.keys()
    if json:
        output.emit_json({"items": found})
        return
    if not found:
        output.note("You have no SSH key here yet.")
    rows = [[key.id, key.title, key.type, key.fingerprint, show_instant(key.added_at)] for key in found]
    output.table(
        ("ID", "TITLE", "TYPE", "FINGERPRINT", "ADDED"), rows, cut=("TITLE",), drop=("ADDED", "TYPE", "FINGERPRINT")
    )
    output.hint("holdfast key add ~/.ssh/id_ed25519.pub", "holdfast key rm ID")


@keys.command("add")
def add_key(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The public key, such as ~/.ssh/id_ed25519.pub; -: stdin.")
    ],
    title: Annotated[str | None, typer.Option(help="What to call it. Default: the key's comment.")] = None,
    json: Json = False,
) -> None:
    """Add an SSH key: the public half."""
    value = _read(file)
    with connect() as client:
        made = client.add_key(value, title=title)
    if json:
        output.emit_json(made)
    else:
        output.emit(f"Added {output.safe(made.title)}, {made.fingerprint}.")
    output.hint("holdfast key ls")


def _read(file: str) -> str:
    from holdfast.core.errors import UserError

    from ..prompts import first_line_of_stdin

    if file == "-":
        return first_line_of_stdin("key")
    try:
        with Path(file).expanduser().open("rb") as source:
            return source.read(MAX_SIZE).decode("utf-8", "replace")
    except OSError as error:
        hint = "Is the path right?"
        if isinstance(error, FileNotFoundError):
            hint = "If you have no key yet, `ssh-keygen -t ed25519` makes ~/.ssh/id_ed25519.pub."
        raise UserError(f"Cannot read {file}: {error.strerror}", hint=hint) from None


@keys.command("rm")
def remove_key(
    id: Annotated[str, typer.Argument(metavar="ID", help="Its id, how that begins, its fingerprint or its title.")],
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove an SSH key."""
    from holdfast.core.errors import UserError

    with connect() as client:
        found = client.keys() if id else ()
        fitting = [key for key in found if key.id.startswith(id) or id in (key.title, key.fingerprint)]
        if len(fitting) > 1:
            raise UserError(f"{len(fitting)} keys are called {id} or begin so", hint="Give the id: holdfast key ls")
        chosen = fitting[0].id if fitting else id
        sure(f"Remove the key {output.safe(fitting[0].title if fitting else id)}?", yes)
        client.remove_key(chosen)
    if json:
        output.emit_json({"removed": chosen})
    else:
        output.emit(f"Removed {output.safe(chosen)}.")
