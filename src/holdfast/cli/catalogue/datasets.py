"""dataset: folders and variables that jobs are given by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.core.errors import UserError

from .. import output
from ..options import Json, Yes, connect
from ..prompts import sure
from ..quantities import show_instant
from .dataset_options import NONE, git_data, given, kind_of, nfs_data, read_variables

if TYPE_CHECKING:
    from holdfast.sdk import Client, Dataset, GitState

datasets = typer.Typer(help="Datasets: folders and variables that jobs are given by name.", no_args_is_help=True)


def complete_dataset(incomplete: str) -> list[str]:
    """Names, for the shell's completion; silent when there is no server to ask."""
    from holdfast.core.errors import HoldfastError

    try:
        with connect(timeout=2) as client:
            return [dataset.name for dataset in client.datasets() if dataset.name.startswith(incomplete)]
    except HoldfastError:
        return []


NewName = Annotated[str, typer.Argument(metavar="NAME", help="What it is called.")]
DatasetName = Annotated[
    str, typer.Argument(metavar="NAME", help="The dataset's name.", autocompletion=complete_dataset)
]
NewPath = Annotated[
    str | None,
    typer.Argument(metavar="[PATH]", help="A folder on the machine that runs the jobs; for the kinds folder and nfs."),
]
Kind = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="folder: one of yours. nfs: one on a file server. volume: one that Holdfast makes. git: a checkout that "
        "is kept up to date. env: variables.",
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", metavar="GROUP", help="A group that may use it; may be repeated, or with commas."),
]
GroupName = Annotated[str | None, typer.Argument(metavar="GROUP", help="The group's name.")]
Description = Annotated[str | None, typer.Option(help="What it holds.")]
Writable = Annotated[bool | None, typer.Option("--rw/--ro", help="Whether jobs may write to it. At first: --ro.")]
PerUser = Annotated[
    bool | None, typer.Option("--per-user/--shared", help="Whether each user gets a folder of their own in it.")
]
Default = Annotated[
    bool | None,
    typer.Option("--default/--no-default", help="Whether OpenPAI jobs get it that ask for the default storages."),
]
Nfs = Annotated[
    str | None,
    typer.Option(metavar="SERVER:PATH", help="Where the folder is mounted from; none: it is a plain folder."),
]
Git = Annotated[str | None, typer.Option(metavar="URL", help="A git repository, by https, ssh or file.")]
Branch = Annotated[str | None, typer.Option(help="Its branch or tag; none: its main branch.")]
Secret = Annotated[
    str | None, typer.Option(metavar="NAME", help="The secret with its SSH key or password; none: it needs none.")
]
VariablesFile = Annotated[
    Path | None, typer.Option("--variables", metavar="FILE", help="Lines of NAME=VALUE; - is stdin. All of them.")
]
Size = Annotated[int | None, typer.Option(min=1, metavar="GB", help="How large a volume is meant to be. Only told.")]
DisplayName = Annotated[str | None, typer.Option(help="What it is called in lists.")]
WritableGroups = Annotated[
    list[str] | None,
    typer.Option("--writable", metavar="GROUP", help="A group that may write to it; may be repeated, or with commas."),
]
NewEveryone = Annotated[bool, typer.Option("--everyone", help="All users may use it.")]
Everyone = Annotated[bool, typer.Option("--everyone", help="All users, in place of a group.")]


@datasets.command("ls")
def list_datasets(json: Json = False) -> None:
    """List the datasets that you may use."""
    with connect() as client:
        found = client.datasets()
    if json:
        output.emit_json({"items": found})
        return
    if not found:
        output.note("There is no dataset that you may use. An admin adds one: holdfast dataset add NAME PATH")
        return
    rows = [[one.name, one.kind, _access(one), _default(one), _who(one), _where(one), one.description] for one in found]
    columns = ("DATASET", "KIND", "MODE", "DEFAULT", "FOR", "WHERE", "DESCRIPTION")
    output.table(
        columns,
        rows,
        cut=("DESCRIPTION", "FOR", "MODE", "WHERE"),
        drop=("DEFAULT", "DESCRIPTION", "FOR", "KIND", "MODE", "WHERE"),
    )
    output.hint("holdfast dataset show NAME", "holdfast dataset add NAME PATH")


@datasets.command("show")
def show_dataset(name: DatasetName, json: Json = False) -> None:
    """Show a dataset."""
    with connect() as client:
        found = client.dataset(name)
    if json:
        output.emit_json(found)
        return
    output.emit(output.styled(f"dataset {output.safe(found.name)}", "bold", sys.stdout))
    for label, text in _details(found):
        output.emit(f"  {label:<12}{output.safe(text)}")
    output.hint(f"holdfast dataset grant {found.name} GROUP")


