"""Who may do what: one described table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Whoever asks: a logged-in user."""

    name: str
    admin: bool = False
    groups: Mapping[str, bool] = field(default_factory=dict)  # group -> is its admin
    reads_all: bool = False  # the admin lets everybody read every job
    application: bool = False  # came by a token made for programs


class Verb(StrEnum):
    SEE_JOB = "see-job"
    SUBMIT_JOB = "submit-job"
    ACT_ON_JOB = "act-on-job"
    MOUNT_ANY_PATH = "mount-any-path"
    MANAGE_GROUP = "manage-group"
    MANAGE_PLACE = "manage-place"


class Who(StrEnum):
    MEMBER = "a member of the group"
    GROUP_ADMIN = "an admin of the group"
    ADMIN = "an admin"


# verb -> (who may, what it covers). Admins may do everything.
RULES: dict[Verb, tuple[Who, str]] = {
    Verb.SEE_JOB: (Who.MEMBER, "see a job, its logs, events and attempts"),
    Verb.SUBMIT_JOB: (Who.MEMBER, "submit a job to the group"),
    Verb.ACT_ON_JOB: (Who.MEMBER, "stop, rerun, tag or clone a job of the group"),
    Verb.MOUNT_ANY_PATH: (Who.ADMIN, "mount a folder of the machine that the settings do not allow for all"),
    Verb.MANAGE_GROUP: (Who.GROUP_ADMIN, "add and remove members of the group"),
    Verb.MANAGE_PLACE: (Who.ADMIN, "manage users, groups, quotas, datasets, images and settings"),
}


def may(actor: Actor, verb: Verb, group: str | None = None) -> bool:
    if actor.admin or (actor.reads_all and verb is Verb.SEE_JOB):
        return True
    who, _ = RULES[verb]
    if who is Who.MEMBER:
        return group in actor.groups
    if who is Who.GROUP_ADMIN:
        return group is not None and actor.groups.get(group, False)
    return False
