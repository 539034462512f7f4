"""What a group may be: its name and the path made of it, its quotas, and where it keeps its experiments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from holdfast.core.codec import MASK
from holdfast.core.errors import Conflict, UserError
from holdfast.core.identity import group_path
from holdfast.core.messages import msg
from holdfast.core.records import Group, Mlflow
from holdfast.core.scheduling.placement import Quota, show_bytes

from ..names import check_name, check_prose, check_text

EVERYONE = "everyone"  # to PrimeHub's clients the group that all are in
MAX_GIGABYTES = 10**9
MAX_ADDRESS_LENGTH = 2048
MAX_VARIABLES = 100
MAX_CHARACTERS = 64 * 1024  # of all variables together
_MAX_COUNT: Mapping[str, float] = {"cpu": 1_000_000, "memory": 2**60, "gpu": 1_000_000}  # of a quota
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")


def check_group_name(name: str) -> None:
    check_name(name, "group")
    if group_path(name) == EVERYONE:
        raise UserError(
            msg("The name {name} is reserved: it stands for all users", name=name),
            field="name",
            hint=msg("Choose another."),
        )


def check_path(name: str, groups: Iterable[Group]) -> None:
    """No two groups may have their folders at the same place in a task."""
    path = group_path(name)
    for other in groups:
        if other.name != name and group_path(other.name) == path:
            raise Conflict(
                msg(
                    "{name} is too much like the group {name2}: tasks would find both at /project/{path}",
                    name=name,
                    name2=other.name,
                    path=path,
                ),
                field="name",
                hint=msg("Choose a name that differs in more than capitals, dashes and underscores."),
            )


def check_group(group: Group) -> None:
    check_text(group.display_name, "display_name", longest=255)
    check_prose(group.description, "description")
    if group.hold is not None and group.hold.duration is not None and group.hold.duration <= timedelta(0):
        raise UserError(
            msg("A hold takes some time"), field="hold", hint=msg("Set it to none to hold no jobs of the group.")
        )
    size = group.volume_capacity
    if size is not None and not 1 <= size <= MAX_GIGABYTES:
        raise UserError(
            msg(
                "volume_capacity must be from 1 to {most_gigabytes} GB, not {size}",
                most_gigabytes=MAX_GIGABYTES,
                size=size,
            ),
            field="volume_capacity",
        )


def check_quotas(group: Group) -> None:
    """One user's part cannot be more than the whole."""
    for name in Quota.__slots__:
        whole, part = getattr(group.quota, name), getattr(group.user_quota, name)
        for field, value in ((f"quota.{name}", whole), (f"user_quota.{name}", part)):
            if value is not None and not 0 <= value <= _MAX_COUNT[name]:
                raise UserError(msg("A quota is from 0 to {name}", name=_amount(name, _MAX_COUNT[name])), field=field)
        if whole is not None and part is not None and part > whole:
            shown, most = _amount(name, part), _amount(name, whole)
            raise UserError(
                msg(
                    "The {name} quota of each user ({shown}) must not be more than the group's ({most})",
                    name=name,
                    shown=shown,
                    most=most,
                ),
                field=f"user_quota.{name}",
                hint=msg("Raise the group's quota, or lower that of its users."),
            )


def _amount(name: str, value: float) -> str:
    return show_bytes(int(value)) if name == "memory" else f"{value:g}"


def check_mlflow(mlflow: Mlflow) -> None:
    for field in ("tracking_uri", "ui_url"):
        check_text(getattr(mlflow, field), field, longest=MAX_ADDRESS_LENGTH)
    if not mlflow.tracking_uri.strip():
        raise UserError(msg("MLflow needs the address of its tracking server"), field="tracking_uri")
    for field in ("tracking_envs", "artifact_envs"):
        _check_variables(getattr(mlflow, field), field)


def _check_variables(variables: Mapping[str, str], field: str) -> None:
    if len(variables) > MAX_VARIABLES:
        raise UserError(
            msg("{field} may hold at most {most_variables} variables", field=field, most_variables=MAX_VARIABLES),
            field=field,
        )
    if sum(len(name) + len(value) for name, value in variables.items()) > MAX_CHARACTERS:
        raise UserError(
            msg("{field} may hold at most {most_characters} characters", field=field, most_characters=MAX_CHARACTERS),
            field=field,
        )
    for name, value in variables.items():
        if not _VARIABLE.fullmatch(name):
            said = msg("{name} cannot be the name of a variable", name=repr(name[:80]))
            raise UserError(said, field=field, hint=msg("Use letters, digits and _, not a digit first."))
        if "\0" in value or not _is_unicode(value):
            raise UserError(msg("The value of {name} cannot be that of a variable", name=name), field=field)
        if value == MASK:
            raise UserError(
                msg("The value of {name} is masked", name=name),
                field=field,
                hint=msg("Write the true one in its place."),
            )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def mask_mlflow(mlflow: Mlflow) -> Mlflow:
    """As members see it."""
    return replace(
        mlflow,
        tracking_envs=dict.fromkeys(mlflow.tracking_envs, MASK),
        artifact_envs=dict.fromkeys(mlflow.artifact_envs, MASK),
    )
