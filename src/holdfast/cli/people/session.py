"""The `login`, `logout`, `version` and `completion` commands."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from .. import output
from ..options import JsonOption, open_client
from ..prompts import read_password, read_stdin_line


def login(
    url: Annotated[str | None, typer.Argument(metavar="URL", help="Server address. Default: the current one.")] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="User name. Default: prompt.")] = None,
    password_stdin: Annotated[bool, typer.Option("--password-stdin", help="Read the password from stdin.")] = False,
    token_stdin: Annotated[bool, typer.Option("--token-stdin", help="Read an API token from stdin instead.")] = False,
    json: JsonOption = False,
) -> None:
    """Log in to a server and save the login.

    The token is saved in a file that only your user on this machine can read.
    """
    from holdfast.sdk import Client
    from holdfast.sdk.address import load_device_token, save_login

    with Client(url, anonymous=True) as client:  # a saved token may have expired
        address = client.address.url
        client.get_version()  # check that it is a Holdfast server before asking for a password
        if not token_stdin:
            name = user or _prompt_user(password_stdin)
            password = read_password(f"Password of {name} at {address}", from_stdin=password_stdin)
            found = client.login(name, password, device=load_device_token(address, name))
            path = save_login(address, found.token, found.user or name, found.expires_at, device=found.device)
    if token_stdin:
        token = read_stdin_line("token")
        with Client(address, token) as client:
            name = client.get_current_user().name
        path = save_login(address, token, name, None)
    if json:
        output.emit_json({"url": address, "user": name})
    else:
        output.emit_line(f"Logged in to {address} as {output.escape(name)}.")
        if output.is_terminal(sys.stderr):
            output.print_note(f"The token is saved in {path}.", "dim")
    output.print_hint("holdfast ls", "holdfast submit FILE")


def _prompt_user(password_stdin: bool) -> str:
    if password_stdin or not sys.stdin.isatty():
        raise typer.BadParameter("missing --user")
    return str(typer.prompt("User", err=True))


def logout(
    url: Annotated[str | None, typer.Argument(metavar="URL", help="Server address. Default: the current one.")] = None,
    json: JsonOption = False,
) -> None:
    """Log out: delete a saved login and its token on the server."""
    from holdfast.core.errors import UserError
    from holdfast.sdk import ApiError, CannotConnect, Client
    from holdfast.sdk.address import normalize_url, remove_login

    found = remove_login(normalize_url(url) if url else None)
    if found is None:
        raise UserError("Not logged in: no saved login found", hint="Run `holdfast login`.")
    try:
        with Client(found.url, found.token) as client:
            client.logout()
    except (ApiError, CannotConnect) as error:
        output.print_note(
            f"warning: Could not revoke the token on the server: {output.escape(error.message)}", "yellow"
        )
    output.emit_result({"url": found.url, "user": found.user}, f"Logged out of {found.url}.", json)


def version(
    server: Annotated[bool, typer.Option("--server", help="Also show the version of the server.")] = False,
    json: JsonOption = False,
) -> None:
    """Show the version."""
    from holdfast import __version__

    theirs = None
    if server:
        with open_client() as client:
            theirs = client.get_version().version
    if json:
        output.emit_json({"client": __version__, "server": theirs})
        return
    output.emit_line(f"holdfast {__version__}")
    if theirs is not None:
        output.emit_line(f"server {output.escape(theirs)}")


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Shell.")], json: JsonOption = False) -> None:
    """Print the completion script of a shell.

    bash and zsh: source <(holdfast completion bash); fish: holdfast completion fish | source
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    script = get_completion_script(prog_name="holdfast", complete_var="_HOLDFAST_COMPLETE", shell=shell.value)
    output.emit_result({"shell": shell, "script": script}, script, json)
