"""From the text of a job file to a job that may be stored: parsed, allowed, and with what its user should know."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from holdfast.core.access import Actor, Verb, may, usual_group
from holdfast.core.errors import InvalidJob, Problem, UserError
from holdfast.core.holds import spell_out
from holdfast.core.job import FILES, HOST_IMAGE, Dialect, Hold, Job, Keep, Resources
from holdfast.core.messages import join_messages, msg
from holdfast.core.notifications import Notify, Way
from holdfast.engines.base import Engine, Isolation
from holdfast.jobspec import Defaults, Parsed, parse_job, render_openpai_yaml, render_primehub_yaml, render_yaml
from holdfast.jobspec.locating import with_lines_of
from holdfast.jobspec.notifying import with_notify
from holdfast.settings import Settings
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows

from ..catalogue.resolution import Catalogue
from ..catalogue.skus import Skus
from ..datasets.job_mounts import Storages, Wishes, wishes_of, without_datasets
from ..datasets.mount_rules import MountRules
from ..name_suggestions import nearest, no_group
from ..refusals import NoInstanceType, NotInGroup, Unavailable, name_taken
from ..why.feasibility import image_names, missing_image, similar_image
from .hold_defaults import GroupHolds

SMALL = 16 * 1024  # characters; parsing fewer takes less time than handing it to a thread costs
NO_HOLDS = msg("failed tasks are not kept on this server, whatever a job asks for")
NO_NOTIFICATIONS = msg("nobody is told of jobs outside by this server, whatever a job asks for")
NO_MAILS = msg("this server sends no mails, whatever a job asks for")
FILES_WARNING = msg(
    "jobs are not isolated on this machine, so the group's files are not at {files}; the "
    "variable HOLDFAST_FILES says where they are",
    files=FILES,
)


@dataclass(frozen=True, slots=True)
class Ready:
    job: Job
    source: str  # secrets masked
    warnings: tuple[str, ...]


class JobValidator:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        settings: Settings,
        mounts: MountRules,
        storages: Storages,
        skus: Skus,
        catalogue: Catalogue,
        group_holds: GroupHolds,
    ) -> None:
        self._store = store
        self._engine = engine
        self._settings = settings
        self._mounts = mounts
        self._storages = storages
        self._skus = skus
        self._catalogue = catalogue
        self._group_holds = group_holds
        jobs = settings.jobs
        self._defaults = Defaults(resources=Resources(cpu=jobs.default_cpu, memory=jobs.default_memory))

    async def read(
        self,
        actor: Actor,
        text: str,
        *,
        group: str | None = None,
        dialect: str | None = None,
        hold: Hold | None = None,
        notify: Notify | None = None,
        unique: bool = False,
    ) -> Ready:
        """`group` and `hold` go before what the file says, `notify` comes to it. With `unique`, NameTaken where the
        user had such a job."""
        parsed = await self._parse(actor, text, dialect)
        job = parsed.job if group is None else replace(parsed.job, group=group)
        if not job.group:
            raise _which_group(actor)
        job = job if hold is None else replace(job, hold=hold)
        job = job if notify is None else replace(job, notify=with_notify(job.notify, notify))
        source = await self.clone(job) if job.secrets else text
        warnings = (
            *(_show(warning) for warning in parsed.warnings),
            *self._hold_warnings(job.hold),
            *self._notify_warnings(job),
        )
        if job.hold is None:
            job = replace(job, hold=await self._group_holds.of(job.group))
        return await self._allow(actor, job, source, warnings, new=True, unique=unique)

    async def render(self, job: Job) -> str:
        """Our own YAML, secrets masked; what equals this site's defaults is left out."""
        defaults = replace(self._defaults, instance_types=await self._catalogue.sizes())
        return await asyncio.to_thread(render_yaml, job, defaults=defaults)

    async def clone(self, job: Job) -> str:
        """A file to submit again, secrets masked. Old clients' jobs are given more than our own YAML can say."""
        if job.dialect is Dialect.PRIMEHUB:
            return render_primehub_yaml(job)
        return await asyncio.to_thread(render_openpai_yaml, job) if job.dialect.openpai else await self.render(job)

    async def again(
        self, actor: Actor, job: Job, source: str, hold: Hold | None = None, notify: Notify | None = None
    ) -> Ready:
        """A job that was accepted before; what is allowed may have changed since, and what its names stand for. `hold`
        goes before what it said then, `notify` comes to it."""
        job = without_datasets(job if hold is None else replace(job, hold=hold))
        job = job if notify is None else replace(job, notify=with_notify(job.notify, notify))
        return await self._allow(actor, job, source, tuple(self._hold_warnings(hold)), new=False)

    async def prepare(self, actor: Actor, ready: Ready) -> None:
        """What has to be there before the job may start; for jobs that will be stored."""
        await self._storages.prepare(ready.job, actor)

    async def _parse(self, actor: Actor, text: str, dialect: str | None) -> Parsed:
        sizes = await self._catalogue.sizes(actor)
        group = usual_group(actor.groups, actor.usual_group)
        defaults = replace(self._defaults, group=group, user=actor.name, instance_types=sizes)
        known = _dialect(dialect)
        try:
            if len(text) <= SMALL:
                return parse_job(text, dialect=known, defaults=defaults)
            return await asyncio.to_thread(parse_job, text, dialect=known, defaults=defaults)
        except InvalidJob as error:
            raise _no_size(error) or error from None

    async def _allow(
        self, actor: Actor, job: Job, source: str, warnings: tuple[str, ...], *, new: bool, unique: bool = False
    ) -> Ready:
        """Refusals come in the order that OpenPAI's clients know: what is asked for, the name, the group, datasets."""
        job, lowered = self._limit_priority(actor, job)
        warnings = (*warnings, *lowered)
        wishes = wishes_of(job)
        self._check_size(job)
        await self._skus.check(actor, job)
        if unique:
            await self._check_name(actor, job.name)
        try:
            await self._check_group(actor, job)
            job = await self._catalogue.fill(job)
            if new:  # PrimeHub lets a job run again whatever the quotas became
                await self._catalogue.check_quota(job)
            job = await self._mounts.apply(job, actor)
            stored = await self._storages.apply(job, actor, wishes)
        except UserError as first:
            every = await self._every(first, actor, job, wishes, source) if job.dialect is Dialect.HOLDFAST else first
            raise every from None
        return Ready(stored.job, source, (*warnings, *stored.warnings, *await self._warnings(job)))

    async def _every(self, first: UserError, actor: Actor, job: Job, wishes: Wishes, source: str) -> UserError:
        """The first refusal with those that would follow it, in files of ours; itself when it is the only one."""
        in_group = first.field != "group"  # else the sizes of the group are nobody's business
        checks: list[Callable[[], Awaitable[object]]] = [partial(self._catalogue.fill, job)] if in_group else []
        checks += [partial(self._mounts.apply, job, actor), partial(self._storages.apply, job, actor, wishes)]
        problems = [] if in_group else problems_of(first)
        for check in checks:
            try:
                await check()
            except UserError as error:
                problems += problems_of(error)
        alone = len(problems) < (1 if isinstance(first, InvalidJob) else 2)
        if alone or isinstance(first, Unavailable):
            return first
        return InvalidJob(await asyncio.to_thread(with_lines_of, source, problems))

    def _limit_priority(self, actor: Actor, job: Job) -> tuple[Job, tuple[str, ...]]:
        """The job with a priority that its user may give it, and a warning where that is another one."""
        most = self._settings.queue.max_priority
        if most is None or actor.admin or job.priority <= most:
            return job, ()
        return replace(job, priority=most), (
            msg("the priority {priority} is lowered to {most}, the highest here", priority=job.priority, most=most),
        )

    def _check_size(self, job: Job) -> None:
        most = self._settings.jobs.max_tasks
        if job.task_count > most:
            raise UserError(
                msg(
                    "A job may have at most {most} tasks, this one asks for {task_count}",
                    most=most,
                    task_count=job.task_count,
                ),
                field="roles",
            )

    async def _check_name(self, actor: Actor, name: str) -> None:
        if await self._store.read(job_rows.name_taken, actor.name, name):
            raise name_taken(name)

    async def _check_group(self, actor: Actor, job: Job) -> None:
        group = job.group
        if group in actor.groups:
            return
        if not may(actor, Verb.SUBMIT_JOB, group):
            mine = ", ".join(sorted(actor.groups)) or "none"
            message = msg("You are not in the group {group}", group=group[:100])
            hint = join_messages(
                " ", filter(None, (nearest(group, actor.groups), msg("Your groups: {mine}.", mine=mine)))
            )
            raise NotInGroup(message, group=group, field="group", hint=hint)
        if await self._store.read(people.get_group, group) is None:
            message = msg("There is no group {group}", group=group[:100])
            if job.dialect.openpai:  # to whose clients that is a group which nobody is in
                raise NotInGroup(message, group=group, field="group")
            raise no_group(group, [known.name for known in await self._store.read(people.list_groups)], "group")

    async def _warnings(self, job: Job) -> list[str]:
        found = []
        if job.files and job.dialect is Dialect.HOLDFAST and self._engine.health().isolation is Isolation.NONE:
            found.append(FILES_WARNING)
        wanted = {role.engine_image for role in job.roles} - {HOST_IMAGE}
        if wanted:
            names = [image.name for image in await self._engine.images()]
            known = {name for image in names for name in image_names(image)}
            missing = [image for image in sorted(wanted) if not known & image_names(image)]
            names += await self._catalogue.image_names(job.group) if missing else ()
            found += [self._unknown_image(image) + similar_image(image, names) for image in missing]
        return found

    def _notify_warnings(self, job: Job) -> list[str]:
        if not job.notify:
            return []
        if not self._settings.notifications.enabled:
            return [NO_NOTIFICATIONS]
        mails = any(notify.way is Way.MAIL for notify in job.notify)
        return [NO_MAILS] if mails and not self._settings.mail.host else []

    def _hold_warnings(self, hold: Hold | None) -> list[str]:
        if hold is None or hold.keep is Keep.NOTHING:
            return []
        if not self._settings.hold.enabled:
            return [NO_HOLDS]
        longest = timedelta(seconds=self._settings.hold.longest)
        if hold.duration is None or hold.duration <= longest:
            return []
        return [msg("a failed task is kept for {longest} at most on this server", longest=spell_out(longest))]

    def _unknown_image(self, image: str) -> str:
        if self._settings.images.unknown == "host":
            return msg(
                "the image {image} is not known here; the job will run on the image {host_image} instead",
                image=image,
                host_image=HOST_IMAGE,
            )
        return missing_image(image)


