"""Who may do what: one described table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from .errors import Forbidden
from .job import DEFAULT_GROUP
from .messages import msg


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Whoever asks: a logged-in user."""

    name: str
    admin: bool = False
    groups: Mapping[str, bool] = field(default_factory=dict)  # group -> is its admin
    reads_all: bool = False  # the admin lets everybody read every job
    own_only: bool = False  # members act on what is their own, not on others' of their groups
    application: bool = False  # came by a token made for programs
    usual_group: str = ""  # see `usual_group`


class Verb(StrEnum):
    SEE_JOB = "see-job"
    SUBMIT_JOB = "submit-job"
    ACT_ON_JOB = "act-on-job"
    ENTER_JOB = "enter-job"
    USE_FILES = "use-files"
    MOUNT_ANY_PATH = "mount-any-path"
    MANAGE_GROUP = "manage-group"
    MANAGE_PLACE = "manage-place"


class Who(StrEnum):
    MEMBER = msg("a member of the group")
    OWNER = msg("the one whose it is, an admin of the group")
    GROUP_ADMIN = msg("an admin of the group")
    ADMIN = msg("an admin")


# verb -> (who may, what it covers). Admins may do everything.
RULES: dict[Verb, tuple[Who, str]] = {
    Verb.SEE_JOB: (Who.MEMBER, msg("see a job, its logs, events, attempts and artifacts")),
    Verb.SUBMIT_JOB: (Who.MEMBER, msg("submit a job to the group")),
    Verb.ACT_ON_JOB: (Who.MEMBER, msg("stop, rerun or tag a job of the group, or change a schedule of it")),
    Verb.ENTER_JOB: (
        Who.OWNER,
        msg("enter a job's tasks: a shell, files, ports, debuggers; whoever is inside reads the secrets of its owner"),
    ),
    Verb.USE_FILES: (Who.MEMBER, msg("read, put and remove the group's shared files")),
    Verb.MOUNT_ANY_PATH: (Who.ADMIN, msg("mount a folder of the machine that the settings do not allow for all")),
    Verb.MANAGE_GROUP: (Who.GROUP_ADMIN, msg("manage the group's members, image aliases, MLflow, time limit and hold")),
    Verb.MANAGE_PLACE: (
        Who.ADMIN,
        msg("manage users, groups, quotas, instance types, datasets, secrets, images and settings"),
    ),
}


def usual_group(groups: Collection[str], kept: str = "") -> str:
    """The group of a job that names none; empty: its user has to name one.

    `kept` is the usual group from before others added the user to more groups: nobody else decides where a user's jobs
    go and who sees them. Without it, it is the default group, else the only one.
    """
    if kept in groups:
        return kept
    if DEFAULT_GROUP in groups or not groups:
        return DEFAULT_GROUP
    return next(iter(groups)) if len(groups) == 1 else ""


def may(actor: Actor, verb: Verb, group: str | None = None) -> bool:
    if actor.admin or (actor.reads_all and verb is Verb.SEE_JOB):
        return True
    who, _ = RULES[verb]
    if who is Who.MEMBER:
        return group in actor.groups
    if who in (Who.GROUP_ADMIN, Who.OWNER):  # of owners, see `may_enter`
        return group is not None and actor.groups.get(group, False)
    return False


def may_act(actor: Actor, group: str, owner: str) -> bool:
    """On a job or schedule of that group and owner: as RULES say, less what `own_only` takes from members."""
    if not may(actor, Verb.ACT_ON_JOB, group):
        return False
    return not actor.own_only or actor.name == owner or may(actor, Verb.MANAGE_GROUP, group)


def may_enter(actor: Actor, group: str, owner: str) -> bool:
    """The tasks of a job of that group and owner. Plain members may not: it would show them the owner's secrets."""
    return may(actor, Verb.ENTER_JOB, group) or (actor.name == owner and group in actor.groups)


def refuse_entry(group: str, owner: str) -> Forbidden:
    """What is said where `may_enter` is not given to somebody who sees the job."""
    return Forbidden(
        msg("It is {owner}'s: only {owner} and admins of {group} may get inside", owner=owner, group=group),
        hint=msg("Run one of your own: `holdfast clone` gives a job's file."),
    )


def may_run_again(actor: Actor, group: str, owner: str, *, secrets: bool) -> bool:
    """The job of one, or of a schedule, as whoever asks. Its secrets are its owner's: others fill in their own."""
    return may_act(actor, group, owner) and (not secrets or actor.admin or actor.name == owner)


def refuse_act(group: str, owner: str, *, member: bool) -> Forbidden:
    """What is said where `may_act` is not given to somebody who sees the thing."""
    if not member:
        return Forbidden(msg("Only members of {group} act on its jobs", group=group))
    return Forbidden(
        msg("It is {owner}'s: only {owner} and admins of {group} may do that", owner=owner, group=group),
        hint=msg("Submit one of your own: `holdfast clone` gives a job's file."),
    )
