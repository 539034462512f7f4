"""dataset: folders that jobs mount by name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import output
from .options import Json, Yes, connect
from .secrets import sure

if TYPE_CHECKING:
    from holdfast.sdk import Dataset

datasets = typer.Typer(help="Datasets: folders that jobs mount by name.", no_args_is_help=True)


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
NewPath = Annotated[str, typer.Argument(metavar="PATH", help="A folder on the machine that runs the jobs.")]
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
    rows = [[one.name, _mode(one), _default(one), _who(one), one.path, one.description] for one in found]
    columns = ("DATASET", "MODE", "DEFAULT", "FOR", "PATH", "DESCRIPTION")
    output.table(columns, rows, cut=("DESCRIPTION", "FOR"))
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
    if found.description:
        output.emit(f"  about       {output.safe(found.description)}")
    output.emit(f"  path        {output.safe(found.path)}")
    output.emit(f"  mode        {_mode(found)}")
    output.emit(f"  for         {output.safe(_who(found))}")
    output.emit(f"  default     {_default(found)}")
    if found.kind == "nfs":
        output.emit(
            f"  nfs         {output.safe(found.data.get('server', ''))}:{output.safe(found.data.get('path', ''))}"
        )
    output.hint(f"holdfast dataset grant {found.name} GROUP")


@datasets.command("add")
def add_dataset(
    name: NewName,
    path: NewPath,
    description: Description = None,
    rw: Writable = None,
    group: Groups = None,
    everyone: NewEveryone = False,
    per_user: PerUser = None,
    default: Default = None,
    nfs: Nfs = None,
    json: Json = False,
) -> None:
    """Give a folder a name that jobs can mount it by."""
    groups = [part for given in group or () for part in given.split(",") if part]
    with connect() as client:
        made = client.add_dataset(
            name,
            path,
            description=description,
            read_only=None if rw is None else not rw,
            everyone=everyone,
            groups=groups,
            per_user=per_user,
            default=default,
            **_nfs(nfs),
        )
    _say(made, "Added", json)
    if not made.everyone and not made.groups:
        output.hint(f"holdfast dataset grant {made.name} GROUP", f"holdfast dataset grant {made.name} --everyone")


@datasets.command("set")
def change_dataset(
    name: DatasetName,
    path: Annotated[str | None, typer.Option(help="Another folder on the machine.")] = None,
    description: Description = None,
    rw: Writable = None,
    per_user: PerUser = None,
    default: Default = None,
    nfs: Nfs = None,
    json: Json = False,
) -> None:
    """Change a dataset; what is not given stays. Jobs that were submitted before keep what they have."""
    with connect() as client:
        changed = client.change_dataset(
            name,
            path=path,
            description=description,
            read_only=None if rw is None else not rw,
            per_user=per_user,
            default=default,
            **_nfs(nfs),
        )
    _say(changed, "Changed", json)


@datasets.command("rm")
def remove_dataset(name: DatasetName, yes: Yes = False, json: Json = False) -> None:
    """Remove a dataset. Its folder stays, and jobs that were submitted before keep it."""
    sure(f"Remove dataset {output.safe(name)}?", yes)
    with connect() as client:
        client.remove_dataset(name)
    if json:
        output.emit_json({"removed": name})
    else:
        output.emit(f"Removed {output.safe(name)}. Its folder is still there.")


@datasets.command("grant")
def grant_dataset(name: DatasetName, group: GroupName = None, everyone: Everyone = False, json: Json = False) -> None:
    """Let a group use a dataset, or everyone."""
    _need_one(group, everyone)
    with connect() as client:
        found = client.change_dataset(name, everyone=True) if group is None else client.grant_dataset(name, group)
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


def _nfs(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    if text.lower() == "none":
        return {"kind": "folder", "data": {}}
    server, colon, path = text.rpartition(":")  # an IPv6 address has colons of its own
    if not colon or not server or not path.startswith("/"):
        raise typer.BadParameter(f"{text!r} is not SERVER:/PATH", param_hint="--nfs")
    return {"kind": "nfs", "data": {"server": server, "path": path}}


def _mode(dataset: Dataset) -> str:
    mode = "read-only" if dataset.read_only else "read-write"
    return f"{mode}, per user" if dataset.per_user else mode


def _default(dataset: Dataset) -> str:
    return "yes" if dataset.default else "no"


def _who(dataset: Dataset) -> str:
    return "everyone" if dataset.everyone else ", ".join(dataset.groups) or "admins"


def _say(dataset: Dataset, verb: str, json: bool) -> None:
    if json:
        output.emit_json(dataset)
    else:
        output.emit(f"{verb} {output.safe(dataset.name)}: {_mode(dataset)}, for {output.safe(_who(dataset))}.")
