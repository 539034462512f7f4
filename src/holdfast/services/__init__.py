"""Every verb a user can do, once, with its permission check. Only services touch the store and the engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.engines.base import Engine
from holdfast.settings import Settings
from holdfast.shared_folders import SharedFolders
from holdfast.store.database import Store
from holdfast.store.metrics.series_files import SeriesFiles
from holdfast.timezones import machine_timezone, zone

from .audit import Audit, AuditedStore
from .catalogue.image_aliases import ImageAliases
from .catalogue.images import Images
from .catalogue.instance_types import InstanceTypes
from .catalogue.resolution import Catalogue
from .catalogue.secrets import Secrets
from .catalogue.skus import Skus
from .control import Control
from .cursors import Cursors
from .datasets.git_sync import GitSync
from .datasets.job_mounts import Storages
from .datasets.mount_rules import MountRules
from .datasets.service import Datasets
from .disk_work import DiskWork
from .files.service import Files
from .files.tagged_folders import TaggedFolders
from .inside.debuggers import Debuggers
from .inside.holds import Holds
from .inside.service import Entering
from .inside.ssh_gateway import SshGateway
from .inside.ssh_logins import SshLogins
from .inside.stacks import Stacks
from .inside.tickets import Tickets
from .installation.configuration import Configuration
from .installation.disk_report import DiskReports
from .installation.monitoring import Monitoring
from .installation.pruning import Pruning
from .installation.status import Place
from .job_changes import Changes
from .jobs.artifact_retention import ArtifactSweep
from .jobs.artifacts import Artifacts
from .jobs.detail import JobCloseup
from .jobs.hold_defaults import GroupHolds
from .jobs.overview import Overview
from .jobs.service import Jobs
from .jobs.validation import JobValidator
from .logs.links import LogLinks
from .logs.service import Logs
from .metrics.server_metrics import Vitals
from .metrics.service import Metrics
from .metrics.usage import Usage
from .notifications.creation import Making
from .notifications.mailing import Mailing
from .notifications.sending import Sending
from .notifications.service import Notifications
from .notifications.webhook_targets import Receivers
from .people.access_tokens import AccessTokens
from .people.groups import Groups
from .people.login_codes import TokenCodes
from .people.login_devices import LoginDevices
from .people.passwords import Passwords
from .people.ssh_keys import Keys
from .people.tokens import Tokens
from .people.users import Users
from .schedules.idle_reasons import ScheduleWaits
from .schedules.recurrence import Timing
from .schedules.service import Schedules
from .why.blockers import Blockers
from .why.diagnoses import Diagnoses
from .why.efficiency import Efficiencies
from .why.feasibility import Prospects
from .why.insights import Insights
from .why.service import Reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    settings: Settings
    audit: Audit
    changes: Changes
    jobs: Jobs
    closeup: JobCloseup
    insights: Insights
    reasons: Reasons
    holds: Holds
    overview: Overview
    logs: Logs
    metrics: Metrics
    monitoring: Monitoring
    vitals: Vitals
    users: Users
    groups: Groups
    tokens: Tokens
    devices: LoginDevices
    images: Images
    image_aliases: ImageAliases
    instance_types: InstanceTypes
    datasets: Datasets
    git_sync: GitSync
    secrets: Secrets
    shared: SharedFolders
    files: Files
    folders: TaggedFolders
    artifacts: Artifacts
    artifact_sweep: ArtifactSweep
    pruning: Pruning
    usage: Usage
    schedules: Schedules
    schedule_waits: ScheduleWaits
    codes: TokenCodes
    keys: Keys
    notifications: Notifications
    entering: Entering
    debuggers: Debuggers
    stacks: Stacks
    tickets: Tickets
    ssh_logins: SshLogins
    ssh_gate: SshGateway
    skus: Skus
    place: Place
    configuration: Configuration

    async def seed(self) -> None:
        """At the first start: what is there to choose from."""
        await self.instance_types.seed()
        await self.image_aliases.seed()


def build_services(
    store: Store,
    engine: Engine,
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
    passwords = passwords or Passwords()
    access = AccessTokens(
        store,
        clock=clock,
        monotonic=monotonic,
        reads_all=settings.access.reading != "groups",
        own_only=settings.access.acting == "owners",
    )
    folders = SharedFolders.at(settings.files.folder, home)
    mounts = MountRules(home=home, allow=settings.mounts.allow, shared=folders.root)
    marks = settings.disk.marks()
    git_sync = GitSync(store, folders, settings.mounts, marks=marks, clock=clock)
    work = DiskWork()
    audited = AuditedStore(store, clock=clock)
    datasets = Datasets(audited, mounts, folders, git_sync, work, nfs_folder=settings.mounts.nfs_folder)
    instance_types = InstanceTypes(audited, settings)
    image_aliases = ImageAliases(audited)
    skus = Skus(store, engine, instance_types)
    catalogue = Catalogue(store, instance_types, image_aliases)
    group_holds = GroupHolds(store)
    intake = JobValidator(store, engine, settings, mounts, Storages(datasets, mounts), skus, catalogue, group_holds)
    prospects = Prospects(engine, control, unknown_image=settings.images.unknown)
    images = Images(audited, engine, home, marks)
    images.clear_uploads()
    files = Files(store, folders, work, max_bytes=settings.files.max_upload_bytes, marks=marks)
    files.clear_uploads()
    devices = LoginDevices(derive, clock=clock, monotonic=monotonic)
    tokens = Tokens(audited, settings, access, passwords, devices, clock=clock, monotonic=monotonic)
    blockers = Blockers(store, control, prospects)
    cursors = Cursors(derive(b"cursors") if derive else None)
    jobs = Jobs(store, engine, control, intake, prospects, blockers, cursors, clock=clock)
    entering = Entering(
        store,
        engine,
        control,
        sessions_per_user=settings.ssh.sessions_per_user,
        clock=clock,
        monotonic=monotonic,
    )
    debuggers = Debuggers(control, entering)
    metrics = Metrics(store, SeriesFiles(home / "metrics"), control, enabled=settings.metrics.enabled)
    efficiencies = Efficiencies(store, engine, metrics, clock=clock)
    insights = Insights(store, Diagnoses(store, engine, control, metrics), efficiencies, monotonic=monotonic)
    place = Place(store, engine, control, home, shared=folders.root, clock=clock)
    vitals = Vitals()
    store.on_batch(vitals.wrote)
    schedules = Schedules(audited, control, intake, prospects, Timing(settings.schedules.timezone), clock=clock)
    artifact_sweep = ArtifactSweep(store, folders, _days(settings.files.artifact_days), clock=clock)
    reports = DiskReports(store, engine, control, home, folders, artifact_sweep, marks, clock=clock)
    pruning = Pruning(audited, engine, control, reports, artifact_sweep, images, metrics.files, clock=clock)
    forget = (access.forget, instance_types.forget, image_aliases.forget, group_holds.forget)
    return Services(
        settings=settings,
        audit=Audit(store, _days(settings.server.audit_days), clock=clock),
        changes=control.changes,
        jobs=jobs,
        closeup=JobCloseup(store, engine, control),
        insights=insights,
        reasons=Reasons(store, control, blockers, insights, debuggers),
        holds=Holds(store, control, settings.hold, clock=clock),
        overview=Overview(store, jobs, clock=clock),
        logs=Logs(store, engine, control, LogLinks(settings.openpai.log_link_seconds, clock=clock), tokens),
        metrics=metrics,
        monitoring=Monitoring(store, engine, control, place, metrics, is_open=settings.metrics.open, clock=clock),
        vitals=vitals,
        users=Users(audited, engine, settings, access, passwords, clock=clock, monotonic=monotonic),
        groups=Groups(audited, control, folders, forget=forget),
        tokens=tokens,
        devices=devices,
        codes=TokenCodes(audited, tokens, monotonic=monotonic),
        keys=Keys(audited, access.forget, clock=clock),
        notifications=_notifications(audited, insights, settings, derive, clock),
        entering=entering,
        debuggers=debuggers,
        stacks=Stacks(entering, engine),
        tickets=Tickets(access, entering, monotonic=monotonic),
        ssh_logins=SshLogins(audited, access, derive, clock=clock, monotonic=monotonic),
        ssh_gate=SshGateway(settings.ssh, derive, own_ports | {settings.server.port, settings.ssh.port}),
        images=images,
        image_aliases=image_aliases,
        instance_types=instance_types,
        datasets=datasets,
        git_sync=git_sync,
        secrets=Secrets(audited),
        shared=folders,
        files=files,
        folders=TaggedFolders(files, work, clock=clock),
        artifacts=Artifacts(store, folders, work),
        artifact_sweep=artifact_sweep,
        pruning=pruning,
        usage=Usage(store, zone(settings.schedules.timezone or machine_timezone()), clock=clock),
        schedules=schedules,
        schedule_waits=ScheduleWaits(store, control, schedules),
        skus=skus,
        place=place,
        configuration=Configuration(settings, home),
    )


def _notifications(
    store: AuditedStore,
    insights: Insights,
    settings: Settings,
    derive: Callable[[bytes], bytes] | None,
    clock: Callable[[], datetime],
) -> Notifications:
    chosen, server = settings.notifications, settings.server
    mailing = Mailing(settings.mail, timeout=chosen.timeout)
    receivers = Receivers(chosen.allow, chosen.refuse)
    listens = f"http://{server.host}:{server.port}" if server.port and server.host not in ("", "0.0.0.0", "::") else ""
    making = Making(
        store.plain,
        mailing,
        insights,
        base=(server.public_url or listens).rstrip("/"),
        per_hour=chosen.per_hour,
        clock=clock,
    )
    return Notifications(
        store,
        making,
        Sending(receivers, mailing, derive, timeout=chosen.timeout, clock=clock),
        per_hour=chosen.per_hour,
        keep=timedelta(days=chosen.keep_days),
        mail_ready=mailing.ready,
        clock=clock,
    )


def _days(count: float) -> timedelta | None:
    return timedelta(days=count) if count else None
