"""The `dataset` commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.core.errors import UserError

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
from ..quantities import format_local_time
from .dataset_options import NONE, infer_kind, merge_git_options, parse_nfs, read_variables
from .grants import (
    AllowEveryoneOption,
    EveryoneOption,
    GroupNameArgument,
    GroupsOption,
    format_audience,
    require_group_or_everyone,
    split_groups,
)

if TYPE_CHECKING:
    from holdfast.sdk import Dataset, GitState

dataset_app = typer.Typer(help="Manage datasets: named folders and variables for jobs.", no_args_is_help=True)


complete_dataset = make_completer(lambda client: [dataset.name for dataset in client.list_datasets()])
NewNameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the dataset.")]
DatasetNameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Dataset name.", autocompletion=complete_dataset)
]
NewPathArgument = Annotated[
    str | None, typer.Argument(metavar="[PATH]", help="Folder on the node; only for the kinds folder and nfs.")
]
KindOption = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="folder: an existing folder. nfs: an NFS export. volume: a folder that Holdfast creates. git: a checkout "
        "that is kept up to date. env: environment variables. Default: folder.",
    ),
]
SizeOption = Annotated[int | None, typer.Option(min=1, metavar="GB", help="Intended size of the volume; not enforced.")]
WritableGroupsOption = Annotated[
    list[str] | None,
    typer.Option("--writable", metavar="GROUP", help="Group that can write to it. Repeatable, or separated by commas."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayOptions:
    """Options of `holdfast dataset add` and `set`: how it is shown and mounted."""

    description: DescriptionOption = None
    display_name: DisplayNameOption = None
    rw: Annotated[bool | None, typer.Option("--rw/--ro", help="Mount it read-write or read-only. Default: --ro.")] = (
        None
    )

    def to_fields(self) -> dict[str, Any]:
        read_only = None if self.rw is None else not self.rw
        return {"description": self.description, "display_name": self.display_name, "read_only": read_only}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options of `holdfast dataset add` and `set`: where its data comes from."""

    per_user: Annotated[
        bool | None, typer.Option("--per-user/--shared", help="Use one subfolder per user, or one folder.")
    ] = None
    default: Annotated[
        bool | None,
        typer.Option("--default/--no-default", help="Mount it in OpenPAI jobs that use the default storages."),
    ] = None
    nfs: Annotated[
        str | None, typer.Option(metavar="SERVER:PATH", help="NFS export to mount; none: use a plain folder.")
    ] = None
    git: Annotated[str | None, typer.Option(metavar="URL", help="Git repository: an https, ssh or file URL.")] = None
    branch: Annotated[str | None, typer.Option(help="Branch or tag; none: the default branch.")] = None
    secret: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Secret with the SSH key or password of the repository; none: no secret."),
    ] = None
    variables: Annotated[
        Path | None,
        typer.Option(
            "--variables", metavar="FILE", help="File with all variables, as lines of NAME=VALUE; - reads stdin."
        ),
    ] = None

    def to_fields(self) -> dict[str, Any]:
        """Return the given fields except for the kind and its data."""
        return {"per_user": self.per_user, "default": self.default, "variables": read_variables(self.variables)}

    def merge_git_data(self, load_data: Callable[[], Mapping[str, str]]) -> dict[str, str] | None:
        """Return the data of a git dataset with the given changes; None: no changes, and nothing is loaded."""
        changes = {"url": self.git, "branch": self.branch, "secret": self.secret}
        return None if set(changes.values()) == {None} else merge_git_options(load_data(), **changes)


@dataset_app.command("ls")
def list_datasets(json: JsonOption = False) -> None:
    """List the datasets that you can use."""
    with open_client() as client:
        found = client.list_datasets()
    if json:
        output.emit_json({"items": found})
        return
    if not found:
        output.print_note("No datasets. An admin can add one: holdfast dataset add NAME PATH")
        return
    rows = [
        [
            one.name,
            one.kind,
            _format_access(one),
            _format_default(one),
            format_audience(one),
            _format_location(one),
            one.description,
        ]
        for one in found
    ]
    columns = ("DATASET", "KIND", "MODE", "DEFAULT", "FOR", "WHERE", "DESCRIPTION")
    output.emit_table(
        columns,
        rows,
        cut=("DESCRIPTION", "FOR", "MODE", "WHERE"),
        drop=("DEFAULT", "DESCRIPTION", "FOR", "KIND", "MODE", "WHERE"),
    )
    output.print_hint("holdfast dataset show NAME", "holdfast dataset add NAME PATH")