def _details(dataset: Dataset) -> list[tuple[str, str]]:
    data = dataset.data
    lines = [
        ("about", dataset.description),
        ("called", dataset.display_name),
        ("kind", "" if dataset.kind == "folder" else dataset.kind),
        ("path", dataset.path),
        ("mode", _mode(dataset)),
        ("for", _who(dataset)),
        ("writable by", ", ".join(dataset.writable_groups)),
        ("default", _default(dataset)),
        ("nfs", f"{data.get('server', '')}:{data.get('path', '')}" if dataset.kind == "nfs" else ""),
        ("git", data.get("url", "")),
        ("branch", data.get("branch", "")),
        ("secret", data.get("secret", "")),
        ("size", f"{data['size']} GB" if "size" in data else ""),
        *(_sync_lines(dataset.sync) if dataset.sync else ()),
    ]
    return [(label, text) for label, text in lines if text]


def _sync_lines(sync: GitState) -> list[tuple[str, str]]:
    at = f", checked {show_instant(sync.synced_at)}" if sync.synced_at else ""
    return [
        ("commit", f"{sync.commit}{at}" if sync.commit else "none yet"),
        ("trouble", sync.error),
        ("now", "is being updated" if sync.busy else ""),
    ]


@datasets.command("add")
def add_dataset(
    name: NewName,
    path: NewPath = None,
    kind: Kind = None,
    description: Description = None,
    display_name: DisplayName = None,
    rw: Writable = None,
    group: Groups = None,
    writable: WritableGroups = None,
    everyone: NewEveryone = False,
    per_user: PerUser = None,
    default: Default = None,
    nfs: Nfs = None,
    git: Git = None,
    branch: Branch = None,
    secret: Secret = None,
    variables: VariablesFile = None,
    size: Size = None,
    adopt: Annotated[bool, typer.Option("--adopt", help="Take over the data of an earlier volume.")] = False,
    json: Json = False,
) -> None:
    """Give a folder, a repository or variables a name that jobs are given them by."""
    kind = kind_of(kind, nfs=nfs, git=git, variables=variables)
    data = git_data({}, url=git, branch=branch, secret=secret) or {}
    data |= nfs_data(nfs) if nfs and nfs != NONE else {}
    data |= {"size": str(size)} if size else {}
    with connect() as client:
        made = client.add_dataset(
            name,
            path,
            description=description,
            display_name=display_name,
            read_only=None if rw is None else not rw,
            everyone=everyone,
            groups=_parts(group),
            writable_groups=_parts(writable),
            per_user=per_user,
            default=default,
            kind=kind,
            data=data,
            variables=read_variables(variables),
            adopt=adopt,
        )
    _say(made, "Added", json)
    if made.kind == "git":
        output.hint(f"holdfast dataset sync {made.name}")
    if not made.everyone and not made.groups:
        output.hint(f"holdfast dataset grant {made.name} GROUP", f"holdfast dataset grant {made.name} --everyone")


@datasets.command("set")
def change_dataset(
    name: DatasetName,
    path: Annotated[str | None, typer.Option(help="Another folder on the machine.")] = None,
    description: Description = None,
    display_name: DisplayName = None,
    rw: Writable = None,
    per_user: PerUser = None,
    default: Default = None,
    nfs: Nfs = None,
    git: Git = None,
    branch: Branch = None,
    secret: Secret = None,
    variables: VariablesFile = None,
    json: Json = False,
) -> None:
    """Change a dataset; what is not given stays. Jobs that were submitted before keep what they have."""
    told: dict[str, Any] = {}
    if nfs is not None:
        told = {"kind": "folder", "data": {}} if nfs == NONE else {"kind": "nfs", "data": nfs_data(nfs)}
    with connect() as client:
        if not told:
            told = given(data=_new_git(client, name, git, branch, secret))
        changed = client.change_dataset(
            name,
            path=path,
            description=description,
            display_name=display_name,
            read_only=None if rw is None else not rw,
            per_user=per_user,
            default=default,
            variables=read_variables(variables),
            **told,
        )
    _say(changed, "Changed", json)


def _new_git(
    client: Client, name: str, url: str | None, branch: str | None, secret: str | None
) -> dict[str, str] | None:
    if url is None and branch is None and secret is None:
        return None
    return git_data(client.dataset(name).data, url=url, branch=branch, secret=secret)


