"""The `user` and `token` commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import output
from ..options import JsonOption, YesOption, open_client
from ..prompts import confirm_or_exit, read_password
from ..quantities import format_local_time, parse_duration

user_app = typer.Typer(help="Manage users.", no_args_is_help=True)
token_app = typer.Typer(help="Manage API tokens.", no_args_is_help=True)

UserNameArgument = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]
PasswordStdinOption = Annotated[bool, typer.Option("--password-stdin", help="Read the password from stdin.")]


@user_app.command("ls")
def list_users(json: JsonOption = False) -> None:
    """List users."""
    with open_client() as client:
        found = client.list_users()
    if json:
        output.emit_json({"items": found})
        return
    rows = [
        [
            user.name,
            "admin" if user.admin else "user",
            "disabled" if user.disabled else "",
            user.email,
            _format_memberships(user.groups),
            format_local_time(user.created_at),
        ]
        for user in found
    ]
    output.emit_table(
        ("USER", "KIND", "", "EMAIL", "GROUPS", "CREATED"),
        rows,
        cut=("EMAIL", "GROUPS"),
        drop=("CREATED", "EMAIL", "KIND", "GROUPS"),
    )
    output.print_hint("holdfast user add NAME", "holdfast user show NAME")


def _format_memberships(groups: object) -> str:
    assert isinstance(groups, dict)
    return ", ".join(f"{name} (admin)" if admin else name for name, admin in sorted(groups.items()))


@user_app.command("show")
def show_user(name: UserNameArgument, json: JsonOption = False) -> None:
    """Show a user."""
    with open_client() as client:
        user = client.get_user(name)
    if json:
        output.emit_json(user)
        return
    output.emit_line(
        f"{output.escape(user.name)}  {'admin' if user.admin else 'user'}{'  disabled' if user.disabled else ''}"
    )
    output.emit_line(f"  email    {output.escape(user.email or '-')}")
    output.emit_line(f"  groups   {output.escape(_format_memberships(user.groups) or '-')}")
    output.emit_line(f"  created  {format_local_time(user.created_at)}")


@user_app.command("add")
def add_user(
    name: UserNameArgument,
    admin: Annotated[bool, typer.Option("--admin", help="Make the user a system admin.")] = False,
    email: Annotated[str | None, typer.Option(help="Email address.")] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", "-g", metavar="GROUP[:admin]", help="Group of the user. Repeatable.")
    ] = None,
    password_stdin: PasswordStdinOption = False,
    no_password: Annotated[bool, typer.Option("--no-password", help="Set no password: only tokens work.")] = False,
    json: JsonOption = False,
) -> None:
    """Add a user. Prompts for the password."""
    groups = {one.removesuffix(":admin"): one.endswith(":admin") for one in group} if group else None
    password = None if no_password else read_password(f"Password of {name}", from_stdin=password_stdin, confirm=True)
    with open_client() as client:
        user = client.add_user(name, password, admin=admin, email=email, groups=groups)
    output.emit_result(user, f"Added {output.escape(user.name)}.", json)
    way_in = f"holdfast token create NAME --user {user.name}" if no_password else f"holdfast login --user {user.name}"
    output.print_hint(way_in, f"holdfast group member add GROUP {user.name}")


@user_app.command("set")
def change_user(
    name: UserNameArgument,
    admin: Annotated[
        bool | None, typer.Option("--admin/--no-admin", help="Whether the user is a system admin.")
    ] = None,
    email: Annotated[str | None, typer.Option(help="Email address.")] = None,
    disabled: Annotated[bool | None, typer.Option("--disable/--enable", help="Disable or enable the user.")] = None,
    json: JsonOption = False,
) -> None:
    """Change a user."""
    with open_client() as client:
        user = client.change_user(name, admin=admin, email=email, disabled=disabled)
    output.emit_result(user, f"Changed {output.escape(user.name)}.", json)


@user_app.command("rm")
def remove_user(name: UserNameArgument, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete a user. Their jobs and logs are kept."""
    confirm_or_exit(f"Delete user {output.escape(name)}?", yes)
    with open_client() as client:
        client.remove_user(name)
    _report_removal(name, json)


@user_app.command("passwd")
def set_password(
    name: Annotated[str | None, typer.Argument(metavar="USER", help="Name of the user. Default: you.")] = None,
    password_stdin: PasswordStdinOption = False,
    json: JsonOption = False,
) -> None:
    """Change your password, or set another user's as an admin.

    With --password-stdin, your own password needs two lines: the old one, then the new one.
    """
    with open_client() as client:
        own = name is None
        if name is None:
            old = read_password("Old password", from_stdin=password_stdin)
            new = read_password("New password", from_stdin=password_stdin, confirm=True)
            client.change_my_password(old, new)
        else:
            client.set_password(name, read_password(f"New password of {name}", from_stdin=password_stdin, confirm=True))
    output.emit_result(
        {"changed": name or "me"},
        "Changed your password." if own else f"Changed the password of {output.escape(name)}.",
        json,
    )


def _report_removal(name: str, json: bool) -> None:
    output.emit_removed(name, json)


@token_app.command("create")
def create_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")],
    expires: Annotated[str | None, typer.Option(help="Lifetime: 12h, 30d. Default: no expiry.")] = None,
    user: Annotated[str | None, typer.Option(help="Create it for another user. Admins only.")] = None,
    json: JsonOption = False,
) -> None:
    """Create an API token. It is shown only once."""
    with open_client() as client:
        token = client.add_token(name, expires_in=parse_duration(expires) if expires else None, user=user)
        url = client.address.url
    if json:
        output.emit_json(token)
        return
    output.emit_line(token.token)
    if output.is_terminal(sys.stderr):
        output.print_note("This token is shown only once. To use it:", "dim")
        output.print_note(f"  export HOLDFAST_URL={url} HOLDFAST_TOKEN=…", "dim")


@token_app.command("ls")
def list_tokens(json: JsonOption = False) -> None:
    """List API tokens, without their secrets."""
    with open_client() as client:
        found = client.list_tokens()
    if json:
        output.emit_json({"items": found})
        return
    rows = [
        [
            token.id,
            token.name,
            token.user,
            format_local_time(token.created_at),
            format_local_time(token.expires_at) or "never",
            format_local_time(token.last_used_at) or "never",
        ]
        for token in found
    ]
    output.emit_table(
        ("ID", "NAME", "USER", "CREATED", "EXPIRES", "LAST USED"),
        rows,
        cut=("NAME",),
        drop=("CREATED", "LAST USED", "USER"),
    )
    output.print_hint("holdfast token create NAME", "holdfast token rm ID")


@token_app.command("rm")
def remove_token(
    id: Annotated[str, typer.Argument(metavar="ID", help="Token id or its beginning, or name.")],
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Revoke an API token."""
    from holdfast.core.errors import UserError

    with open_client() as client:
        found = client.list_tokens() if id else ()
        alike = [token.id for token in found if token.id.startswith(id)]
        named = [token.id for token in found if token.name == id]
        fitting = [id] if id in alike else list(dict.fromkeys([*named, *alike]))
        if len(fitting) > 1:
            raise UserError(f"{len(fitting)} tokens match {id}", hint="Use the id; see `holdfast token ls`.")
        chosen = fitting[0] if fitting else id
        confirm_or_exit(f"Delete token {output.escape(chosen)}?", yes)
        client.remove_token(chosen)
    _report_removal(chosen, json)
