"""The `secret` commands. Values are write-only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import JsonOption, YesOption, open_client
from ..prompts import confirm_or_exit, read_secret

if TYPE_CHECKING:
    from holdfast.sdk import Secret

secret_app = typer.Typer(help="Manage secrets for Git and image registries.", no_args_is_help=True)

SecretNameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the secret.")]
NewRegistryOption = Annotated[
    str | None, typer.Option(metavar="HOST", help="Registry host, for a pull secret for images.")
]
RegistryOption = Annotated[str | None, typer.Option(metavar="HOST", help="New registry host.")]
UsernameOption = Annotated[str | None, typer.Option(help="User name for the password.")]
DisplayNameOption = Annotated[str | None, typer.Option(help="Display name.")]
ValueFileOption = Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Read the value from this file.")]
StdinOption = Annotated[bool, typer.Option("--stdin", help="Read the value from stdin.")]


@secret_app.command("ls")
def list_secrets(json: JsonOption = False) -> None:
    """List secrets, without their values."""
    with open_client() as client:
        found = client.list_secrets()
    if json:
        output.emit_json({"items": found})
        return
    if not found:
        output.print_note("No secrets. An admin can add one: holdfast secret add NAME")
        return
    rows = [[one.name, _describe_purpose(one), one.registry_host, one.username, one.display_name] for one in found]
    output.emit_table(
        ("SECRET", "FOR", "REGISTRY", "USER", ""), rows, cut=("REGISTRY", ""), drop=("", "USER", "REGISTRY")
    )
    output.print_hint("holdfast secret show NAME", "holdfast secret add NAME")


@secret_app.command("show")
def show_secret(name: SecretNameArgument, json: JsonOption = False) -> None:
    """Show a secret, without its value."""
    with open_client() as client:
        found = client.get_secret(name)
    if json:
        output.emit_json(found)
        return
    output.emit_styled(f"secret {output.escape(found.name)}", "bold")
    for label, text in (("shown as", found.display_name), ("registry", found.registry_host), ("user", found.username)):
        if text:
            output.emit_line(f"  {label:<10}{output.escape(text)}")
    output.emit_line(f"  {'for':<10}{_describe_purpose(found)}")


@secret_app.command("add")
def add_secret(
    name: SecretNameArgument,
    registry: NewRegistryOption = None,
    username: UsernameOption = None,
    display_name: DisplayNameOption = None,
    file: ValueFileOption = None,
    stdin: StdinOption = False,
    json: JsonOption = False,
) -> None:
    """Add a secret: an SSH key or password for Git, or a pull secret with --registry. Prompts for the value."""
    value = read_secret(f"Value of {name}", from_stdin=stdin, file=file)
    with open_client() as client:
        made = client.add_secret(
            name,
            value,
            display_name=display_name,
            kind=None if registry is None else "registry",
            registry_host=registry,
            username=username,
        )
    _report_secret(made, "Added", json)


@secret_app.command("set")
def change_secret(
    name: SecretNameArgument,
    registry: RegistryOption = None,
    username: UsernameOption = None,
    display_name: DisplayNameOption = None,
    file: ValueFileOption = None,
    stdin: StdinOption = False,
    json: JsonOption = False,
) -> None:
    """Change a secret; omitted options keep their value. Without options, prompts for a new value."""
    nothing = registry is None and username is None and display_name is None
    wanted = file is not None or stdin or nothing
    value = read_secret(f"New value of {name}", from_stdin=stdin, file=file) if wanted else None
    with open_client() as client:
        changed = client.change_secret(
            name, value=value, registry_host=registry, username=username, display_name=display_name
        )
    _report_secret(changed, "Changed", json)


@secret_app.command("rm")
def remove_secret(name: SecretNameArgument, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete a secret. Fails if a dataset or an image alias uses it."""
    confirm_or_exit(f"Delete secret {output.escape(name)}?", yes)
    with open_client() as client:
        client.remove_secret(name)
    output.emit_removed(name, json)


def _describe_purpose(secret: Secret) -> str:
    return "pulling images" if secret.kind == "registry" else "git"


def _report_secret(secret: Secret, verb: str, json: bool) -> None:
    output.emit_result(secret, f"{verb} {output.escape(secret.name)}, for {_describe_purpose(secret)}.", json)
