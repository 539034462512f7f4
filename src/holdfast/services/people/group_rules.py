"""Validation of groups: name and path, quotas and MLflow settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from holdfast.core.codec import MASK
from holdfast.core.errors import Conflict, UserError
from holdfast.core.identity import format_group_path
from holdfast.core.messages import msg
from holdfast.core.records import Group, Mlflow
from holdfast.core.scheduling.placement import Quota, format_bytes
from holdfast.core.slurm_options import QUEUE_OPTION_NAMES, iter_option_problems

from ..names import check_multiline_text, check_name, check_text, is_utf8

EVERYONE_GROUP = "everyone"  # for PrimeHub's clients, the group of all users
MAX_VOLUME_GIGABYTES = 10**9
MAX_ADDRESS_LENGTH = 2048
MAX_VARIABLES = 100
MAX_VARIABLES_LENGTH = 64 * 1024  # of all variables in total
_MAX_QUOTA: Mapping[str, float] = {"cpu": 1_000_000, "memory": 2**60, "gpu": 1_000_000}
_VARIABLE_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")


def check_group_name(name: str) -> None:
    check_name(name, "group")
    if format_group_path(name) == EVERYONE_GROUP:
        raise UserError(
            msg("The name {name} is reserved for the group of all users", name=name),
            field="name",
            hint=msg("Choose a different name."),
        )


def check_group_path(name: str, groups: Iterable[Group]) -> None:
    """Reject a group whose folder in a task would be that of another group."""
    path = format_group_path(name)
    for other in groups:
        if other.name != name and format_group_path(other.name) == path:
            raise Conflict(
                msg(
                    "{name} is too similar to the group {other_name}: both would be mounted at /project/{path}",
                    name=name,
                    other_name=other.name,
                    path=path,
                ),
                field="name",
                hint=msg("Choose a name that differs in more than case, dashes and underscores."),
            )


def normalize_group(group: Group) -> Group:
    """Remove options without a value."""
    return replace(group, slurm={name: value for name, value in group.slurm.items() if value})


def check_group(group: Group) -> None:
    check_text(group.display_name, "display_name", longest=255)
    check_multiline_text(group.description, "description")
    if group.hold is not None and group.hold.duration is not None and group.hold.duration <= timedelta(0):
        raise UserError(
            msg("The hold duration must be greater than 0"),
            field="hold",
            hint=msg("Set it to none to disable holds for the group's jobs."),
        )
    size = group.volume_capacity
    if size is not None and not 1 <= size <= MAX_VOLUME_GIGABYTES:
        raise UserError(
            msg(
                "volume_capacity must be between 1 and {max_gigabytes} GB, not {size}",
                max_gigabytes=MAX_VOLUME_GIGABYTES,
                size=size,
            ),
            field="volume_capacity",
        )
    for name, problem in iter_option_problems(group.slurm, QUEUE_OPTION_NAMES):
        raise UserError(problem, field=f"slurm.{name}")


def check_quotas(group: Group) -> None:
    """Check the ranges, and that the quota per user does not exceed the group's."""
    for name in Quota.__slots__:
        whole, part = getattr(group.quota, name), getattr(group.user_quota, name)
        for field, value in ((f"quota.{name}", whole), (f"user_quota.{name}", part)):
            if value is not None and not 0 <= value <= _MAX_QUOTA[name]:
                raise UserError(
                    msg("A quota must be between 0 and {maximum}", maximum=_format_quota(name, _MAX_QUOTA[name])),
                    field=field,
                )
        if whole is not None and part is not None and part > whole:
            shown, most = _format_quota(name, part), _format_quota(name, whole)
            raise UserError(
                msg(
                    "The {name} quota per user ({shown}) must not exceed the group's quota ({limit})",
                    name=name,
                    shown=shown,
                    limit=most,
                ),
                field=f"user_quota.{name}",
                hint=msg("Raise the group's quota or lower the quota per user."),
            )


def _format_quota(name: str, value: float) -> str:
    return format_bytes(int(value)) if name == "memory" else f"{value:.10g}"


def check_mlflow(mlflow: Mlflow) -> None:
    for field in ("tracking_uri", "ui_url"):
        check_text(getattr(mlflow, field), field, longest=MAX_ADDRESS_LENGTH)
    if not mlflow.tracking_uri.strip():
        raise UserError(msg("MLflow requires the address of a tracking server"), field="tracking_uri")
    for field in ("tracking_envs", "artifact_envs"):
        _check_env_variables(getattr(mlflow, field), field)


def _check_env_variables(variables: Mapping[str, str], field: str) -> None:
    if len(variables) > MAX_VARIABLES:
        raise UserError(
            msg("{field} can have at most {max_variables} variables", field=field, max_variables=MAX_VARIABLES),
            field=field,
        )
    if sum(len(name) + len(value) for name, value in variables.items()) > MAX_VARIABLES_LENGTH:
        raise UserError(
            msg(
                "{field} can have at most {max_characters} characters", field=field, max_characters=MAX_VARIABLES_LENGTH
            ),
            field=field,
        )
    for name, value in variables.items():
        if not _VARIABLE_NAME_PATTERN.fullmatch(name):
            message = msg("{name} is not a valid variable name", name=repr(name[:80]))
            raise UserError(message, field=field, hint=msg("Use letters, digits and _; do not start with a digit."))
        if "\0" in value or not is_utf8(value):
            raise UserError(msg("The value of {name} is not a valid variable value", name=name), field=field)
        if value == MASK:
            raise UserError(
                msg("The value of {name} is masked", name=name),
                field=field,
                hint=msg("Enter the real value instead of the mask."),
            )


def mask_mlflow(mlflow: Mlflow) -> Mlflow:
    """Mask the values of variables for members."""
    return replace(
        mlflow,
        tracking_envs=dict.fromkeys(mlflow.tracking_envs, MASK),
        artifact_envs=dict.fromkeys(mlflow.artifact_envs, MASK),
    )
