"""Permissions: who is allowed to do what."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from .errors import Forbidden
from .job import DEFAULT_GROUP
from .messages import msg


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """The logged-in user who makes a request."""

    name: str
    admin: bool = False
    groups: Mapping[str, bool] = field(default_factory=dict)  # group -> is its admin
    can_read_all_jobs: bool = False  # the admin allows all users to read every job
    own_only: bool = False  # members can act only on their own jobs and schedules
    application: bool = False  # uses an application token
    usual_group: str = ""  # see `choose_default_group`


class Permission(StrEnum):
    SEE_JOB = "see-job"
    SUBMIT_JOB = "submit-job"
    ACT_ON_JOB = "act-on-job"
    EXEC_IN_JOB = "enter-job"
    USE_FILES = "use-files"
    MOUNT_ANY_PATH = "mount-any-path"
    MANAGE_GROUP = "manage-group"
    MANAGE_INSTALLATION = "manage-place"


class Grantee(StrEnum):
    MEMBER = msg("a member of the group")
    OWNER = msg("the owner, or an admin of the group")
    GROUP_ADMIN = msg("an admin of the group")
    ADMIN = msg("an admin")


# permission -> (who has it, what it covers). Admins have all.
PERMISSION_RULES: dict[Permission, tuple[Grantee, str]] = {
    Permission.SEE_JOB: (Grantee.MEMBER, msg("view a job, its logs, events, attempts and artifacts")),
    Permission.SUBMIT_JOB: (Grantee.MEMBER, msg("submit a job to the group")),
    Permission.ACT_ON_JOB: (Grantee.MEMBER, msg("stop, rerun or tag a job of the group, or change its schedules")),
    Permission.EXEC_IN_JOB: (
        Grantee.OWNER,
        msg("connect to a job's tasks: shell, files, ports, debuggers; this gives access to the owner's secrets"),
    ),
    Permission.USE_FILES: (Grantee.MEMBER, msg("read, upload and delete the group's shared files")),
    Permission.MOUNT_ANY_PATH: (Grantee.ADMIN, msg("mount a host folder that the settings do not allow for all users")),
    Permission.MANAGE_GROUP: (
        Grantee.GROUP_ADMIN,
        msg("manage the group's members, image aliases, MLflow settings, time limit and hold settings"),
    ),
    Permission.MANAGE_INSTALLATION: (
        Grantee.ADMIN,
        msg("manage users, groups, quotas, instance types, datasets, secrets, images and settings"),
    ),
}


def choose_default_group(groups: Collection[str], kept: str = "") -> str:
    """Return the group of a job that specifies none; empty: the user must specify one.

    `kept` is the default group from before other users added the user to more groups. It takes precedence, so that no
    other user decides where a user's jobs run and who sees them. Otherwise it is the default group, or the only one.
    """
    if kept in groups:
        return kept
    if DEFAULT_GROUP in groups or not groups:
        return DEFAULT_GROUP
    return next(iter(groups)) if len(groups) == 1 else ""


def has_permission(actor: Actor, verb: Permission, group: str | None = None) -> bool:
    if actor.admin or (actor.can_read_all_jobs and verb is Permission.SEE_JOB):
        return True
    who, _ = PERMISSION_RULES[verb]
    if who is Grantee.MEMBER:
        return group in actor.groups
    if who in (Grantee.GROUP_ADMIN, Grantee.OWNER):  # for owners, see `can_exec`
        return group is not None and actor.groups.get(group, False)
    return False


def can_act_on(actor: Actor, group: str, owner: str) -> bool:
    """Whether the actor can change a job or schedule of this group and owner, including the `own_only` restriction."""
    if not has_permission(actor, Permission.ACT_ON_JOB, group):
        return False
    return not actor.own_only or actor.name == owner or has_permission(actor, Permission.MANAGE_GROUP, group)


def can_exec(actor: Actor, group: str, owner: str) -> bool:
    """Whether the actor can connect to the tasks of a job. Plain members cannot: it exposes the owner's secrets."""
    return has_permission(actor, Permission.EXEC_IN_JOB, group) or (actor.name == owner and group in actor.groups)


def build_exec_forbidden_error(group: str, owner: str) -> Forbidden:
    """Build the error for an actor who can view the job but not connect to its tasks."""
    return Forbidden(
        msg(
            "This job belongs to {owner}: only {owner} and admins of {group} can connect to its tasks",
            owner=owner,
            group=group,
        ),
        hint=msg("Run your own copy: `holdfast clone` prints the job file."),
    )


def can_rerun(actor: Actor, group: str, owner: str, *, secrets: bool) -> bool:
    """Whether the actor can rerun a job or schedule. Its secrets stay with its owner: others enter their own."""
    return can_act_on(actor, group, owner) and (not secrets or actor.admin or actor.name == owner)


def build_action_forbidden_error(group: str, owner: str, *, member: bool) -> Forbidden:
    """Build the error for an actor who can view the job but not change it."""
    if not member:
        return Forbidden(msg("Only members of {group} can act on its jobs", group=group))
    return Forbidden(
        msg("You do not have permission: only {owner} and admins of {group} can do this", owner=owner, group=group),
        hint=msg("Submit your own copy: `holdfast clone` prints the job file."),
    )
