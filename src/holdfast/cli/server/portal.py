"""The `portal` command: log a browser in without a password."""

from __future__ import annotations

import html
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import JsonOption, open_client

if TYPE_CHECKING:
    from holdfast.sdk import Client


def portal(
    open_it: Annotated[bool, typer.Option("--open", help="Open the link in the browser of this machine.")] = False,
    json: JsonOption = False,
) -> None:
    """Print a link that logs a browser in to the portal as you.

    The link works once, for ten minutes. Keep it secret: it gives full access to your account.
    """
    with open_client() as client:
        link, user, seconds = create_login_link(client)
    opened = open_it and _open_browser(link)
    if json:
        output.emit_json({"url": link, "user": user, "expires_in": seconds, "opened": opened})
        return
    output.emit_line(link)
    if open_it and not opened:
        output.print_note("No browser found on this machine. Open the link on another one.", "yellow")
    if output.is_terminal(sys.stderr):
        output.print_note(
            f"It logs you in as {output.escape(user)}. Valid once, for {seconds / 60:.0f} minutes.", "dim"
        )


def create_login_link(client: Client) -> tuple[str, str, float]:
    """Return a login link, its user, and its lifetime in seconds."""
    made = client.create_login_code()
    return f"{client.address.url}/login?code={made.code}", made.user, made.expires_in


def _open_browser(link: str) -> bool:
    """Open the link through a private file: other users can see the arguments of a process."""
    import webbrowser

    from holdfast.sdk.address import get_login_path

    page = get_login_path().with_name("portal.html")
    page.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = html.escape(link, quote=True)
    _write_private_file(page, f'<!doctype html><meta http-equiv="refresh" content="0; url={target}">Holdfast\n')
    try:
        return webbrowser.open(page.as_uri())
    except webbrowser.Error:
        return False


def _write_private_file(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
