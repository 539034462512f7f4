"""Check whether a schedule can run now: its owner, the owner's permissions and its job file."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.errors import InvalidJob, UserError
from holdfast.core.job import Job
from holdfast.core.messages import join_messages, msg
from holdfast.core.records import User
from holdfast.core.schedule import InvalidReason, Schedule
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.schedules import StoredSchedule

from ..errors import ImageAliasNotFound, InstanceTypeNotFound
from ..jobs.validation import JobValidator, ValidatedJob
from ..people.access_tokens import actor_from_user
from ..why.feasibility import format_missing_image

MAX_MESSAGE_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class ScheduleCheckResult:
    """The job that a schedule would submit now, or the reason why it cannot run."""

    actor: Actor | None = None
    ready: ValidatedJob | None = None
    invalid: InvalidReason | None = None
    message: str = ""

    def apply_to_schedule(self, schedule: Schedule) -> Schedule:
        is_long = len(self.message) > MAX_MESSAGE_LENGTH  # a slice has no id any more, so it is not translated
        text = self.message[:MAX_MESSAGE_LENGTH] if is_long else self.message
        return replace(schedule, invalid=self.invalid, message=text)


class ScheduleChecks:
    """Checks of many schedules at one time. Users, groups and jobs of the same shape are checked once each, so that ten
    thousand schedules cost little and an unresponsive folder is waited for only once."""

    def __init__(self, store: Store, intake: JobValidator, *, prepare: bool = False) -> None:
        """`prepare`: also create what a job needs before it starts."""
        self._store = store
        self._validator = intake
        self._prepare = prepare
        self._users: dict[str, User | None] = {}
        self._groups: dict[str, bool] = {}
        self._shapes: dict[tuple[str, str], asyncio.Future[ScheduleCheckResult]] = {}

    async def check_schedule(self, stored: StoredSchedule) -> ScheduleCheckResult:
        schedule = stored.schedule
        if stored.damage is not None:
            return ScheduleCheckResult(invalid=InvalidReason.OTHER, message=stored.damage)
        owner = await self._load_owner(schedule.user)
        if owner is None or owner.disabled:
            how = msg("has been deleted") if owner is None else msg("is disabled")
            return ScheduleCheckResult(
                invalid=InvalidReason.USER, message=msg("Its owner {user} {problem}", user=schedule.user, problem=how)
            )
        if not await self._has_group(schedule.group):
            return ScheduleCheckResult(
                invalid=InvalidReason.GROUP, message=msg("Group {group} not found", group=schedule.group)
            )
        actor = actor_from_user(owner)
        if not has_permission(actor, Permission.SUBMIT_JOB, schedule.group):
            message = msg("Its owner {user} is not in the group {group}", user=schedule.user, group=schedule.group)
            return ScheduleCheckResult(invalid=InvalidReason.MEMBER, message=message)
        found = await self._check_shape(actor, build_job_shape(stored.job))
        if found.ready is None:
            return found
        return replace(
            found, ready=replace(found.ready, job=_restore_details(found.ready.job, stored.job), source=schedule.source)
        )

    async def _check_shape(self, actor: Actor, shape: Job) -> ScheduleCheckResult:
        key = actor.name, repr(shape)
        if key not in self._shapes:
            self._shapes[key] = asyncio.ensure_future(self._validate_shape(actor, shape))
        return await self._shapes[key]

    async def _validate_shape(self, actor: Actor, shape: Job) -> ScheduleCheckResult:
        try:
            ready = await self._validator.revalidate(actor, shape, "")
            for role in ready.job.roles:
                missing = format_missing_image(role.engine_image)
                if any(warning.startswith(missing) for warning in ready.warnings):
                    return ScheduleCheckResult(
                        actor, ready, InvalidReason.IMAGE, msg("Image {image} not found", image=role.image)
                    )
            if self._prepare:
                await self._validator.prepare_storage(actor, ready)
        except UserError as error:
            return ScheduleCheckResult(invalid=_classify_error(error), message=_format_error(error))
        return ScheduleCheckResult(actor, ready)

    async def _load_owner(self, name: str) -> User | None:
        if name not in self._users:
            self._users[name] = await self._store.read(people.get_user, name)
        return self._users[name]

    async def _has_group(self, name: str) -> bool:
        if name not in self._groups:
            self._groups[name] = await self._store.read(people.get_group, name) is not None
        return self._groups[name]


def build_job_shape(job: Job) -> Job:
    """Return the job reduced to the fields that decide whether it is allowed."""
    roles = tuple(replace(role, commands=(), env={}) for role in job.roles)
    return replace(job, name="", description="", secrets={}, tags=(), roles=roles)


def _restore_details(shape: Job, job: Job) -> Job:
    """Add the fields of `job` that its shape leaves out."""
    roles = tuple(
        replace(role, commands=own.commands, env={**own.env, **role.env})
        for role, own in zip(shape.roles, job.roles, strict=True)
    )
    return replace(shape, name=job.name, description=job.description, secrets=job.secrets, tags=job.tags, roles=roles)


def _classify_error(error: UserError) -> InvalidReason:
    if isinstance(error, InstanceTypeNotFound) or _is_about_field(error, "instanceType", "instance_type"):
        return InvalidReason.INSTANCE_TYPE
    if isinstance(error, ImageAliasNotFound):
        return InvalidReason.IMAGE
    return InvalidReason.OTHER


def _is_about_field(error: UserError, *fields: str) -> bool:
    """Return whether the first problem is about one of these fields."""
    field = error.problems[0].field if isinstance(error, InvalidJob) else error.field or ""
    return field.rpartition(".")[2] in fields


def _format_error(error: UserError) -> str:
    return join_messages(". ", filter(None, (error.message, error.hint)))
