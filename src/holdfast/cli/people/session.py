"""login, logout, version, completion."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from .. import output
from ..options import Json, connect
from ..prompts import first_line_of_stdin, read_password


def login(
    url: Annotated[str | None, typer.Argument(metavar="URL", help="The server; by default the one in use.")] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="User; asked for otherwise.")] = None,
    password_stdin: Annotated[bool, typer.Option("--password-stdin", help="Read the password from stdin.")] = False,
    token_stdin: Annotated[bool, typer.Option("--token-stdin", help="Read a token from stdin instead.")] = False,
    json: Json = False,
) -> None:
    """Log in to a server and remember it.

    The token is kept in a file that only this user of this machine can read.
    """
    from holdfast.sdk import Client
    from holdfast.sdk.address import save_login, saved_device

    with Client(url, anonymous=True) as client:  # a token saved before may be one that has ended
        address = client.address.url
        client.version()  # before anyone types a password: is it a Holdfast server?
        if not token_stdin:
            name = user or _ask_user(password_stdin)
            password = read_password(f"Password of {name} at {address}", from_stdin=password_stdin)
            found = client.login(name, password, device=saved_device(address, name))
            path = save_login(address, found.token, found.user or name, found.expires_at, device=found.device)
    if token_stdin:
        token = first_line_of_stdin("token")
        with Client(address, token) as client:
            name = client.me().name
        path = save_login(address, token, name, None)
    if json:
        output.emit_json({"url": address, "user": name})
    else:
        output.emit(f"Logged in to {address} as {output.safe(name)}.")
        if output.is_terminal(sys.stderr):
            output.note(f"The token is kept in {path}.", "dim")
    output.hint("holdfast ls", "holdfast submit FILE")


def _ask_user(password_stdin: bool) -> str:
    if password_stdin or not sys.stdin.isatty():
        raise typer.BadParameter("say who you are with --user")
    return str(typer.prompt("User", err=True))


def logout(
    url: Annotated[str | None, typer.Argument(metavar="URL", help="The server; by default the current one.")] = None,
    json: Json = False,
) -> None:
    """Forget a saved login, here and on the server."""
    from holdfast.core.errors import UserError
    from holdfast.sdk import ApiError, CannotConnect, Client
    from holdfast.sdk.address import forget_login, normal_url

    found = forget_login(normal_url(url) if url else None)
    if found is None:
        raise UserError("There is no saved login to forget", hint="`holdfast login` saves one.")
    try:
        with Client(found.url, found.token) as client:
            client.logout()
    except (ApiError, CannotConnect) as error:
        output.note(f"The server was not told: {output.safe(error.message)}", "yellow")
    if json:
        output.emit_json({"url": found.url, "user": found.user})
    else:
        output.emit(f"Logged out of {found.url}.")


def version(
    server: Annotated[bool, typer.Option("--server", help="Ask the server for its version too.")] = False,
    json: Json = False,
) -> None:
    """Show the version."""
    from holdfast import __version__

    theirs = None
    if server:
        with connect() as client:
            theirs = client.version().version
    if json:
        output.emit_json({"client": __version__, "server": theirs})
        return
    output.emit(f"holdfast {__version__}")
    if theirs is not None:
        output.emit(f"server {output.safe(theirs)}")


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="Which shell.")],
    json: Json = False,
) -> None:
    """Print a script that lets the shell complete commands.

    bash and zsh: source <(holdfast completion bash); fish: holdfast completion fish | source
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    script = get_completion_script(prog_name="holdfast", complete_var="_HOLDFAST_COMPLETE", shell=shell.value)
    if json:
        output.emit_json({"shell": shell, "script": script})
    else:
        output.emit(script)
