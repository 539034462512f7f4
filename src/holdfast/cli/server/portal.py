"""`holdfast portal`: the way from the command line into the browser, without typing a password."""

from __future__ import annotations

import html
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import Json, connect

if TYPE_CHECKING:
    from holdfast.sdk import Client


def portal(
    open_it: Annotated[bool, typer.Option("--open", help="Open it in this machine's browser.")] = False,
    json: Json = False,
) -> None:
    """Print a link that logs a browser in to the portal as you.

    It works once, within ten minutes. Whoever has it can do what you can, so keep it to yourself.
    """
    with connect() as client:
        link, user, seconds = login_link(client)
    opened = open_it and _open(link)
    if json:
        output.emit_json({"url": link, "user": user, "expires_in": seconds, "opened": opened})
        return
    output.emit(link)
    if open_it and not opened:
        output.note("There is no browser to open on this machine: open the link elsewhere.", "yellow")
    if output.is_terminal(sys.stderr):
        output.note(f"It logs you in as {output.safe(user)}: once, within {seconds / 60:.0f} minutes.", "dim")


def login_link(client: Client) -> tuple[str, str, float]:
    """At the address this machine knows the server by; whom it logs in; and how many seconds it lasts."""
    made = client.login_code()
    return f"{client.address.url}/login?code={made.code}", made.user, made.expires_in


def _open(link: str) -> bool:
    """By way of a file that only we can read: everyone sees the words a program is started with."""
    import webbrowser

    from holdfast.sdk.address import login_file

    page = login_file().with_name("portal.html")
    page.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = html.escape(link, quote=True)
    _write_private(page, f'<!doctype html><meta http-equiv="refresh" content="0; url={target}">Holdfast\n')
    try:
        return webbrowser.open(page.as_uri())
    except webbrowser.Error:
        return False


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
