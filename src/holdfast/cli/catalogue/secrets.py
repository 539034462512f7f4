"""secret: what the platform needs to clone from git and to pull images. Values go in, and are never shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import Json, Yes, connect
from ..prompts import read_secret, sure

if TYPE_CHECKING:
    from holdfast.sdk import Secret

secrets = typer.Typer(help="Secrets for git and for registries.", no_args_is_help=True)

SecretName = Annotated[str, typer.Argument(metavar="NAME", help="The secret's name.")]
NewRegistry = Annotated[
    str | None, typer.Option(metavar="HOST", help="It is a password to pull images from this registry.")
]
Registry = Annotated[str | None, typer.Option(metavar="HOST", help="Another registry.")]
Username = Annotated[str | None, typer.Option(help="The user name that goes with the password.")]
DisplayName = Annotated[str | None, typer.Option(help="What it is called in lists.")]
ValueFile = Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Read the value from this file.")]
Stdin = Annotated[bool, typer.Option("--stdin", help="Read the value from stdin.")]


@secrets.command("ls")
def list_secrets(json: Json = False) -> None:
    """List secrets, without their values."""
    with connect() as client:
        found = client.secrets()
    if json:
        output.emit_json({"items": found})
        return
    if not found:
        output.note("There is no secret that you may see. An admin adds one: holdfast secret add NAME")
        return
    rows = [[one.name, one.kind, one.registry_host, one.username, one.display_name] for one in found]
    output.table(("SECRET", "KIND", "REGISTRY", "USER", ""), rows, cut=("REGISTRY", ""), drop=("", "USER", "REGISTRY"))
    output.hint("holdfast secret show NAME", "holdfast secret add NAME")


@secrets.command("show")
def show_secret(name: SecretName, json: Json = False) -> None:
    """Show a secret, without its value."""
    with connect() as client:
        found = client.secret(name)
    if json:
        output.emit_json(found)
        return
    output.emit(output.styled(f"secret {output.safe(found.name)}", "bold", sys.stdout))
    for label, text in (("about", found.display_name), ("registry", found.registry_host), ("user", found.username)):
        if text:
            output.emit(f"  {label:<10}{output.safe(text)}")
    output.emit(f"  {'for':<10}{_purpose(found)}")


@secrets.command("add")
def add_secret(
    name: SecretName,
    registry: NewRegistry = None,
    username: Username = None,
    display_name: DisplayName = None,
    file: ValueFile = None,
    stdin: Stdin = False,
    json: Json = False,
) -> None:
    """Keep a private SSH key or a password for git; with --registry, a password to pull images. Asks for the value."""
    value = read_secret(f"Value of {name}", from_stdin=stdin, file=file)
    with connect() as client:
        made = client.add_secret(
            name,
            value,
            display_name=display_name,
            kind=None if registry is None else "registry",
            registry_host=registry,
            username=username,
        )
    _say(made, "Added", json)


@secrets.command("set")
def change_secret(
    name: SecretName,
    registry: Registry = None,
    username: Username = None,
    display_name: DisplayName = None,
    file: ValueFile = None,
    stdin: Stdin = False,
    json: Json = False,
) -> None:
    """Change a secret; what is not given stays. Without any option, asks for a new value."""
    nothing = registry is None and username is None and display_name is None
    wanted = file is not None or stdin or nothing
    value = read_secret(f"New value of {name}", from_stdin=stdin, file=file) if wanted else None
    with connect() as client:
        changed = client.change_secret(
            name, value=value, registry_host=registry, username=username, display_name=display_name
        )
    _say(changed, "Changed", json)


@secrets.command("rm")
def remove_secret(name: SecretName, yes: Yes = False, json: Json = False) -> None:
    """Remove a secret. Refused while a dataset or an image goes by it."""
    sure(f"Remove secret {output.safe(name)}?", yes)
    with connect() as client:
        client.remove_secret(name)
    if json:
        output.emit_json({"removed": name})
    else:
        output.emit(f"Removed {output.safe(name)}.")


def _purpose(secret: Secret) -> str:
    return "pulling images" if secret.kind == "registry" else "git"


def _say(secret: Secret, verb: str, json: bool) -> None:
    if json:
        output.emit_json(secret)
    else:
        output.emit(f"{verb} {output.safe(secret.name)}, for {_purpose(secret)}.")