@dataset_app.command("show")
def show_dataset(name: DatasetNameArgument, json: JsonOption = False) -> None:
    """Show a dataset."""
    with open_client() as client:
        found = client.get_dataset(name)
    if json:
        output.emit_json(found)
        return
    output.emit_styled(f"dataset {output.escape(found.name)}", "bold")
    output.emit_fields(_list_dataset_fields(found), 12)
    output.print_hint(f"holdfast dataset grant {found.name} GROUP")


def _list_dataset_fields(dataset: Dataset) -> list[tuple[str, str]]:
    data = dataset.data
    return [
        ("description", dataset.description),
        ("shown as", dataset.display_name),
        ("kind", "" if dataset.kind == "folder" else dataset.kind),
        ("path", dataset.path),
        ("mode", _format_mode(dataset)),
        ("for", format_audience(dataset)),
        ("writable by", ", ".join(dataset.writable_groups)),
        ("default", _format_default(dataset)),
        ("nfs", f"{data.get('server', '')}:{data.get('path', '')}" if dataset.kind == "nfs" else ""),
        ("git", data.get("url", "")),
        ("branch", data.get("branch", "")),
        ("secret", data.get("secret", "")),
        ("size", f"{data['size']} GB" if "size" in data else ""),
        *(_list_sync_fields(dataset.sync) if dataset.sync else ()),
    ]


def _list_sync_fields(sync: GitState) -> list[tuple[str, str]]:
    at = f", checked {format_local_time(sync.synced_at)}" if sync.synced_at else ""
    return [
        ("commit", f"{sync.commit}{at}" if sync.commit else "none yet"),
        ("error", sync.error),
        ("status", "updating" if sync.busy else ""),
    ]


@dataset_app.command("add")
@expand_options
def add_dataset(
    name: NewNameArgument,
    *,
    path: NewPathArgument = None,
    kind: KindOption = None,
    shown: DisplayOptions,
    group: GroupsOption = None,
    writable: WritableGroupsOption = None,
    everyone: AllowEveryoneOption = False,
    source: SourceOptions,
    size: SizeOption = None,
    adopt: Annotated[bool, typer.Option("--adopt", help="Reuse the data of a removed volume of this name.")] = False,
    json: JsonOption = False,
) -> None:
    """Add a dataset: a folder, an NFS export, a volume, a Git repository or variables."""
    kind = infer_kind(kind, nfs=source.nfs, git=source.git, variables=source.variables)
    data = source.merge_git_data(dict) or {}
    data |= parse_nfs(source.nfs) if source.nfs and source.nfs != NONE else {}
    data |= {"size": str(size)} if size else {}
    with open_client() as client:
        added = client.add_dataset(
            name,
            path,
            **shown.to_fields(),
            **source.to_fields(),
            everyone=everyone,
            groups=split_groups(group),
            writable_groups=split_groups(writable),
            kind=kind,
            data=data,
            adopt=adopt,
        )
    _report_dataset(added, "Added", json)
    if added.kind == "git":
        output.print_hint(f"holdfast dataset sync {added.name}")
    if not added.everyone and not added.groups:
        command = f"holdfast dataset grant {added.name}"
        output.print_hint(f"{command} GROUP", f"{command} --everyone")


@dataset_app.command("set")
@expand_options
def change_dataset(
    name: DatasetNameArgument,
    *,
    path: Annotated[str | None, typer.Option(help="New folder on the node.")] = None,
    shown: DisplayOptions,
    source: SourceOptions,
    json: JsonOption = False,
) -> None:
    """Change a dataset; omitted options keep their value. Submitted jobs are not affected."""
    with open_client() as client:
        if source.nfs == NONE:
            fields: dict[str, Any] = {"kind": "folder", "data": {}}
        elif source.nfs is not None:
            fields = {"kind": "nfs", "data": parse_nfs(source.nfs)}
        else:
            data = source.merge_git_data(lambda: client.get_dataset(name).data)
            fields = {} if data is None else {"data": data}
        changed = client.change_dataset(name, path=path, **shown.to_fields(), **source.to_fields(), **fields)
    _report_dataset(changed, "Changed", json)


