"""Forms of datasets: the fields of each kind, and their conversion to a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.catalogue import SecretKind
from holdfast.core.records import Dataset
from holdfast.services.datasets.kinds import ENV, FOLDER, GIT, NFS, VOLUME

from ...fields import Field, Section, read_grants_field
from ...form_values import format_variables, read_variables_field
from ...forms import Form
from ...kind_names import get_dataset_kind_names
from ...visit import Visit
from .choices import build_grant_section, build_name_fields, list_secret_options

DATASET_KINDS = (FOLDER, NFS, VOLUME, GIT, ENV)
_DATA_FIELDS: dict[str, tuple[str, ...]] = {
    NFS: ("server", "path"),
    VOLUME: ("size",),
    GIT: ("url", "branch", "secret"),
}


async def build_dataset_sections(visit: Visit, kind: str, *, new: bool) -> tuple[Section, ...]:
    _ = visit.translate_text
    help = _("Letters, digits, dots, dashes and underscores. It cannot be changed later.")
    source = await _build_source_fields(visit, kind, new=new)
    more = () if kind == ENV else _build_mount_fields(visit, kind)
    return (
        Section("", build_name_fields(visit, name_help=help, new=new)),
        Section(get_dataset_kind_names(visit)[kind][0], source, note=get_dataset_kind_names(visit)[kind][1]),
        *((Section(_("Mount options"), more),) if more else ()),
        await build_grant_section(visit, "" if kind in (GIT, ENV) else _("can write")),
    )


async def _build_source_fields(visit: Visit, kind: str, *, new: bool) -> tuple[Field, ...]:
    _ = visit.translate_text
    path = Field("path", _("Folder on this server"), required=kind == FOLDER, example="/data/imagenet")
    if kind == FOLDER:
        return (path,)
    if kind == NFS:
        folder = visit.services.settings.mounts.nfs_folder
        return (
            Field("data.server", _("Server"), required=True, example="nas.example"),
            Field("data.path", _("Path on the server"), required=True, example="/export/data"),
            Field("path", _("Folder on this server"), help=_("Mount point. Empty: below {folder}.", folder=folder)),
        )
    if kind == VOLUME:
        size = Field("data.size", _("Size in GB"), kind="whole", help=_("For information only; not enforced."))
        adopt = Field("adopt", _("Reuse the data of an earlier volume with this name"), kind="check")
        return (size, adopt) if new else (size,)
    return await _build_git_fields(visit) if kind == GIT else (_build_variables_field(visit),)


async def _build_git_fields(visit: Visit) -> tuple[Field, ...]:
    _ = visit.translate_text
    secrets = await list_secret_options(visit, SecretKind.OPAQUE)
    return (
        Field("data.url", _("Address"), required=True, example="https://git.example/team/code.git"),
        Field("data.branch", _("Branch or tag"), help=_("Empty: the default branch.")),
        Field("data.secret", _("Secret"), kind="select", choices=secrets, help=_("Used to log in to the git server.")),
    )


def _build_variables_field(visit: Visit) -> Field:
    help = visit.translate_text(
        "NAME=VALUE, one per line. Jobs get them as DATASET_NAME. Only admins can see the values."
    )
    return Field("variables", visit.translate_text("Variables"), kind="area", help=help, example="USER=reader")


def _build_mount_fields(visit: Visit, kind: str) -> tuple[Field, ...]:
    _ = visit.translate_text
    default = Field("default", _("Mount in jobs that request default storage"), kind="check")
    if kind == GIT:
        return (default,)
    return (
        Field("read_only", _("Read-only"), kind="check", help=_("For all groups except those with write access.")),
        Field("per_user", _("Create a separate folder for each user"), kind="check"),
        default,
    )


def dataset_to_values(dataset: Dataset, variables: Mapping[str, str]) -> dict[str, Any]:
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
        "variables": format_variables(variables),
    }
    return values | {f"data.{key}": dataset.data.get(key, "") for key in _DATA_FIELDS.get(dataset.kind, ())}


def read_dataset_arguments(form: Form, kind: str) -> dict[str, Any]:
    """Return the arguments for the service, without name, groups and variables."""
    data = {key: form.get_text(f"data.{key}") for key in _DATA_FIELDS.get(kind, ())}
    found: dict[str, Any] = {
        "display_name": form.get_text("display_name"),
        "description": form.get_text("description"),
        "everyone": form.is_checked("everyone"),
        "data": {key: value for key, value in data.items() if value},
        "default": form.is_checked("default"),
    }
    if kind not in (GIT, ENV):
        found |= {"read_only": form.is_checked("read_only"), "per_user": form.is_checked("per_user")}
    if kind in (FOLDER, NFS):
        found["path"] = form.get_text("path")
    return found


def read_dataset_variables(form: Form, kind: str) -> dict[str, str] | None:
    return read_variables_field(form, "variables") if kind == ENV else None


def read_write_grants(form: Form, kind: str) -> dict[str, bool]:
    """Map each group to whether it can write."""
    grants = read_grants_field(form)
    return dict.fromkeys(grants, False) if kind in (GIT, ENV) else grants
