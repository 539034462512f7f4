"""Whether a schedule could run now: its user, their rights, and its job file, all as they are today."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.core.access import Actor, Verb, may
from holdfast.core.errors import InvalidJob, UserError
from holdfast.core.job import Job
from holdfast.core.records import User
from holdfast.core.schedule import Invalid, Schedule
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.schedules import Stored

from .access_tokens import actor_of
from .intake import Intake, Ready
from .prospects import missing_image
from .refusals import NoImageAlias, NoInstanceType

LONGEST_MESSAGE = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """What its job would be now, as far as that can be worked out; and why it cannot run, if so."""

    actor: Actor | None = None
    ready: Ready | None = None
    invalid: Invalid | None = None
    message: str = ""

    def noted(self, schedule: Schedule) -> Schedule:
        return replace(schedule, invalid=self.invalid, message=self.message[:LONGEST_MESSAGE])


class Checks:
    """For one batch: people and groups are read once each, so that many schedules of few cost little."""

    def __init__(self, store: Store, intake: Intake) -> None:
        self._store = store
        self._intake = intake
        self._users: dict[str, User | None] = {}
        self._groups: dict[str, bool] = {}

    async def look(self, stored: Stored) -> Finding:
        schedule = stored.schedule
        if stored.damage is not None:
            return Finding(invalid=Invalid.OTHER, message=stored.damage)
        owner = await self._user(schedule.user)
        if owner is None or owner.disabled:
            how = "is gone" if owner is None else "is disabled"
            return Finding(invalid=Invalid.USER, message=f"Its user {schedule.user} {how}")
        if not await self._group_exists(schedule.group):
            return Finding(invalid=Invalid.GROUP, message=f"There is no group {schedule.group}")
        actor = actor_of(owner)
        if not may(actor, Verb.SUBMIT_JOB, schedule.group):
            message = f"Its user {schedule.user} is not in the group {schedule.group}"
            return Finding(invalid=Invalid.MEMBER, message=message)
        return await self._template(actor, stored.job, schedule.source)

    async def _template(self, actor: Actor, job: Job, source: str) -> Finding:
        try:
            ready = await self._intake.again(actor, job, source)
        except UserError as error:
            return Finding(invalid=_reason(error), message=_told(error))
        for role in ready.job.roles:
            if missing_image(role.engine_image) in ready.warnings:
                return Finding(actor, ready, Invalid.IMAGE, f"There is no image {role.image} here")
        return Finding(actor, ready)

    async def _user(self, name: str) -> User | None:
        if name not in self._users:
            self._users[name] = await self._store.read(people.get_user, name)
        return self._users[name]

    async def _group_exists(self, name: str) -> bool:
        if name not in self._groups:
            self._groups[name] = await self._store.read(people.get_group, name) is not None
        return self._groups[name]


def _reason(error: UserError) -> Invalid:
    if isinstance(error, NoInstanceType) or _names(error, "instanceType", "instance_type"):
        return Invalid.INSTANCE_TYPE
    if isinstance(error, NoImageAlias):
        return Invalid.IMAGE
    return Invalid.OTHER


def _names(error: UserError, *fields: str) -> bool:
    """It is about one of these, and about nothing else first."""
    field = error.problems[0].field if isinstance(error, InvalidJob) else error.field or ""
    return field.rpartition(".")[2] in fields


def _told(error: UserError) -> str:
    return f"{error.message}. {error.hint}" if error.hint else error.message
