"""The `image` commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import output
from ..options import JsonOption, YesOption, open_client
from ..prompts import confirm_or_exit
from ..quantities import format_local_time, format_size
from ..transfers import show_progress_bar
from .image_aliases import alias_app

image_app = typer.Typer(help="Manage images.", no_args_is_help=True)
image_app.add_typer(alias_app, name="alias")

ImageNameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the image.")]


@image_app.command("ls")
def list_images(json: JsonOption = False) -> None:
    """List images."""
    with open_client() as client:
        found = client.list_images()
    if json:
        output.emit_json({"items": found})
        return
    rows = [[image.name, format_size(image.size), format_local_time(image.created_at), image.source] for image in found]
    columns = ["IMAGE", "SIZE", "IMPORTED", "FROM"]
    if any(image.engine for image in found):
        columns.append("ENGINE")
        rows = [[*row, image.engine] for row, image in zip(rows, found, strict=True)]
    output.emit_table(columns, rows, cut=("FROM",))
    output.print_hint("holdfast image pull NAME", "holdfast submit --image NAME -- command")


@image_app.command("import")
def import_image(
    name: ImageNameArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="docker save, OCI layout or root filesystem tar.")],
    json: JsonOption = False,
) -> None:
    """Import an image from an archive."""
    from holdfast.core.errors import UserError

    try:
        size = file.stat().st_size
        with open_client() as client, show_progress_bar(file.name, size) as progress:
            image = client.import_image(name, file, progress=progress)
    except OSError as error:
        raise UserError(f"Cannot read {file}: {error.strerror}", hint="Check the path.") from None
    size_text = f" ({format_size(image.size)})" if image.size else ""
    target = f" for the engine {output.escape(image.engine)}" if image.engine else ""
    output.emit_result(image, f"Imported {output.escape(image.name)}{size_text}{target}.", json)
    engine = f"--engine {image.engine} " if image.engine else ""
    output.print_hint(f"holdfast submit {engine}--image {name} -- command")


@image_app.command("pull")
def pull_image(
    name: ImageNameArgument,
    secret: Annotated[str | None, typer.Option(help="Secret for its registry: see `holdfast secret add`.")] = None,
    engine: Annotated[str | None, typer.Option(help="Engine that needs it. Default: the server's.")] = None,
    json: JsonOption = False,
) -> None:
    """Pull an image from its registry. Jobs pull their images before they start; use this to pull in advance."""
    with open_client() as client:
        status = client.pull_image(name, secret=secret, engine=engine)
        with show_progress_bar(name, status.total or None) as progress:
            shown = 0
            while status.image is None:
                progress(status.done - shown)
                shown = status.done
                status = client.pull_image(name, secret=secret, engine=engine)
    image = status.image
    output.emit_result(
        image, f"Pulled {output.escape(image.name)}{f' ({format_size(image.size)})' if image.size else ''}.", json
    )
    output.print_hint(f"holdfast submit --image {name} -- command")


@image_app.command("rm")
def remove_image(name: ImageNameArgument, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete an image. Running jobs are not affected."""
    if name == "host":
        from holdfast.core.errors import UserError

        raise UserError("Cannot remove 'host': it is the filesystem of the node, not an imported image")
    confirm_or_exit(f"Delete image {output.escape(name)}?", yes)
    with open_client() as client:
        client.remove_image(name)
    output.emit_removed(name, json)
