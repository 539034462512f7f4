"""The `files` commands for the shared files of a group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import output
from ..options import JsonOption, YesOption, open_client
from ..prompts import confirm_or_exit
from ..quantities import format_local_time, format_size
from ..transfers import resolve_path_below, save_file, show_progress_bar, walk_files

if TYPE_CHECKING:
    from holdfast.sdk import Client

files_app = typer.Typer(help="Manage the shared files of a group.", no_args_is_help=True)

GroupOption = Annotated[
    str | None, typer.Option("--group", "-g", metavar="GROUP", help="Group of the files. Default: your only group.")
]
PathArgument = Annotated[str, typer.Argument(metavar="PATH", help="Shared file or folder.")]
FolderArgument = Annotated[str, typer.Argument(metavar="PATH", help="Shared folder. Default: the root folder.")]
RecursiveOption = Annotated[bool, typer.Option("--recursive", "-r", help="Copy or remove folders recursively.")]


@files_app.command("ls")
def list_files(
    path: FolderArgument = "",
    group: GroupOption = None,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="List subfolders recursively.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10000, help="Maximum number of entries.")] = 1000,
    json: JsonOption = False,
) -> None:
    """List shared files."""
    with open_client() as client:
        name = choose_group(client, group)
        found = client.list_files(name, _normalize_path(path), recursive=recursive, limit=limit)
    if json:
        output.emit_json(found)
        return
    if not found.items:
        output.print_note("No files. Upload one: holdfast files put FILE")
    rows = [
        [item.name, "" if item.name.endswith("/") else format_size(item.size), format_local_time(item.modified_at)]
        for item in found.items
    ]
    if rows:
        output.emit_table(("NAME", "SIZE", "MODIFIED"), rows, drop=("MODIFIED", "SIZE"))
    if not found.complete:
        output.print_note(f"Only the first {len(found.items)} are listed. Name a folder or raise --limit.")
    if found.left_out:
        output.print_note(f"{found.left_out} not shown: links, devices and invalid file names.")


@files_app.command("get")
def download_files(
    path: PathArgument,
    target: Annotated[
        Path | None,
        typer.Argument(metavar="DEST", help="Target file or folder. Default: the same name in the current folder."),
    ] = None,
    group: GroupOption = None,
    recursive: RecursiveOption = False,
    json: JsonOption = False,
) -> None:
    """Download shared files."""
    path = _normalize_path(path)
    with open_client() as client:
        name = choose_group(client, group)
        if recursive:
            saved = _download_folder(client, name, path, target or Path(path.rpartition("/")[2] or name))
        else:
            where = _resolve_target(path, target)
            with show_progress_bar(path, None) as progress:
                saved = [(where, save_file(client.stream_file(name, path), where, progress))]
    _report_transfer("Downloaded", saved, json)


def _download_folder(client: Client, group: str, path: str, folder: Path) -> list[tuple[Path, int]]:
    found = list(client.iter_files(group, path))
    with show_progress_bar(path or group, sum(item.size for item in found)) as progress:
        return [
            (where, save_file(client.stream_file(group, f"{path}/{item.name}".lstrip("/")), where, progress))
            for item in found
            if (where := resolve_path_below(folder, item.name))
        ]


def _resolve_target(path: str, target: Path | None) -> Path:
    name = path.rpartition("/")[2]
    if target is None:
        return resolve_path_below(Path(), name)
    return resolve_path_below(target, name) if target.is_dir() else target


@files_app.command("put")
def upload_files(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Local file or folder.")],
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="Target path; a trailing slash means a folder. Default: the same name."),
    ] = "",
    group: GroupOption = None,
    recursive: RecursiveOption = False,
    json: JsonOption = False,
) -> None:
    """Upload files to the shared files of a group."""
    from holdfast.core.errors import UserError

    _normalize_path(path)
    if source.is_dir() and not recursive:
        raise UserError(f"{source} is a folder", hint="Add -r to upload it with its content.")
    try:
        sizes = [(file, name, file.stat().st_size) for file, name in _list_sources(source, path)]
        with open_client() as client, show_progress_bar(source.name, sum(size for *_, size in sizes)) as progress:
            whole = choose_group(client, group)
            for file, name, _ in sizes:
                client.upload_file(whole, name, file, progress=progress)
    except OSError as error:
        raise UserError(f"Cannot read {error.filename or source}: {error.strerror}", hint="Check the path.") from None
    _report_transfer("Uploaded", [(Path(name), size) for _, name, size in sizes], json)


def _list_sources(source: Path, path: str) -> list[tuple[Path, str]]:
    """Return each local file with its target path. The content of a folder goes to `path`, or to its own name."""
    if not source.is_dir():
        whole = path + source.name if not path or path.endswith("/") else path
        return [(source, whole.lstrip("/"))]
    folder = path.strip("/") or source.resolve().name
    return [(file, f"{folder}/{name}") for file, name in walk_files(source)]


@files_app.command("rm")
def remove_files(
    path: PathArgument,
    group: GroupOption = None,
    recursive: RecursiveOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Delete shared files. `-r /` deletes all of them."""
    path = _normalize_path(path)
    with open_client() as client:
        name = choose_group(client, group)
        if recursive:
            what = f"{output.escape(path)} and everything in it" if path else "all files"
            confirm_or_exit(f"Delete {what} from group {output.escape(name)}?", yes)
        count = client.remove_files(name, path, recursive=recursive).removed
    output.emit_result({"removed": count}, f"Deleted {count} {'file' if count == 1 else 'files'}.", json)


def _normalize_path(path: str) -> str:
    """Normalize a shared path. `..` is rejected: HTTP libraries would resolve it to another URL."""
    from holdfast.core.errors import UserError

    if ".." in path.split("/"):
        raise UserError(f"{path}: '..' is not allowed in shared paths", hint="Use a path such as models/weights.bin.")
    return path.strip("/")


def choose_group(client: Client, group: str | None) -> str:
    """Return the given group, the user's only group, or `default`."""
    from holdfast.core.errors import UserError

    if group is not None:
        return group
    own = client.get_current_user().groups
    if len(own) == 1:
        return next(iter(own))
    if "default" in own:
        return "default"
    raise UserError("No group given", field="group", hint=f"Add --group; yours: {', '.join(sorted(own)) or 'none'}.")


def _report_transfer(verb: str, done: list[tuple[Path, int]], json: bool) -> None:
    if json:
        output.emit_json({"items": [{"name": str(path), "size": size} for path, size in done]})
        return
    total = format_size(sum(size for _, size in done))
    what = output.escape(str(done[0][0])) if len(done) == 1 else f"{len(done)} files"
    output.emit_line(f"{verb} {what} ({total}).")