def problems_of(error: UserError) -> list[Problem]:
    if isinstance(error, InvalidJob):
        return list(error.problems)
    return [Problem(error.field or "", error.message, error.hint)]


def _no_size(error: InvalidJob) -> NoInstanceType | None:
    """PrimeHub's clients are told so in their own words, when nothing else is wrong."""
    (first, *others) = error.problems
    if others or first.field != "instanceType" or first.rule != "reference":
        return None
    return NoInstanceType(error.message, name=str(first.expected), field=first.field, hint=first.hint)


def _show(warning: Problem) -> str:
    said = join_messages(": ", filter(None, (warning.field, warning.message)))
    return join_messages(". ", filter(None, (said, warning.hint)))


def _which_group(actor: Actor) -> UserError:
    """Not for us to choose: all members of the group would see the job and its log."""
    return UserError(
        msg("The job names no group, and you are in several: {groups}", groups=", ".join(sorted(actor.groups))),
        field="group",
        hint=msg("Write `group: NAME` into the file, or give --group NAME."),
    )


def _dialect(name: str | None) -> Dialect | None:
    if name is None:
        return None
    try:
        return Dialect(name)
    except ValueError:
        known = ", ".join(Dialect)
        raise UserError(
            msg("There is no dialect {name}", name=repr(name[:50])),
            field="dialect",
            hint=msg("Known are: {known}.", known=known),
        ) from None
