"""image: the root filesystems jobs run in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import output
from ..options import Json, Yes, connect
from ..prompts import sure
from ..quantities import show_instant, show_size
from ..transfers import bar
from .image_aliases import aliases

images = typer.Typer(help="Images that jobs run in.", no_args_is_help=True)
images.add_typer(aliases, name="alias")

ImageName = Annotated[str, typer.Argument(metavar="NAME", help="The image's name.")]


@images.command("ls")
def list_images(json: Json = False) -> None:
    """List images."""
    with connect() as client:
        found = client.images()
    if json:
        output.emit_json({"items": found})
        return
    rows = [[image.name, show_size(image.size), show_instant(image.created_at), image.source] for image in found]
    output.table(("IMAGE", "SIZE", "IMPORTED", "FROM"), rows, cut=("FROM",))
    output.hint("holdfast image import NAME FILE", "holdfast submit --image NAME -- command")


@images.command("import")
def import_image(
    name: ImageName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A docker-save tar, OCI layout tar or rootfs tar.")],
    json: Json = False,
) -> None:
    """Import an image from an archive."""
    from holdfast.core.errors import UserError

    try:
        size = file.stat().st_size
        with connect() as client, bar(file.name, size) as progress:
            image = client.import_image(name, file, progress=progress)
    except OSError as error:
        raise UserError(f"Cannot read {file}: {error.strerror}", hint="Is the path right?") from None
    if json:
        output.emit_json(image)
    else:
        output.emit(f"Imported {output.safe(image.name)}{f' ({show_size(image.size)})' if image.size else ''}.")
    output.hint(f"holdfast submit --image {name} -- command")


@images.command("rm")
def remove_image(name: ImageName, yes: Yes = False, json: Json = False) -> None:
    """Remove an image. Jobs that run in it go on."""
    if name == "host":
        from holdfast.core.errors import UserError

        raise UserError("host is the machine's own filesystem, not an imported image: it cannot be removed")
    sure(f"Remove image {output.safe(name)}?", yes)
    with connect() as client:
        client.remove_image(name)
    if json:
        output.emit_json({"removed": name})
    else:
        output.emit(f"Removed {output.safe(name)}.")
