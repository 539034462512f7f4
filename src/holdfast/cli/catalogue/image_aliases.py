"""The `image alias` commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import output
from ..options import (
    DescriptionOption,
    DisplayNameOption,
    JsonOption,
    YesOption,
    expand_options,
    make_completer,
    open_client,
)
from ..prompts import confirm_or_exit
from .grants import (
    AllowEveryoneOption,
    EveryoneOption,
    GroupFilterOption,
    GroupNameArgument,
    GroupsOption,
    NewNameArgument,
    format_audience,
    format_description,
    require_group_or_everyone,
    split_groups,
)

if TYPE_CHECKING:
    from holdfast.sdk import ImageAlias

alias_app = typer.Typer(help="Manage image aliases: short names for images.", no_args_is_help=True)


complete_alias = make_completer(lambda client: [alias.name for alias in client.list_image_aliases()])
AliasNameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the alias.", autocompletion=complete_alias)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasOptions:
    """Options of `holdfast image alias add` and `set`."""

    gpu_image: Annotated[
        str | None, typer.Option("--gpu-image", help="Image for tasks with GPUs; none: the same image.")
    ] = None
    kind: Annotated[
        str | None, typer.Option(metavar="cpu|gpu|both", help="Tasks it is suitable for. Default: both.")
    ] = None
    display_name: DisplayNameOption = None
    description: DescriptionOption = None
    pull_secret: Annotated[
        str | None, typer.Option(help="Pull secret, on engines that pull images; none: no secret.")
    ] = None

    def to_fields(self) -> dict[str, Any]:
        """Return the given fields except for the pull secret."""
        return {
            "gpu_url": "" if self.gpu_image is not None and self.gpu_image.lower() == "none" else self.gpu_image,
            "kind": self.kind,
            "display_name": self.display_name,
            "description": self.description,
        }

    def get_pull_secret(self) -> str | None:
        return None if self.pull_secret is None or self.pull_secret.lower() == "none" else self.pull_secret


@alias_app.command("ls")
def list_aliases(group: GroupFilterOption = None, json: JsonOption = False) -> None:
    """List the image aliases that you can use."""
    with open_client() as client:
        found = client.list_image_aliases(group)
    if json:
        output.emit_json({"items": found})
        return
    if not found:
        output.print_note("No image aliases. An admin can add one: holdfast image alias add NAME IMAGE")
        return
    rows = [
        [one.name, one.url, _format_gpu_image(one), one.kind, format_audience(one), format_description(one)]
        for one in found
    ]
    output.emit_table(
        ("ALIAS", "IMAGE", "WITH GPUS", "KIND", "FOR", "DESCRIPTION"),
        rows,
        cut=("IMAGE", "WITH GPUS", "FOR", "DESCRIPTION"),
        drop=("KIND", "DESCRIPTION", "FOR", "WITH GPUS"),
    )
    output.print_hint("holdfast submit --image ALIAS -- command", "holdfast image alias add NAME IMAGE")


@alias_app.command("show")
def show_alias(name: AliasNameArgument, json: JsonOption = False) -> None:
    """Show an image alias."""
    with open_client() as client:
        found = client.get_image_alias(name)
    if json:
        output.emit_json(found)
        return
    output.emit_styled(f"image alias {output.escape(found.name)}", "bold")
    output.emit_fields(_list_alias_fields(found), 11)
    output.print_hint(f"holdfast submit --image {found.name} -- command")


@alias_app.command("add")
@expand_options
def add_alias(
    name: NewNameArgument,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Image of the alias: see `holdfast image ls`.")],
    *,
    options: AliasOptions,
    owner: Annotated[str | None, typer.Option(metavar="GROUP", help="Group whose admins manage the alias.")] = None,
    group: GroupsOption = None,
    everyone: AllowEveryoneOption = False,
    json: JsonOption = False,
) -> None:
    """Add an image alias, for everyone, for groups or for its owner."""
    fields = {**options.to_fields(), "pull_secret": options.get_pull_secret(), "owner": owner}
    with open_client() as client:
        added = client.add_image_alias(name, image, everyone=everyone or None, groups=split_groups(group), **fields)
    _report_alias(added, "Added", json)
    output.print_hint(f"holdfast submit --image {added.name} -- command")


@alias_app.command("set")
@expand_options
def change_alias(
    name: AliasNameArgument,
    *,
    image: Annotated[str | None, typer.Option("--image", help="New image of the alias.")] = None,
    options: AliasOptions,
    json: JsonOption = False,
) -> None:
    """Change an image alias; omitted options keep their value. Submitted jobs are not affected."""
    fields = options.to_fields()
    if options.pull_secret is not None:
        fields["pull_secret"] = options.get_pull_secret()
    with open_client() as client:
        changed = client.change_image_alias(name, url=image, **fields)
    _report_alias(changed, "Changed", json)


@alias_app.command("rm")
def remove_alias(name: AliasNameArgument, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete an image alias. Its images are kept."""
    confirm_or_exit(f"Delete image alias {output.escape(name)}?", yes)
    with open_client() as client:
        client.remove_image_alias(name)
    output.emit_removed(name, json, note=" Its images are kept.")


@alias_app.command("grant")
def grant_alias(
    name: AliasNameArgument, group: GroupNameArgument = None, everyone: EveryoneOption = False, json: JsonOption = False
) -> None:
    """Grant a group, or all users, access to an image alias."""
    require_group_or_everyone(group, everyone)
    with open_client() as client:
        found = (
            client.change_image_alias(name, everyone=True) if group is None else client.grant_image_alias(name, group)
        )
    _report_alias(found, "Granted", json)


@alias_app.command("revoke")
def revoke_alias(
    name: AliasNameArgument, group: GroupNameArgument = None, everyone: EveryoneOption = False, json: JsonOption = False
) -> None:
    """Revoke access to an image alias. Submitted jobs are not affected."""
    require_group_or_everyone(group, everyone)
    with open_client() as client:
        if group is None:
            found = client.change_image_alias(name, everyone=False)
        else:
            client.revoke_image_alias(name, group)
            found = client.get_image_alias(name)
    _report_alias(found, "Changed", json)


def _format_gpu_image(alias: ImageAlias) -> str:
    return "" if alias.kind == "cpu" else alias.gpu_url or alias.url


def _list_alias_fields(alias: ImageAlias) -> list[tuple[str, str]]:
    return [
        ("shown as", alias.display_name),
        ("description", alias.description),
        ("image", alias.url),
        ("with GPUs", alias.gpu_url),
        ("kind", alias.kind),
        ("pull secret", alias.pull_secret or ""),
        ("owner", alias.owner or ""),
        ("for", format_audience(alias)),
    ]


def _report_alias(alias: ImageAlias, verb: str, json: bool) -> None:
    audience = output.escape(format_audience(alias))
    text = f"{verb} {output.escape(alias.name)}: {output.escape(alias.url)}, for {audience}."
    output.emit_result(alias, text, json)
