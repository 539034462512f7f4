"""Whether a schedule could run now: its user, their rights, and its job file, all as they are today."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from holdfast.core.access import Actor, Verb, may
from holdfast.core.errors import InvalidJob, UserError
from holdfast.core.job import Job
from holdfast.core.messages import join_messages, msg
from holdfast.core.records import User
from holdfast.core.schedule import Invalid, Schedule
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.schedules import Stored

from ..jobs.validation import JobValidator, Ready
from ..people.access_tokens import actor_of
from ..refusals import NoImageAlias, NoInstanceType
from ..why.feasibility import missing_image

MAX_MESSAGE_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """What its job would be now, as far as that can be worked out; and why it cannot run, if so."""

    actor: Actor | None = None
    ready: Ready | None = None
    invalid: Invalid | None = None
    message: str = ""

    def noted(self, schedule: Schedule) -> Schedule:
        return replace(schedule, invalid=self.invalid, message=self.message[:MAX_MESSAGE_LENGTH])


class Checks:
    """For many schedules within a moment. People, groups and what jobs of the same shape get are worked out once each,
    so that ten thousand schedules cost little, and a folder that does not answer is waited for once."""

    def __init__(self, store: Store, intake: JobValidator, *, prepare: bool = False) -> None:
        """`prepare`: what a job needs before it starts is made, too."""
        self._store = store
        self._intake = intake
        self._prepare = prepare
        self._users: dict[str, User | None] = {}
        self._groups: dict[str, bool] = {}
        self._shapes: dict[tuple[str, str], asyncio.Future[Finding]] = {}

    async def look(self, stored: Stored) -> Finding:
        schedule = stored.schedule
        if stored.damage is not None:
            return Finding(invalid=Invalid.OTHER, message=stored.damage)
        owner = await self._user(schedule.user)
        if owner is None or owner.disabled:
            how = msg("is gone") if owner is None else msg("is disabled")
            return Finding(invalid=Invalid.USER, message=msg("Its user {user} {how}", user=schedule.user, how=how))
        if not await self._group_exists(schedule.group):
            return Finding(invalid=Invalid.GROUP, message=msg("There is no group {group}", group=schedule.group))
        actor = actor_of(owner)
        if not may(actor, Verb.SUBMIT_JOB, schedule.group):
            message = msg("Its user {user} is not in the group {group}", user=schedule.user, group=schedule.group)
            return Finding(invalid=Invalid.MEMBER, message=message)
        found = await self._shape(actor, shape_of(stored.job))
        if found.ready is None:
            return found
        return replace(
            found, ready=replace(found.ready, job=_filled(found.ready.job, stored.job), source=schedule.source)
        )

    async def _shape(self, actor: Actor, shape: Job) -> Finding:
        key = actor.name, repr(shape)
        if key not in self._shapes:
            self._shapes[key] = asyncio.ensure_future(self._work_out(actor, shape))
        return await self._shapes[key]

    async def _work_out(self, actor: Actor, shape: Job) -> Finding:
        try:
            ready = await self._intake.again(actor, shape, "")
            for role in ready.job.roles:
                missing = missing_image(role.engine_image)
                if any(warning.startswith(missing) for warning in ready.warnings):
                    return Finding(actor, ready, Invalid.IMAGE, msg("There is no image {image} here", image=role.image))
            if self._prepare:
                await self._intake.prepare(actor, ready)
        except UserError as error:
            return Finding(invalid=_reason(error), message=_told(error))
        return Finding(actor, ready)

    async def _user(self, name: str) -> User | None:
        if name not in self._users:
            self._users[name] = await self._store.read(people.get_user, name)
        return self._users[name]

    async def _group_exists(self, name: str) -> bool:
        if name not in self._groups:
            self._groups[name] = await self._store.read(people.get_group, name) is not None
        return self._groups[name]


def shape_of(job: Job) -> Job:
    """All that decides what a job may have, and nothing of what it does with it."""
    roles = tuple(replace(role, commands=(), env={}) for role in job.roles)
    return replace(job, name="", description="", secrets={}, tags=(), roles=roles)


def _filled(shape: Job, job: Job) -> Job:
    """The same in full."""
    roles = tuple(
        replace(role, commands=own.commands, env={**own.env, **role.env})
        for role, own in zip(shape.roles, job.roles, strict=True)
    )
    return replace(shape, name=job.name, description=job.description, secrets=job.secrets, tags=job.tags, roles=roles)


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
    return join_messages(". ", filter(None, (error.message, error.hint)))
