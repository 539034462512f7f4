"""Validation of job files: parsing, permissions, defaults and warnings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TypedDict

from holdfast.core.access import Actor, Permission, choose_default_group, has_permission
from holdfast.core.errors import InvalidJob, Problem, UserError
from holdfast.core.holds import format_duration_in_words
from holdfast.core.image_names import list_name_variants
from holdfast.core.job import HOST_IMAGE, SHARED_FILES_PATH, Hold, HoldScope, Job, JobFormat, Resources
from holdfast.core.messages import join_messages, msg
from holdfast.core.notifications import Channel, NotifySpec
from holdfast.core.slurm_options import SLURM_ENGINE, RoleOption, list_role_options
from holdfast.engines.base import Isolation
from holdfast.engines.engine_set import EngineSet
from holdfast.jobspec import (
    Defaults,
    ParsedJob,
    parse_job,
    render_openpai_yaml,
    render_primehub_yaml,
    render_sbatch_script,
    render_yaml,
)
from holdfast.jobspec.notify import add_notify
from holdfast.jobspec.problem_lines import add_problem_lines
from holdfast.settings import Settings
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.jobs import records as job_rows

from ..catalogue.resolution import CatalogueResolver
from ..catalogue.skus import Skus
from ..control import Control
from ..datasets.job_mounts import DatasetMounter, DatasetRequests, parse_dataset_requests, remove_dataset_mounts
from ..datasets.mount_rules import MountRules
from ..errors import InstanceTypeNotFound, NotInGroup, Unavailable, build_name_taken_error
from ..name_suggestions import build_group_not_found_error, build_host_image_error, check_engine, suggest_name
from ..why.feasibility import format_image_suggestion, format_missing_image
from .hold_defaults import GroupHoldDefaults

MAX_INLINE_LENGTH = 16 * 1024  # characters; parsing fewer takes less time than starting a thread
MAX_FILE_NAME_LENGTH = 255  # characters; the limit of a job's name
HOLDS_DISABLED_WARNING = msg("holds are disabled on this server; `hold` is ignored")
NOTIFICATIONS_DISABLED_WARNING = msg("notifications are disabled on this server; `notify` is ignored")
MAIL_NOT_CONFIGURED_WARNING = msg("email is not configured on this server; email notifications are not sent")
FILES_WARNING = msg(
    "jobs are not isolated on this machine, so the group's files are not at {files}; use the path in HOLDFAST_FILES",
    files=SHARED_FILES_PATH,
)


ReasonLister = Callable[[Job], Awaitable[Sequence[str]]]  # why a job can never run


class JobOverrides(TypedDict, total=False):
    """What a submission sets in addition to its job file; see JobValidator.validate."""

    group: str | None
    dialect: str | None
    file_name: str | None
    hold: Hold | None
    notify: NotifySpec | None
    engine: str | None


@dataclass(frozen=True, slots=True)
class ValidatedJob:
    job: Job
    source: str  # secrets masked
    warnings: tuple[str, ...]


class JobValidator:
    def __init__(
        self,
        store: Store,
        engine: EngineSet,
        control: Control,
        settings: Settings,
        mounts: MountRules,
        storages: DatasetMounter,
        skus: Skus,
        catalogue: CatalogueResolver,
        group_holds: GroupHoldDefaults,
    ) -> None:
        self._store = store
        self._engine = engine
        self._control = control
        self._settings = settings
        self._mounts = mounts
        self._dataset_mounter = storages
        self._skus = skus
        self._catalogue = catalogue
        self._group_holds = group_holds
        jobs = settings.jobs
        self._defaults = Defaults(resources=Resources(cpu=jobs.default_cpu, memory=jobs.default_memory))

    async def validate(
        self,
        actor: Actor,
        text: str,
        *,
        group: str | None = None,
        dialect: str | None = None,
        file_name: str | None = None,
        hold: Hold | None = None,
        notify: NotifySpec | None = None,
        engine: str | None = None,
        unique: bool = False,
        list_reasons: ReasonLister | None = None,
    ) -> ValidatedJob:
        """Parse and check a job file. `group`, `hold` and `engine` override the file, `notify` is added to it.
        `file_name` names a batch script that sets no name. With `unique`, raise NameTaken if the user ever had a job of
        that name. The reasons of `list_reasons` are added to an error."""
        parsed = await self._parse_text(actor, text, dialect, file_name or "")
        job = parsed.job if group is None else replace(parsed.job, group=group)
        if not job.group:
            raise _build_group_required_error(actor)
        job = job if hold is None else replace(job, hold=hold)
        job = job if notify is None else replace(job, notify=add_notify(job.notify, notify))
        job = job if engine is None else replace(job, engine=engine)
        source = await self.render_clone(job) if job.secrets else text
        warnings = (
            *(_format_warning(warning) for warning in parsed.warnings),
            *self._list_hold_warnings(job.hold),
            *self._list_notify_warnings(job),
        )
        if job.hold is None:
            job = replace(job, hold=await self._group_holds.get_group_hold(job.group))
        return await self._apply_rules(actor, job, source, warnings, new=True, unique=unique, list_reasons=list_reasons)

    async def render_job(self, job: Job) -> str:
        """Return the job in Holdfast's format, secrets masked, without values that equal this server's defaults."""
        defaults = replace(self._defaults, instance_types=await self._catalogue.load_sizes())
        return await asyncio.to_thread(render_yaml, job, defaults=defaults)

    async def render_clone(self, job: Job) -> str:
        """Return a file to submit again, secrets masked, in the job's own format: OpenPAI and PrimeHub have fields
        that Holdfast's format does not have."""
        if job.dialect is JobFormat.PRIMEHUB:
            return render_primehub_yaml(job)
        if job.dialect is JobFormat.SBATCH:
            return render_sbatch_script(job)
        return (
            await asyncio.to_thread(render_openpai_yaml, job) if job.dialect.is_openpai else await self.render_job(job)
        )

    async def revalidate(
        self, actor: Actor, job: Job, source: str, hold: Hold | None = None, notify: NotifySpec | None = None
    ) -> ValidatedJob:
        """Check an accepted job again: permissions and names may have changed. `hold` overrides, `notify` is added."""
        job = remove_dataset_mounts(job if hold is None else replace(job, hold=hold))
        job = job if notify is None else replace(job, notify=add_notify(job.notify, notify))
        return await self._apply_rules(actor, job, source, tuple(self._list_hold_warnings(hold)), new=False)

    async def list_slurm_options(self, job: Job) -> tuple[RoleOption, ...]:
        """Return the options that its tasks would get in Slurm now; none on other engines."""
        if self._control.choose_engine(job) != SLURM_ENGINE:
            return ()
        group = await self._store.read(people.get_group, job.group)
        return list_role_options(job, self._settings.slurm.queue_options, group.slurm if group else {})

    async def prepare_storage(self, actor: Actor, ready: ValidatedJob) -> None:
        """Create what the job needs before it starts. Call only for jobs that will be stored."""
        await self._dataset_mounter.create_user_folders(ready.job, actor)

    async def _parse_text(self, actor: Actor, text: str, dialect: str | None, file_name: str) -> ParsedJob:
        sizes = await self._catalogue.load_sizes(actor)
        group = choose_default_group(actor.groups, actor.usual_group)
        name = "".join(char for char in file_name if char.isprintable())[:MAX_FILE_NAME_LENGTH].strip()
        defaults = replace(self._defaults, group=group, user=actor.name, instance_types=sizes, job_name=name)
        known = _parse_dialect(dialect)
        try:
            if len(text) <= MAX_INLINE_LENGTH:
                return parse_job(text, dialect=known, defaults=defaults)
            return await asyncio.to_thread(parse_job, text, dialect=known, defaults=defaults)
        except InvalidJob as error:
            raise _build_type_not_found_error(error) or error from None

    async def _apply_rules(
        self,
        actor: Actor,
        job: Job,
        source: str,
        warnings: tuple[str, ...],
        *,
        new: bool,
        unique: bool = False,
        list_reasons: ReasonLister | None = None,
    ) -> ValidatedJob:
        """Run all checks, in the order that OpenPAI's clients expect: resources, name, group, datasets."""
        job, lowered = self._limit_priority(actor, job)
        warnings = (*warnings, *lowered)
        requests = parse_dataset_requests(job)
        self._check_task_count(job)
        check_engine(job.engine, self._engine.names)
        await self._skus.check_job(actor, job)
        if unique and await self._store.read(job_rows.is_name_used, actor.name, job.name):
            raise build_name_taken_error(job.name)
        try:
            await self._check_group(actor, job)
            job = await self._catalogue.resolve_job(job)
            if new:  # PrimeHub does not check quotas for reruns
                await self._catalogue.check_primehub_quota(job)
            job = await self._mounts.resolve_mounts(job, actor)
            stored = await self._dataset_mounter.mount_datasets(job, actor, requests)
        except UserError as first:
            if job.dialect.emulates_platform:
                raise
            raise await self._combine_errors(first, actor, job, requests, source, list_reasons) from None
        self._check_host_image(stored.job)
        self._check_slurm_options(actor, stored.job, source)
        return ValidatedJob(stored.job, source, (*warnings, *stored.warnings, *await self._collect_warnings(job)))

    async def _combine_errors(
        self,
        first: UserError,
        actor: Actor,
        job: Job,
        requests: DatasetRequests,
        source: str,
        list_reasons: ReasonLister | None,
    ) -> UserError:
        """Return the first error together with those of the remaining checks; itself if it is the only one."""
        in_group = first.field != "group"  # else do not reveal the group's instance types
        checks: list[Callable[[], Awaitable[object]]] = [partial(self._catalogue.resolve_job, job)] if in_group else []
        checks += [
            partial(self._mounts.resolve_mounts, job, actor),
            partial(self._dataset_mounter.mount_datasets, job, actor, requests),
        ]
        problems = [] if in_group else list_problems(first)
        for check in checks:
            try:
                await check()
            except UserError as error:
                problems += list_problems(error)
        if list_reasons is not None and in_group:
            problems += [Problem("", reason) for reason in await list_reasons(job)]
        alone = len(problems) < (1 if isinstance(first, InvalidJob) else 2)
        if alone or isinstance(first, Unavailable):
            return first
        return InvalidJob(await asyncio.to_thread(add_problem_lines, source, problems))

    def _limit_priority(self, actor: Actor, job: Job) -> tuple[Job, tuple[str, ...]]:
        """Return the job with an allowed priority, and a warning if it was lowered."""
        most = self._settings.queue.max_priority
        if most is None or actor.admin or job.priority <= most:
            return job, ()
        return replace(job, priority=most), (
            msg(
                "priority {priority} is lowered to {limit}, the maximum on this server",
                priority=job.priority,
                limit=most,
            ),
        )

    def _check_task_count(self, job: Job) -> None:
        most = self._settings.jobs.max_tasks
        if job.task_count > most:
            raise UserError(
                msg(
                    "A job can have at most {limit} tasks; this one has {task_count}",
                    limit=most,
                    task_count=job.task_count,
                ),
                field="roles",
            )

    def _check_slurm_options(self, actor: Actor, job: Job, source: str) -> None:
        """Raise InvalidJob if it sets options that only admins set."""
        if actor.admin or self._control.choose_engine(job) != SLURM_ENGINE:
            return
        options = dict.fromkeys(option for role in job.roles for option in role.engine_options.get(SLURM_ENGINE, {}))
        problems = [
            Problem(
                f"slurm.{option}",
                msg("jobs cannot set {option} on this server", option=option),
                hint=msg("Remove it: the group and the instance type set it. Admins allow it in slurm.job_options."),
            )
            for option in options
            if option not in self._settings.slurm.job_options
        ]
        if problems:
            raise InvalidJob(add_problem_lines(source, problems))

    def _check_host_image(self, job: Job) -> None:
        """Raise HostImageUnavailable if a task uses the image `host` and its engine has none."""
        name = self._control.choose_engine(job)
        if self._engine.has_host_image(name) or all(role.engine_image != HOST_IMAGE for role in job.roles):
            return
        others = [other for other in self._engine.names if self._engine.has_host_image(other)]
        raise build_host_image_error(name, others)

    async def _check_group(self, actor: Actor, job: Job) -> None:
        group = job.group
        if group in actor.groups:
            return
        if not has_permission(actor, Permission.SUBMIT_JOB, group):
            mine = ", ".join(sorted(actor.groups)) or "none"
            message = msg("You are not a member of the group {group}", group=group[:100])
            hint = join_messages(
                " ", filter(None, (suggest_name(group, actor.groups), msg("Your groups: {groups}.", groups=mine)))
            )
            raise NotInGroup(message, group=group, field="group", hint=hint)
        if await self._store.read(people.get_group, group) is None:
            message = msg("Group {group} not found", group=group[:100])
            if job.dialect.is_openpai:  # its clients expect the same error as for a non-member
                raise NotInGroup(message, group=group, field="group")
            raise build_group_not_found_error(
                group, [known.name for known in await self._store.read(people.list_groups)], "group"
            )

    async def _collect_warnings(self, job: Job) -> list[str]:
        found = []
        name = self._control.choose_engine(job)
        isolation = self._engine.find_health(name).isolation
        if job.files and not job.dialect.emulates_platform and isolation is Isolation.NONE:
            found.append(FILES_WARNING)
        found += _list_slurm_warnings(job, name)
        requested = {role.engine_image for role in job.roles} - {HOST_IMAGE}
        if requested and not self._engine.knows_images(name):
            text = msg("the engine {engine} does not respond, so its images are not known", engine=name)
            found.append(text)
        elif requested:
            names = [image.name for image in await self._engine.list_images() if image.engine in ("", name)]
            known = {name for image in names for name in list_name_variants(image)}
            missing = [image for image in sorted(requested) if not known & list_name_variants(image)]
            names += await self._catalogue.list_image_names(job.group) if missing else ()
            found += [
                self._format_unknown_image(image, name) + format_image_suggestion(image, names) for image in missing
            ]
        return found

    def _list_notify_warnings(self, job: Job) -> list[str]:
        if not job.notify:
            return []
        if not self._settings.notifications.enabled:
            return [NOTIFICATIONS_DISABLED_WARNING]
        mails = any(notify.way is Channel.MAIL for notify in job.notify)
        return [MAIL_NOT_CONFIGURED_WARNING] if mails and not self._settings.mail.host else []

    def _list_hold_warnings(self, hold: Hold | None) -> list[str]:
        if hold is None or hold.keep is HoldScope.NOTHING:
            return []
        if not self._settings.hold.enabled:
            return [HOLDS_DISABLED_WARNING]
        longest = timedelta(seconds=self._settings.hold.longest)
        if hold.duration is None or hold.duration <= longest:
            return []
        return [
            msg(
                "this server holds a failed task for at most {max_length}", max_length=format_duration_in_words(longest)
            )
        ]

    def _format_unknown_image(self, image: str, engine: str) -> str:
        if self._settings.images.unknown == "pull" and self._engine.pulls_images(engine):
            return msg("image {image} is not on this server; it is pulled before the job starts", image=image)
        if self._settings.images.unknown == "host" and self._engine.has_host_image(engine):
            return msg(
                "image {image} is not on this server; the job uses image {host_image} instead",
                image=image,
                host_image=HOST_IMAGE,
            )
        return format_missing_image(image)