@dataset_app.command("rm")
def remove_dataset(
    name: DatasetNameArgument,
    purge: Annotated[bool, typer.Option("--purge", help="Also delete the data of a volume.")] = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Delete a dataset. Folders are kept; submitted jobs are not affected."""
    confirm_or_exit(f"Delete dataset {output.escape(name)}{' and all its data' if purge else ''}?", yes)
    with open_client() as client:
        kind = client.get_dataset(name).kind
        client.remove_dataset(name, purge=purge)
    output.emit_result(
        {"removed": name}, f"Deleted {output.escape(name)}. {_describe_remaining_data(kind, purge)}", json
    )


def _describe_remaining_data(kind: str, purge: bool) -> str:
    if kind == "env":
        return "Its variables are deleted."
    if kind == "git":
        return "Its checkout is deleted when no job uses it."
    if kind == "volume":
        return "Its data is deleted." if purge else "Its data is kept; to reuse it, add the volume again with --adopt."
    return "Its folder is kept."


@dataset_app.command("sync")
def sync_dataset(name: DatasetNameArgument, json: JsonOption = False) -> None:
    """Update a git dataset now and show the result."""
    with open_client() as client:
        state = client.sync_dataset(name)
        while state.busy:
            state = client.sync_dataset(name)
    if json:
        output.emit_json(state)
    elif not state.error:
        output.emit_line(f"{output.escape(name)} is at {output.escape(state.commit)}.")
    if state.error:
        raise UserError(f"Cannot update {name}: {state.error}", hint=f"Run `holdfast dataset show {name}`.")


@dataset_app.command("variables")
def show_variables(name: DatasetNameArgument, json: JsonOption = False) -> None:
    """Print the variables of a dataset with their values. Admins only."""
    with open_client() as client:
        found = client.get_dataset_variables(name).variables
    if json:
        output.emit_json({"variables": found})
        return
    for key, value in sorted(found.items()):
        output.emit_line(f"{output.escape(key)}={output.escape(value)}")


@dataset_app.command("grant")
def grant_dataset(
    name: DatasetNameArgument,
    group: GroupNameArgument = None,
    everyone: EveryoneOption = False,
    rw: Annotated[bool, typer.Option("--rw", help="Allow the group to write to it.")] = False,
    json: JsonOption = False,
) -> None:
    """Grant a group, or all users, access to a dataset."""
    require_group_or_everyone(group, everyone)
    if everyone and rw:
        raise typer.BadParameter("requires a group; for all, run `holdfast dataset set NAME --rw`", param_hint="--rw")
    with open_client() as client:
        if group is None:
            found = client.change_dataset(name, everyone=True)
        else:
            found = client.grant_dataset(name, group, writable=rw)
    _report_dataset(found, "Granted", json)


@dataset_app.command("revoke")
def revoke_dataset(
    name: DatasetNameArgument,
    group: GroupNameArgument = None,
    everyone: EveryoneOption = False,
    json: JsonOption = False,
) -> None:
    """Revoke access to a dataset. Submitted jobs are not affected."""
    require_group_or_everyone(group, everyone)
    with open_client() as client:
        had = group is not None or client.get_dataset(name).everyone  # the server rejects a group without access
        if group is None:
            found = client.change_dataset(name, everyone=False)
        else:
            client.revoke_dataset(name, group)
            found = client.get_dataset(name)
    _report_dataset(found, "Changed" if had else "No change to", json)


def _format_location(dataset: Dataset) -> str:
    return dataset.data.get("url", "") if dataset.kind == "git" else dataset.path


def _format_mode(dataset: Dataset) -> str:
    if dataset.kind == "env":
        return ""  # not mounted
    mode = "read-only" if dataset.read_only else "read-write"
    return f"{mode}, per user" if dataset.per_user else mode


def _format_access(dataset: Dataset) -> str:
    """Return the mode, and the groups that can write to a read-only dataset."""
    writers = ", ".join(dataset.writable_groups) if dataset.read_only and dataset.kind != "env" else ""
    return f"{_format_mode(dataset)}, writable by {writers}" if writers else _format_mode(dataset)


def _format_default(dataset: Dataset) -> str:
    return "yes" if dataset.default else "no"


def _report_dataset(dataset: Dataset, verb: str, json: bool) -> None:
    access, audience = _format_access(dataset) or "variables", format_audience(dataset)
    text = f"{verb} {output.escape(dataset.name)}: {output.escape(access)}, for {output.escape(audience)}."
    output.emit_result(dataset, text, json)