@datasets.command("rm")
def remove_dataset(
    name: DatasetName,
    purge: Annotated[bool, typer.Option("--purge", help="Remove the data of a volume, too. It is lost.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Remove a dataset. A folder stays, and jobs that were submitted before keep it."""
    sure(f"Remove dataset {output.safe(name)}{' and all its data' if purge else ''}?", yes)
    with connect() as client:
        kind = client.dataset(name).kind
        client.remove_dataset(name, purge=purge)
    if json:
        output.emit_json({"removed": name})
    else:
        output.emit(f"Removed {output.safe(name)}. {_left(kind, purge)}")


def _left(kind: str, purge: bool) -> str:
    """What became of that which it gave to jobs."""
    if kind == "env":
        return "Its variables are gone."
    if kind == "git":
        return "Its checkout goes when no job can have it any more."
    if kind == "volume":
        return "Its data is gone." if purge else "Its data stays; a new volume of that name takes it over with --adopt."
    return "Its folder stays as it is."


@datasets.command("sync")
def sync_dataset(name: DatasetName, json: Json = False) -> None:
    """Bring a git dataset up to date now, and say how that went."""
    with connect() as client:
        state = client.sync_dataset(name)
        while state.busy:
            state = client.sync_dataset(name)
    if json:
        output.emit_json(state)
    elif not state.error:
        output.emit(f"{output.safe(name)} is at {output.safe(state.commit)}.")
    if state.error:
        raise UserError(f"{name} is not up to date: {state.error}", hint=f"holdfast dataset show {name}")


@datasets.command("variables")
def show_variables(name: DatasetName, json: Json = False) -> None:
    """Print the variables of a dataset, with their values; for admins."""
    with connect() as client:
        found = client.dataset_variables(name).variables
    if json:
        output.emit_json({"variables": found})
        return
    for key, value in sorted(found.items()):
        output.emit(f"{output.safe(key)}={output.safe(value)}")


@datasets.command("grant")
def grant_dataset(
    name: DatasetName,
    group: GroupName = None,
    everyone: Everyone = False,
    rw: Annotated[bool, typer.Option("--rw", help="The group's jobs may write to it.")] = False,
    json: Json = False,
) -> None:
    """Let a group use a dataset, or everyone."""
    _need_one(group, everyone)
    if everyone and rw:
        raise typer.BadParameter("is for a group; for all, use `holdfast dataset set NAME --rw`", param_hint="--rw")
    with connect() as client:
        if group is None:
            found = client.change_dataset(name, everyone=True)
        else:
            found = client.grant_dataset(name, group, writable=rw)
    _say(found, "Granted", json)


@datasets.command("revoke")
def revoke_dataset(name: DatasetName, group: GroupName = None, everyone: Everyone = False, json: Json = False) -> None:
    """Take back what was granted. Jobs that were submitted before keep it."""
    _need_one(group, everyone)
    with connect() as client:
        had = group is not None or client.dataset(name).everyone  # a group that had it not is refused
        if group is None:
            found = client.change_dataset(name, everyone=False)
        else:
            client.revoke_dataset(name, group)
            found = client.dataset(name)
    _say(found, "Changed" if had else "Nothing changed of", json)


def _need_one(group: str | None, everyone: bool) -> None:
    if (group is None) != everyone:
        raise typer.BadParameter("name a group, or say --everyone", param_hint="GROUP")


def _parts(given: list[str] | None) -> list[str]:
    return [part for text in given or () for part in text.split(",") if part]


def _where(dataset: Dataset) -> str:
    return dataset.data.get("url", "") if dataset.kind == "git" else dataset.path


def _mode(dataset: Dataset) -> str:
    if dataset.kind == "env":
        return ""  # there is nothing to write to
    mode = "read-only" if dataset.read_only else "read-write"
    return f"{mode}, per user" if dataset.per_user else mode


def _access(dataset: Dataset) -> str:
    """Its mode, and who may write all the same."""
    writers = ", ".join(dataset.writable_groups) if dataset.read_only and dataset.kind != "env" else ""
    return f"{_mode(dataset)}, writable by {writers}" if writers else _mode(dataset)


def _default(dataset: Dataset) -> str:
    return "yes" if dataset.default else "no"


def _who(dataset: Dataset) -> str:
    return "everyone" if dataset.everyone else ", ".join(dataset.groups) or "admins"


def _say(dataset: Dataset, verb: str, json: bool) -> None:
    if json:
        output.emit_json(dataset)
    else:
        output.emit(
            f"{verb} {output.safe(dataset.name)}: {output.safe(_access(dataset) or 'variables')}, "
            f"for {output.safe(_who(dataset))}."
        )
