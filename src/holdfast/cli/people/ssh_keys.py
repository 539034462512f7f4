"""The `key` commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import output
from ..options import JsonOption, YesOption, open_client
from ..prompts import confirm_or_exit
from ..quantities import format_local_time

key_app = typer.Typer(help="Manage your SSH keys.", no_args_is_help=True)

MAX_KEY_FILE_SIZE = 64 * 1024  # bytes; larger files are not public keys


@key_app.command("ls")
def list_keys(json: JsonOption = False) -> None:
    """List your SSH keys."""
    with open_client() as client:
        found = client.list_keys()
    if json:
        output.emit_json({"items": found})
        return
    if not found:
        output.print_note("You have no SSH keys on this server.")
    rows = [[key.id, key.title, key.type, key.fingerprint, format_local_time(key.added_at)] for key in found]
    output.emit_table(
        ("ID", "TITLE", "TYPE", "FINGERPRINT", "ADDED"), rows, cut=("TITLE",), drop=("ADDED", "TYPE", "FINGERPRINT")
    )
    output.print_hint("holdfast key add ~/.ssh/id_ed25519.pub", "holdfast key rm ID")


@key_app.command("add")
def add_key(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Public key: ~/.ssh/id_ed25519.pub; - reads stdin.")],
    title: Annotated[str | None, typer.Option(help="Title. Default: the comment of the key.")] = None,
    json: JsonOption = False,
) -> None:
    """Add a public SSH key."""
    value = _read_public_key(file)
    with open_client() as client:
        made = client.add_key(value, title=title)
    output.emit_result(made, f"Added {output.escape(made.title)}, {made.fingerprint}.", json)
    output.print_hint("holdfast key ls")


def _read_public_key(file: str) -> str:
    from holdfast.core.errors import UserError

    from ..prompts import read_stdin_line

    if file == "-":
        return read_stdin_line("key")
    try:
        with Path(file).expanduser().open("rb") as source:
            return source.read(MAX_KEY_FILE_SIZE).decode("utf-8", "replace")
    except OSError as error:
        hint = "Check the path."
        if isinstance(error, FileNotFoundError):
            hint = "To create a key at ~/.ssh/id_ed25519.pub, run `ssh-keygen -t ed25519`."
        raise UserError(f"Cannot read {file}: {error.strerror}", hint=hint) from None


@key_app.command("rm")
def remove_key(
    id: Annotated[str, typer.Argument(metavar="ID", help="Key id or its beginning, fingerprint or title.")],
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Delete an SSH key."""
    from holdfast.core.errors import UserError

    with open_client() as client:
        found = client.list_keys() if id else ()
        fitting = [key for key in found if key.id.startswith(id) or id in (key.title, key.fingerprint)]
        if len(fitting) > 1:
            raise UserError(f"{len(fitting)} keys match {id}", hint="Use the id; see `holdfast key ls`.")
        chosen = fitting[0].id if fitting else id
        confirm_or_exit(f"Delete key {output.escape(fitting[0].title if fitting else id)}?", yes)
        client.remove_key(chosen)
    output.emit_removed(chosen, json)