def _list_slurm_warnings(job: Job, engine: str) -> list[str]:
    """Warn about options of a batch script that another engine ignores."""
    if job.dialect is not JobFormat.SBATCH or engine == SLURM_ENGINE:
        return []
    options = [option for role in job.roles for option in role.engine_options.get(SLURM_ENGINE, {})]
    if not options:
        return []
    return [
        msg("options of Slurm have no effect on the engine {engine}: {names}", engine=engine, names=", ".join(options))
    ]


def list_problems(error: UserError) -> list[Problem]:
    if isinstance(error, InvalidJob):
        return list(error.problems)
    return [Problem(error.field or "", error.message, error.hint)]


def _build_type_not_found_error(error: InvalidJob) -> InstanceTypeNotFound | None:
    """Return PrimeHub's error for an unknown instance type, if that is the only problem."""
    (first, *others) = error.problems
    if others or first.field != "instanceType" or first.rule != "reference":
        return None
    return InstanceTypeNotFound(error.message, name=str(first.expected), field=first.field, hint=first.hint)


def _format_warning(warning: Problem) -> str:
    message = join_messages(": ", filter(None, (warning.field, warning.message)))
    return join_messages(". ", filter(None, (message, warning.hint)))


def _build_group_required_error(actor: Actor) -> UserError:
    """Build the error for a missing group. Never guess one: its members can read the job and its log."""
    return UserError(
        msg("The job sets no group, and you are a member of several: {groups}", groups=", ".join(sorted(actor.groups))),
        field="group",
        hint=msg("Set `group: NAME` in the job file, or use --group NAME."),
    )


def _parse_dialect(name: str | None) -> JobFormat | None:
    if name is None:
        return None
    try:
        return JobFormat(name)
    except ValueError:
        known = ", ".join(JobFormat)
        raise UserError(
            msg("{name} is not a supported job file format", name=repr(name[:50])),
            field="dialect",
            hint=msg("Known values: {known}.", known=known),
        ) from None
