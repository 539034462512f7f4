"""The forms of datasets, kind by kind: what each asks for, and how that reads as a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.catalogue import SecretKind
from holdfast.core.records import Dataset
from holdfast.services.datasets.kinds import ENV, FOLDER, GIT, NFS, VOLUME

from ...amounts import read_variables, variables_text
from ...fields import Choice, Field, Section, read_grants
from ...forms import Form
from ...kind_names import dataset_kinds
from ...visit import Visit
from .choices import naming, who_may

KINDS = (FOLDER, NFS, VOLUME, GIT, ENV)
_DATA: dict[str, tuple[str, ...]] = {NFS: ("server", "path"), VOLUME: ("size",), GIT: ("url", "branch", "secret")}


async def sections_of(visit: Visit, kind: str, *, new: bool) -> tuple[Section, ...]:
    say = visit.say
    help = say("Letters, digits, dots, dashes and underscores. It cannot be changed later.")
    source = await _source_fields(visit, kind, new=new)
    more = () if kind == ENV else _mount_fields(visit, kind)
    return (
        Section(title="", fields=naming(visit, name_help=help, new=new)),
        Section(title=dataset_kinds(visit)[kind][0], fields=source, note=dataset_kinds(visit)[kind][1]),
        *((Section(title=say("In jobs"), fields=more),) if more else ()),
        await who_may(visit, "" if kind in (GIT, ENV) else say("may write")),
    )


async def _source_fields(visit: Visit, kind: str, *, new: bool) -> tuple[Field, ...]:
    say = visit.say
    path = Field(name="path", label=say("Folder on this machine"), required=kind == FOLDER, example="/data/imagenet")
    if kind == FOLDER:
        return (path,)
    if kind == NFS:
        folder = visit.services.settings.mounts.nfs_folder
        return (
            Field(name="data.server", label=say("Server"), required=True, example="nas.example"),
            Field(name="data.path", label=say("Path on the server"), required=True, example="/export/data"),
            Field(
                name="path",
                label=say("Folder on this machine"),
                help=say("Where it is mounted. Empty: below {folder}.", folder=folder),
            ),
        )
    if kind == VOLUME:
        size = Field(name="data.size", label=say("Size in GB"), kind="whole", help=say("It is told, not enforced."))
        adopt = Field(
            name="adopt",
            label=say("Take over data that is left of an earlier volume of this name"),
            kind="check",
        )
        return (size, adopt) if new else (size,)
    return await _git_fields(visit) if kind == GIT else (_variables_field(visit),)


async def _git_fields(visit: Visit) -> tuple[Field, ...]:
    say = visit.say
    secrets = [each for each in await visit.services.secrets.list(visit.who) if each.kind is SecretKind.OPAQUE]
    names = (Choice("", say("None")), *(Choice(each.name, each.name) for each in secrets))
    return (
        Field(name="data.url", label=say("Address"), required=True, example="https://git.example/team/code.git"),
        Field(name="data.branch", label=say("Branch or tag"), help=say("Empty: the main one.")),
        Field(name="data.secret", label=say("Secret"), kind="select", choices=names, help=say("To log in there with.")),
    )


def _variables_field(visit: Visit) -> Field:
    help = visit.say("NAME=VALUE, one on each line. Jobs find them as DATASET_NAME; only admins see the values here.")
    return Field(name="variables", label=visit.say("Variables"), kind="area", help=help, example="USER=reader")


def _mount_fields(visit: Visit, kind: str) -> tuple[Field, ...]:
    say = visit.say
    default = Field(
        name="default",
        label=say("Mounted when a job asks for its default storages"),
        kind="check",
    )
    if kind == GIT:
        return (default,)
    return (
        Field(
            name="read_only",
            label=say("Read-only"),
            kind="check",
            help=say("For all but the groups that may write."),
        ),
        Field(name="per_user", label=say("Each user gets a folder of their own in it"), kind="check"),
        default,
    )


def values_of(dataset: Dataset, variables: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": dataset.name,
        "display_name": dataset.display_name,
        "description": dataset.description,
        "path": dataset.path if dataset.kind in (FOLDER, NFS) else "",
        "read_only": dataset.read_only,
        "per_user": dataset.per_user,
        "default": dataset.default,
        "everyone": dataset.everyone,
        "groups": {group: group in dataset.writable_groups for group in dataset.groups},
        "adopt": False,
        "variables": variables_text(variables),
    }
    return values | {f"data.{key}": dataset.data.get(key, "") for key in _DATA.get(dataset.kind, ())}


def read_dataset(form: Form, kind: str) -> dict[str, Any]:
    """What services take of it; without its name, its groups and its variables."""
    data = {key: form.text(f"data.{key}") for key in _DATA.get(kind, ())}
    found: dict[str, Any] = {
        "display_name": form.text("display_name"),
        "description": form.text("description"),
        "everyone": form.is_on("everyone"),
        "data": {key: value for key, value in data.items() if value},
        "default": form.is_on("default"),
    }
    if kind not in (GIT, ENV):
        found |= {"read_only": form.is_on("read_only"), "per_user": form.is_on("per_user")}
    if kind in (FOLDER, NFS):
        found["path"] = form.text("path")
    return found


def read_variables_of(form: Form, kind: str) -> dict[str, str] | None:
    return read_variables(form, "variables") if kind == ENV else None


def read_writers(form: Form, kind: str) -> dict[str, bool]:
    """Group -> may write."""
    grants = read_grants(form)
    return dict.fromkeys(grants, False) if kind in (GIT, ENV) else grants
