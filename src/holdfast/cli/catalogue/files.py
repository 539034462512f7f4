"""files: what a group shares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import Json, Yes, connect
from ..prompts import sure
from ..quantities import show_instant, show_size
from ..transfers import bar, below, files_in, save

if TYPE_CHECKING:
    from holdfast.sdk import Client

files = typer.Typer(help="Files that a group shares, also with its jobs.", no_args_is_help=True)

Group = Annotated[
    str | None, typer.Option("--group", "-g", metavar="GROUP", help="Whose files. Default: yours, if you have one.")
]
PathArgument = Annotated[str, typer.Argument(metavar="PATH", help="A file or folder there.")]
Folder = Annotated[str, typer.Argument(metavar="PATH", help="A folder there. Default: the uppermost.")]
Recursive = Annotated[bool, typer.Option("--recursive", "-r", help="A folder, with all that is in it.")]


@files.command("ls")
def list_files(
    path: Folder = "",
    group: Group = None,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="All files, also in folders below.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10000, help="At most so many.")] = 1000,
    json: Json = False,
) -> None:
    """List shared files."""
    with connect() as client:
        name = whose(client, group)
        found = client.files(name, _plain(path), recursive=recursive, limit=limit)
    if json:
        output.emit_json(found)
        return
    if not found.items:
        output.note("There is nothing. Put something there: holdfast files put FILE")
    rows = [
        [item.name, "" if item.name.endswith("/") else show_size(item.size), show_instant(item.modified_at)]
        for item in found.items
    ]
    if rows:
        output.table(("NAME", "SIZE", "MODIFIED"), rows, drop=("MODIFIED", "SIZE"))
    if not found.complete:
        output.note(f"There is more than these {len(found.items)}. Name a folder, or say --limit.")
    if found.left_out:
        output.note(f"{found.left_out} not shown: links, devices, and names that are no text.")


@files.command("get")
def get_files(
    path: PathArgument,
    target: Annotated[
        Path | None, typer.Argument(metavar="DEST", help="Where to. Default: here, under the same name.")
    ] = None,
    group: Group = None,
    recursive: Recursive = False,
    json: Json = False,
) -> None:
    """Copy shared files to this machine."""
    path = _plain(path)
    with connect() as client:
        name = whose(client, group)
        if recursive:
            saved = _get_folder(client, name, path, target or Path(path.rpartition("/")[2] or name))
        else:
            where = _target(path, target)
            with bar(path, None) as told:
                saved = [(where, save(client.read_file(name, path), where, told))]
    _say("Got", saved, json)


def _get_folder(client: Client, group: str, path: str, folder: Path) -> list[tuple[Path, int]]:
    found = list(client.all_files(group, path))
    with bar(path or group, sum(item.size for item in found)) as told:
        return [
            (where, save(client.read_file(group, f"{path}/{item.name}".lstrip("/")), where, told))
            for item in found
            if (where := below(folder, item.name))
        ]


def _target(path: str, target: Path | None) -> Path:
    name = path.rpartition("/")[2]
    if target is None:
        return below(Path(), name)
    return below(target, name) if target.is_dir() else target


@files.command("put")
def put_files(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A file or folder of this machine.")],
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Its path there; with a slash at the end, a folder for it.")
    ] = "",
    group: Group = None,
    recursive: Recursive = False,
    json: Json = False,
) -> None:
    """Copy files of this machine to the shared ones."""
    from holdfast.core.errors import UserError

    _plain(path)
    if source.is_dir() and not recursive:
        raise UserError(f"{source} is a folder", hint="Say -r to copy all that is in it.")
    try:
        sizes = [(file, name, file.stat().st_size) for file, name in _sources(source, path)]
        with connect() as client, bar(source.name, sum(size for *_, size in sizes)) as told:
            whole = whose(client, group)
            for file, name, _ in sizes:
                client.put_file(whole, name, file, progress=told)
    except OSError as error:
        raise UserError(
            f"Cannot read {error.filename or source}: {error.strerror}", hint="Is the path right?"
        ) from None
    _say("Put", [(Path(name), size) for _, name, size in sizes], json)


def _sources(source: Path, path: str) -> list[tuple[Path, str]]:
    """Each file, and its path there. A folder's content goes into the folder that is named, or one of its own name."""
    if not source.is_dir():
        whole = path + source.name if not path or path.endswith("/") else path
        return [(source, whole.lstrip("/"))]
    folder = path.strip("/") or source.resolve().name
    return [(file, f"{folder}/{name}") for file, name in files_in(source)]


@files.command("rm")
def remove_files(
    path: PathArgument, group: Group = None, recursive: Recursive = False, yes: Yes = False, json: Json = False
) -> None:
    """Remove shared files. `-r /` removes all of them."""
    path = _plain(path)
    with connect() as client:
        name = whose(client, group)
        if recursive:
            what = f"{output.safe(path)} with all that is in it" if path else "all files"
            sure(f"Remove {what} from group {output.safe(name)}?", yes)
        count = client.remove_files(name, path, recursive=recursive).removed
    if json:
        output.emit_json({"removed": count})
    else:
        output.emit(f"Removed {count} {'file' if count == 1 else 'files'}.")


def _plain(path: str) -> str:
    """A path there. Its `..` would be worked out on the way, and mean another address of the server."""
    from holdfast.core.errors import UserError

    if ".." in path.split("/"):
        raise UserError(f"{path}: '..' is not allowed in a path of shared files", hint="Write models/weights.bin.")
    return path.strip("/")


def whose(client: Client, group: str | None) -> str:
    """The group that is named, or the only one there can be."""
    from holdfast.core.errors import UserError

    if group is not None:
        return group
    own = client.me().groups
    if len(own) == 1:
        return next(iter(own))
    if "default" in own:
        return "default"
    raise UserError("Whose files?", field="group", hint=f"Say --group: {', '.join(sorted(own)) or 'you are in none'}.")


def _say(verb: str, done: list[tuple[Path, int]], json: bool) -> None:
    if json:
        output.emit_json({"items": [{"name": str(path), "size": size} for path, size in done]})
        return
    total = show_size(sum(size for _, size in done))
    what = output.safe(str(done[0][0])) if len(done) == 1 else f"{len(done)} files"
    output.emit(f"{verb} {what} ({total}).")
