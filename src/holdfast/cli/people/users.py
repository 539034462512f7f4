"""user and token: who may come in."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import output
from ..options import Json, Yes, connect
from ..prompts import read_password, sure
from ..quantities import parse_duration, show_instant

users = typer.Typer(help="Users.", no_args_is_help=True)
tokens = typer.Typer(help="Tokens for scripts.", no_args_is_help=True)

UserName = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]
PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from stdin.")]


@users.command("ls")
def list_users(json: Json = False) -> None:
    """List users."""
    with connect() as client:
        found = client.users()
    if json:
        output.emit_json({"items": found})
        return
    rows = [
        [
            user.name,
            "admin" if user.admin else "user",
            "disabled" if user.disabled else "",
            user.email,
            _memberships(user.groups),
            show_instant(user.created_at),
        ]
        for user in found
    ]
    output.table(
        ("USER", "KIND", "", "EMAIL", "GROUPS", "CREATED"),
        rows,
        cut=("EMAIL", "GROUPS"),
        drop=("CREATED", "EMAIL", "KIND", "GROUPS"),
    )
    output.hint("holdfast user add NAME", "holdfast user show NAME")


def _memberships(groups: object) -> str:
    assert isinstance(groups, dict)
    return ", ".join(f"{name} (admin)" if admin else name for name, admin in sorted(groups.items()))


@users.command("show")
def show_user(name: UserName, json: Json = False) -> None:
    """Show a user."""
    with connect() as client:
        user = client.user(name)
    if json:
        output.emit_json(user)
        return
    output.emit(f"{output.safe(user.name)}  {'admin' if user.admin else 'user'}{'  disabled' if user.disabled else ''}")
    output.emit(f"  email    {output.safe(user.email or '-')}")
    output.emit(f"  groups   {output.safe(_memberships(user.groups) or '-')}")
    output.emit(f"  created  {show_instant(user.created_at)}")


@users.command("add")
def add_user(
    name: UserName,
    admin: Annotated[bool, typer.Option("--admin", help="May do everything.")] = False,
    email: Annotated[str | None, typer.Option(help="Where to reach them.")] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", metavar="GROUP[:admin]", help="A group they belong to; may be repeated."),
    ] = None,
    password_stdin: PasswordStdin = False,
    no_password: Annotated[bool, typer.Option("--no-password", help="They can only use tokens.")] = False,
    json: Json = False,
) -> None:
    """Add a user; asks for their password."""
    groups = {one.removesuffix(":admin"): one.endswith(":admin") for one in group} if group else None
    password = None if no_password else read_password(f"Password of {name}", from_stdin=password_stdin, confirm=True)
    with connect() as client:
        user = client.add_user(name, password, admin=admin, email=email, groups=groups)
    if json:
        output.emit_json(user)
    else:
        output.emit(f"Added {output.safe(user.name)}.")
    way_in = f"holdfast token create NAME --user {user.name}" if no_password else f"holdfast login --user {user.name}"
    output.hint(way_in, f"holdfast group member add GROUP {user.name}")


@users.command("set")
def change_user(
    name: UserName,
    admin: Annotated[bool | None, typer.Option("--admin/--no-admin", help="Whether they may do everything.")] = None,
    email: Annotated[str | None, typer.Option(help="Where to reach them.")] = None,
    disabled: Annotated[bool | None, typer.Option("--disable/--enable", help="Whether they are kept out.")] = None,
    json: Json = False,
) -> None:
    """Change a user."""
    with connect() as client:
        user = client.change_user(name, admin=admin, email=email, disabled=disabled)
    if json:
        output.emit_json(user)
    else:
        output.emit(f"Changed {output.safe(user.name)}.")


@users.command("rm")
def remove_user(name: UserName, yes: Yes = False, json: Json = False) -> None:
    """Remove a user. Their jobs and logs stay."""
    sure(f"Remove user {output.safe(name)}?", yes)
    with connect() as client:
        client.remove_user(name)
    _removed(name, json)


@users.command("passwd")
def set_password(
    name: Annotated[str | None, typer.Argument(metavar="USER", help="Whose; by default one's own.")] = None,
    password_stdin: PasswordStdin = False,
    json: Json = False,
) -> None:
    """Set a password: one's own, or as an admin another user's.

    With --password-stdin one's own needs two lines: the old password, then the new one.
    """
    with connect() as client:
        own = name is None
        if name is None:
            old = read_password("Old password", from_stdin=password_stdin)
            new = read_password("New password", from_stdin=password_stdin, confirm=True)
            client.change_my_password(old, new)
        else:
            client.set_password(name, read_password(f"New password of {name}", from_stdin=password_stdin, confirm=True))
    if json:
        output.emit_json({"changed": name or "me"})
    else:
        output.emit("Your password is changed." if own else f"The password of {output.safe(name)} is changed.")


def _removed(name: str, json: bool) -> None:
    if json:
        output.emit_json({"removed": name})
    else:
        output.emit(f"Removed {output.safe(name)}.")


@tokens.command("create")
def create_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    expires: Annotated[str | None, typer.Option(help="How long it lasts: 12h, 30d. Default: for ever.")] = None,
    user: Annotated[str | None, typer.Option(help="For another user; admins only.")] = None,
    json: Json = False,
) -> None:
    """Create a token for scripts. It is shown this once."""
    with connect() as client:
        token = client.add_token(name, expires_in=parse_duration(expires) if expires else None, user=user)
        url = client.address.url
    if json:
        output.emit_json(token)
        return
    output.emit(token.token)
    if output.is_terminal(sys.stderr):
        output.note("It is shown this once. To use it:", "dim")
        output.note(f"  export HOLDFAST_URL={url} HOLDFAST_TOKEN=…", "dim")


@tokens.command("ls")
def list_tokens(json: Json = False) -> None:
    """List tokens, without their secrets."""
    with connect() as client:
        found = client.tokens()
    if json:
        output.emit_json({"items": found})
        return
    rows = [
        [
            token.id,
            token.name,
            token.user,
            show_instant(token.created_at),
            show_instant(token.expires_at) or "never",
            show_instant(token.last_used_at) or "never",
        ]
        for token in found
    ]
    output.table(
        ("ID", "NAME", "USER", "CREATED", "EXPIRES", "LAST USED"),
        rows,
        cut=("NAME",),
        drop=("CREATED", "LAST USED", "USER"),
    )
    output.hint("holdfast token create NAME", "holdfast token rm ID")


@tokens.command("rm")
def remove_token(
    id: Annotated[str, typer.Argument(metavar="ID", help="Its id, how that begins, or its name.")],
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Make a token worthless."""
    from holdfast.core.errors import UserError

    with connect() as client:
        found = client.tokens() if id else ()
        alike = [token.id for token in found if token.id.startswith(id)]
        named = [token.id for token in found if token.name == id]
        fitting = [id] if id in alike else list(dict.fromkeys([*named, *alike]))
        if len(fitting) > 1:
            raise UserError(f"{len(fitting)} tokens are called {id} or begin so", hint="Give the id: holdfast token ls")
        chosen = fitting[0] if fitting else id
        sure(f"Remove token {output.safe(chosen)}?", yes)
        client.remove_token(chosen)
    _removed(chosen, json)
