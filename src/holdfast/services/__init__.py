"""All operations of users, with their permission checks. Only services use the store and the engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.core.job import Job
from holdfast.engines.base import Engine, EngineHealth
from holdfast.engines.engine_set import EngineSet
from holdfast.settings import Settings
from holdfast.shared_folders import SharedFolders
from holdfast.store.database import Store
from holdfast.store.metrics.database import MetricsDatabase
from holdfast.timezones import find_machine_timezone, get_zone

from .audit import AuditedStore, AuditLog
from .catalogue.image_aliases import ImageAliases
from .catalogue.image_pulls import ImagePullRequests
from .catalogue.images import Images
from .catalogue.instance_types import InstanceTypes
from .catalogue.resolution import CatalogueResolver
from .catalogue.secrets import Secrets
from .catalogue.skus import Skus
from .control import Control
from .cursors import CursorCodec
from .datasets.git_sync import GitSync
from .datasets.job_mounts import DatasetMounter
from .datasets.mount_rules import MountRules
from .datasets.service import Datasets
from .disk_work import DiskExecutor
from .files.service import Files
from .files.tagged_folders import TaggedFolders
from .inside.debuggers import Debuggers
from .inside.holds import Holds
from .inside.service import TaskAccess
from .inside.ssh_gateway import SshGateway
from .inside.ssh_logins import SshLogins
from .inside.stack_dumps import StackDumps
from .inside.tickets import Tickets
from .installation.configuration import Configuration
from .installation.disk_report import DiskReports
from .installation.monitoring import Monitoring
from .installation.pruning import Pruning
from .installation.status import Installation
from .job_changes import JobChanges
from .jobs.artifact_retention import ArtifactCleanup
from .jobs.artifacts import Artifacts
from .jobs.hold_defaults import GroupHoldDefaults
from .jobs.job_pages import JobPages
from .jobs.overview import Overview
from .jobs.service import Jobs
from .jobs.validation import JobValidator
from .logs.links import LogLinks
from .logs.service import Logs
from .metrics.server_metrics import ServerMetrics
from .metrics.service import Metrics
from .metrics.usage import UsageReports
from .notifications.creation import NotificationCreator
from .notifications.mailer import Mailer
from .notifications.sender import NotificationSender
from .notifications.service import Notifications
from .notifications.webhook_targets import WebhookHostResolver
from .people.access_tokens import AccessTokens
from .people.groups import Groups
from .people.login_codes import LoginCodes
from .people.login_devices import LoginDevices
from .people.passwords import Passwords
from .people.ssh_keys import SshKeys
from .people.tokens import Tokens
from .people.users import Users
from .schedules.recurrence import RecurrenceTimes
from .schedules.service import Schedules
from .schedules.wait_reasons import ScheduleWaitReasons
from .why.blockers import Blockers
from .why.diagnoses import Diagnoses
from .why.efficiency import EfficiencyReports
from .why.feasibility import Feasibility
from .why.insights import Insights
from .why.service import JobExplanations


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    settings: Settings
    audit: AuditLog
    changes: JobChanges
    jobs: Jobs
    job_pages: JobPages
    insights: Insights
    explanations: JobExplanations
    holds: Holds
    overview: Overview
    logs: Logs
    metrics: Metrics
    monitoring: Monitoring
    server_metrics: ServerMetrics
    users: Users
    groups: Groups
    tokens: Tokens
    devices: LoginDevices
    images: Images
    image_pulls: ImagePullRequests
    image_aliases: ImageAliases
    instance_types: InstanceTypes
    datasets: Datasets
    git_sync: GitSync
    secrets: Secrets
    shared: SharedFolders
    files: Files
    folders: TaggedFolders
    artifacts: Artifacts
    artifact_cleanup: ArtifactCleanup
    pruning: Pruning
    usage: UsageReports
    schedules: Schedules
    schedule_waits: ScheduleWaitReasons
    codes: LoginCodes
    keys: SshKeys
    notifications: Notifications
    task_access: TaskAccess
    debuggers: Debuggers
    stacks: StackDumps
    tickets: Tickets
    ssh_logins: SshLogins
    ssh_gateway: SshGateway
    skus: Skus
    installation: Installation
    configuration: Configuration

    async def seed_catalogue(self) -> None:
        """Create the default instance types and image aliases at the first start."""
        await self.instance_types.seed_types()
        await self.image_aliases.seed_aliases()


def build_services(
    store: Store,
    engine: Engine | EngineSet,
    control: Control,
    settings: Settings,
    home: Path,
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    passwords: Passwords | None = None,
    derive: Callable[[bytes], bytes] | None = None,
    own_ports: frozenset[int] = frozenset(),  # that the server listens on
) -> Services:
    engines = EngineSet.wrap(engine)

    def find_health(job: Job) -> EngineHealth:
        return engines.find_health(control.choose_engine(job))

    passwords = passwords or Passwords()
    access = AccessTokens(
        store,
        clock=clock,
        monotonic=monotonic,
        reads_all=settings.access.reading != "groups",
        own_only=settings.access.acting == "owners",
    )
    folders = SharedFolders.from_setting(settings.files.folder, home)
    mounts = MountRules(home=home, allow=settings.mounts.allow, shared=folders.root, find_health=find_health)
    marks = settings.disk.to_thresholds()
    git_sync = GitSync(store, folders, settings.mounts, marks=marks, clock=clock)
    work = DiskExecutor()
    audited = AuditedStore(store, clock=clock)
    datasets = Datasets(
        audited, mounts, folders, git_sync, work, engines.list_health, nfs_folder=settings.mounts.nfs_folder
    )
    instance_types = InstanceTypes(audited, settings)
    image_aliases = ImageAliases(audited)
    skus = Skus(store, engines, instance_types)
    catalogue = CatalogueResolver(store, instance_types, image_aliases)
    group_holds = GroupHoldDefaults(store)
    mounter = DatasetMounter(datasets, mounts, folders, find_health)
    intake = JobValidator(store, engines, control, settings, mounts, mounter, skus, catalogue, group_holds)
    prospects = Feasibility(engines, control, unknown_image=settings.images.unknown)
    images = Images(audited, engines, home, marks)
    secrets = Secrets(audited)
    images.delete_partial_uploads()
    files = Files(store, folders, work, max_bytes=settings.files.max_upload_bytes, marks=marks)
    files.delete_partial_uploads()
    devices = LoginDevices(derive, clock=clock, monotonic=monotonic)
    tokens = Tokens(audited, settings, access, passwords, devices, clock=clock, monotonic=monotonic)
    blockers = Blockers(store, control, prospects)
    cursors = CursorCodec(derive(b"cursors") if derive else None)
    jobs = Jobs(store, engines, control, intake, prospects, blockers, cursors, clock=clock)
    entering = TaskAccess(
        store, engines, control, sessions_per_user=settings.ssh.sessions_per_user, clock=clock, monotonic=monotonic
    )
    debuggers = Debuggers(control, entering)
    metrics = Metrics(store, MetricsDatabase(home), control, enabled=settings.metrics.enabled)
    efficiencies = EfficiencyReports(store, engines, metrics, clock=clock)
    insights = Insights(store, Diagnoses(store, engines, control, metrics), efficiencies, monotonic=monotonic)
    place = Installation(store, engines, control, home, shared=folders.root, clock=clock)
    vitals = ServerMetrics()
    store.set_batch_observer(vitals.record_write)
    schedules = Schedules(
        audited, control, intake, prospects, RecurrenceTimes(settings.schedules.timezone), clock=clock
    )
    artifact_sweep = ArtifactCleanup(store, folders, _days_to_timedelta(settings.files.artifact_days), clock=clock)
    reports = DiskReports(store, engines, control, home, folders, artifact_sweep, marks, clock=clock)
    pruning = Pruning(audited, engines, control, reports, artifact_sweep, images, metrics.database, clock=clock)
    forget = (access.invalidate, instance_types.invalidate, image_aliases.invalidate, group_holds.invalidate)
    return Services(
        settings=settings,
        audit=AuditLog(store, _days_to_timedelta(settings.server.audit_days), clock=clock),
        changes=control.changes,
        jobs=jobs,
        job_pages=JobPages(store, engines, control),
        insights=insights,
        explanations=JobExplanations(store, control, blockers, insights, debuggers),
        holds=Holds(store, control, settings.hold, clock=clock),
        overview=Overview(store, jobs, clock=clock),
        logs=Logs(store, engines, control, LogLinks(settings.openpai.log_link_seconds, clock=clock), tokens),
        metrics=metrics,
        monitoring=Monitoring(store, engines, control, place, metrics, is_open=settings.metrics.open, clock=clock),
        server_metrics=vitals,
        users=Users(audited, engines, settings, access, passwords, clock=clock, monotonic=monotonic),
        groups=Groups(audited, engines, control, folders, forget=forget),
        tokens=tokens,
        devices=devices,
        codes=LoginCodes(audited, tokens, monotonic=monotonic),
        keys=SshKeys(audited, access.invalidate, clock=clock),
        notifications=_build_notifications(audited, insights, settings, derive, clock),
        task_access=entering,
        debuggers=debuggers,
        stacks=StackDumps(entering, engines),
        tickets=Tickets(access, entering, monotonic=monotonic),
        ssh_logins=SshLogins(audited, access, derive, clock=clock, monotonic=monotonic),
        ssh_gateway=SshGateway(settings.ssh, derive, own_ports | {settings.server.port, settings.ssh.port}),
        images=images,
        image_pulls=ImagePullRequests(audited, engines, secrets),
        image_aliases=image_aliases,
        instance_types=instance_types,
        datasets=datasets,
        git_sync=git_sync,
        secrets=secrets,
        shared=folders,
        files=files,
        folders=TaggedFolders(files, work, clock=clock),
        artifacts=Artifacts(store, folders, work),
        artifact_cleanup=artifact_sweep,
        pruning=pruning,
        usage=UsageReports(store, get_zone(settings.schedules.timezone or find_machine_timezone()), clock=clock),
        schedules=schedules,
        schedule_waits=ScheduleWaitReasons(store, control, schedules),
        skus=skus,
        installation=place,
        configuration=Configuration(settings, home),
    )


def _build_notifications(
    store: AuditedStore,
    insights: Insights,
    settings: Settings,
    derive: Callable[[bytes], bytes] | None,
    clock: Callable[[], datetime],
) -> Notifications:
    chosen, server = settings.notifications, settings.server
    mailing = Mailer(settings.mail, timeout=chosen.timeout)
    receivers = WebhookHostResolver(chosen.allow, chosen.refuse)
    listens = f"http://{server.host}:{server.port}" if server.port and server.host not in ("", "0.0.0.0", "::") else ""
    making = NotificationCreator(
        store.unaudited_store,
        mailing,
        insights,
        base=(server.public_url or listens).rstrip("/"),
        per_hour=chosen.per_hour,
        clock=clock,
    )
    return Notifications(
        store,
        making,
        NotificationSender(receivers, mailing, derive, timeout=chosen.timeout, clock=clock),
        per_hour=chosen.per_hour,
        keep=timedelta(days=chosen.keep_days),
        mail_ready=mailing.is_ready,
        clock=clock,
    )


def _days_to_timedelta(count: float) -> timedelta | None:
    return timedelta(days=count) if count else None
