"""image alias: short names for images."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import output
from ..options import Json, Yes, connect
from ..prompts import sure
from .grants import Everyone, GroupName, Groups, NewEveryone, need_one, split_groups, who

if TYPE_CHECKING:
    from holdfast.sdk import ImageAlias

aliases = typer.Typer(help="Short names for images, for everyone or for groups.", no_args_is_help=True)


def complete_alias(incomplete: str) -> list[str]:
    """Names, for the shell's completion; silent when there is no server to ask."""
    from holdfast.core.errors import HoldfastError

    try:
        with connect(timeout=2) as client:
            return [alias.name for alias in client.image_aliases() if alias.name.startswith(incomplete)]
    except HoldfastError:
        return []


NewName = Annotated[str, typer.Argument(metavar="NAME", help="What jobs call it: small letters, digits, dashes, dots.")]
AliasName = Annotated[str, typer.Argument(metavar="NAME", help="The alias.", autocompletion=complete_alias)]
NewUrl = Annotated[str, typer.Argument(metavar="IMAGE", help="The image it stands for: see holdfast image ls.")]
Url = Annotated[str | None, typer.Option("--image", help="Another image that it stands for.")]
GpuUrl = Annotated[str | None, typer.Option("--gpu-image", help="Another image for tasks with GPUs; none: the same.")]
Kind = Annotated[str | None, typer.Option(metavar="cpu|gpu|both", help="What it is good for. At first: both.")]
DisplayName = Annotated[str | None, typer.Option(help="What people call it.")]
Description = Annotated[str | None, typer.Option(help="What is in it.")]
PullSecret = Annotated[
    str | None, typer.Option(help="Name of a secret to pull it with, on engines that pull; none: no secret.")
]
OfGroup = Annotated[str | None, typer.Option("--group", "-g", help="Only what the jobs of this group can name.")]


@aliases.command("ls")
def list_aliases(group: OfGroup = None, json: Json = False) -> None:
    """List the aliases that your jobs can name."""
    with connect() as client:
        found = client.image_aliases(group)
    if json:
        output.emit_json({"items": found})
        return
    if not found:
        output.note("There is none. An admin adds one: holdfast image alias add NAME IMAGE")
        return
    rows = [[one.name, one.url, _with_gpus(one), one.kind, _who(one), _about(one)] for one in found]
    output.table(
        ("ALIAS", "IMAGE", "WITH GPUS", "KIND", "FOR", "DESCRIPTION"),
        rows,
        cut=("IMAGE", "WITH GPUS", "FOR", "DESCRIPTION"),
        drop=("KIND", "DESCRIPTION", "FOR", "WITH GPUS"),
    )
    output.hint("holdfast submit --image ALIAS -- command", "holdfast image alias add NAME IMAGE")


@aliases.command("show")
def show_alias(name: AliasName, json: Json = False) -> None:
    """Show an alias."""
    with connect() as client:
        found = client.image_alias(name)
    if json:
        output.emit_json(found)
        return
    output.emit(output.styled(f"image alias {output.safe(found.name)}", "bold", sys.stdout))
    for label, value in _lines(found):
        if value:
            output.emit(f"  {label:<11} {output.safe(value)}")
    output.hint(f"holdfast submit --image {found.name} -- command")


@aliases.command("add")
def add_alias(
    name: NewName,
    image: NewUrl,
    gpu_image: GpuUrl = None,
    kind: Kind = None,
    display_name: DisplayName = None,
    description: Description = None,
    pull_secret: PullSecret = None,
    owner: Annotated[
        str | None, typer.Option(metavar="GROUP", help="The group it is for, and whose admins look after it.")
    ] = None,
    group: Groups = None,
    everyone: NewEveryone = False,
    json: Json = False,
) -> None:
    """Give an image a name: for everyone, for the groups that are named, or for its owner."""
    with connect() as client:
        made = client.add_image_alias(
            name,
            image,
            gpu_url=_or_empty(gpu_image),
            kind=kind,
            display_name=display_name,
            description=description,
            pull_secret=pull_secret,
            owner=owner,
            everyone=everyone or None,
            groups=split_groups(group),
        )
    _say(made, "Added", json)
    output.hint(f"holdfast submit --image {made.name} -- command")


@aliases.command("set")
def change_alias(
    name: AliasName,
    image: Url = None,
    gpu_image: GpuUrl = None,
    kind: Kind = None,
    display_name: DisplayName = None,
    description: Description = None,
    pull_secret: PullSecret = None,
    json: Json = False,
) -> None:
    """Change an alias; what is not given stays. Jobs that were submitted before keep the image they had."""
    more: dict[str, Any] = {}
    if pull_secret is not None:
        more["pull_secret"] = None if pull_secret.lower() == "none" else pull_secret
    with connect() as client:
        changed = client.change_image_alias(
            name,
            url=image,
            gpu_url=_or_empty(gpu_image),
            kind=kind,
            display_name=display_name,
            description=description,
            **more,
        )
    _say(changed, "Changed", json)


@aliases.command("rm")
def remove_alias(name: AliasName, yes: Yes = False, json: Json = False) -> None:
    """Remove an alias. The images it stands for stay."""
    sure(f"Remove image alias {output.safe(name)}?", yes)
    with connect() as client:
        client.remove_image_alias(name)
    if json:
        output.emit_json({"removed": name})
    else:
        output.emit(f"Removed {output.safe(name)}. Its images are still there.")


@aliases.command("grant")
def grant_alias(name: AliasName, group: GroupName = None, everyone: Everyone = False, json: Json = False) -> None:
    """Let the jobs of a group name it, or everyone's."""
    need_one(group, everyone)
    with connect() as client:
        found = (
            client.change_image_alias(name, everyone=True) if group is None else client.grant_image_alias(name, group)
        )
    _say(found, "Granted", json)


@aliases.command("revoke")
def revoke_alias(name: AliasName, group: GroupName = None, everyone: Everyone = False, json: Json = False) -> None:
    """Take back what was granted. Jobs that were submitted before keep it."""
    need_one(group, everyone)
    with connect() as client:
        if group is None:
            found = client.change_image_alias(name, everyone=False)
        else:
            client.revoke_image_alias(name, group)
            found = client.image_alias(name)
    _say(found, "Changed", json)


def _or_empty(text: str | None) -> str | None:
    return "" if text is not None and text.lower() == "none" else text


def _who(alias: ImageAlias) -> str:
    return who(alias.everyone, alias.groups)


def _with_gpus(alias: ImageAlias) -> str:
    return "" if alias.kind == "cpu" else alias.gpu_url or alias.url


def _about(alias: ImageAlias) -> str:
    return ": ".join(filter(None, (alias.display_name, alias.description)))


def _lines(alias: ImageAlias) -> list[tuple[str, str]]:
    return [
        ("shown as", alias.display_name),
        ("about", alias.description),
        ("image", alias.url),
        ("with GPUs", alias.gpu_url),
        ("kind", alias.kind),
        ("pulled with", alias.pull_secret or ""),
        ("owner", alias.owner or ""),
        ("for", _who(alias)),
    ]


def _say(alias: ImageAlias, verb: str, json: bool) -> None:
    if json:
        output.emit_json(alias)
    else:
        output.emit(f"{verb} {output.safe(alias.name)}: {output.safe(alias.url)}, for {output.safe(_who(alias))}.")
