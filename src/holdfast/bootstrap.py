"""Builds the server from its components; the only module that knows them all."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import UserError
from holdfast.core.exits.specs import load_specs
from holdfast.engines.base import EngineHealth
from holdfast.engines.embedded.lifecycle.ownership import describe_task_of_process
from holdfast.engines.engine_set import EngineSet
from holdfast.full_disk import create_disk_reserve, is_disk_space_low, open_with_space
from holdfast.listening.listeners import Listeners, ServiceAddress
from holdfast.log_lines import configure_logging
from holdfast.memory_allocator import configure_allocator
from holdfast.settings import Settings
from holdfast.shared_folders import SharedFolders
from holdfast.start_options import build_engines, build_platform_options, find_engine_folder
from holdfast.start_priority import restore_priority
from holdfast.state_folder import (
    RunningServer,
    StateFolderLock,
    create_state_folder,
    has_job_data,
    lock_files_folder,
    write_server_files,
)
from holdfast.supervision import run_supervised

if TYPE_CHECKING:
    from holdfast.controller.artifacts import ArtifactCollector
    from holdfast.controller.disk_monitor import FilesDiskMonitor
    from holdfast.controller.holds import HoldLimits
    from holdfast.controller.loop import Controller
    from holdfast.controller.sampling import Sampler
    from holdfast.listening.binding import BoundService
    from holdfast.services import Services
    from holdfast.store.database import Store

log = logging.getLogger(__name__)

BackgroundWork = Callable[[], Awaitable[None]]

MIN_OPEN_FILES = 256
SERVER_FILES_TIMEOUT = 2.0  # seconds that a start waits for the server files
LAST_REQUESTS_TIMEOUT = 3  # seconds for open requests when the server stops


def serve(home: Path, settings: Settings, *, on_ready: Callable[[RunningServer], None] | None = None) -> None:
    """Run the server until SIGINT or SIGTERM. Tasks continue to run, and are found again at the next start."""
    gc.disable()  # until startup is complete: loading creates many permanent objects
    configure_allocator()
    import uvloop

    create_state_folder(home)
    _check_open_files()
    with StateFolderLock(home), _build_listeners(home, settings) as listeners:
        http = listeners.bind_http(settings.server.host, settings.server.port)
        ssh = listeners.bind_ssh(settings.ssh.host, settings.ssh.port) if settings.ssh.enabled else None
        uvloop.run(_run_server(home, settings, listeners, http, ssh, on_ready))


def _check_open_files() -> None:
    """Check the limit: with fewer files, starting a task fails with misleading isolation errors."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= most < MIN_OPEN_FILES:
        raise UserError(
            f"The limit of open files is {most}; the server requires {MIN_OPEN_FILES} or more",
            hint=f"Raise the limit before you start the server: ulimit -n {MIN_OPEN_FILES * 4}",
        )


def probe_engine(home: Path, settings: Settings) -> EngineHealth:
    """Return the health of the engine without starting a server."""

    async def run_probe() -> EngineHealth:
        engine = build_engines(home, settings)
        await engine.open(lambda observation: None)
        try:
            await engine.complete_checks()
            return engine.get_health()
        finally:
            await engine.close()

    create_state_folder(home)
    return asyncio.run(run_probe())


def create_shared_folder(home: Path, settings: Settings) -> None:
    """Create the folder before the engine decides what to hide: a later one would be visible to every job."""
    folders = SharedFolders.from_setting(settings.files.folder, home)
    try:
        folders.create_folder(folders.root)
    except OSError as error:
        raise UserError(
            f"Cannot use {folders.root} for shared files: {error.strerror}",
            field="files.folder",
            hint="Choose another folder with the setting files.folder.",
        ) from None


@asynccontextmanager
async def start_components(
    home: Path, settings: Settings, own_ports: frozenset[int] = frozenset()
) -> AsyncIterator[tuple[Services, str | None]]:
    """Start store, engine, controller and services, and stop them in the right order.

    `own_ports`: ports that the server listens on. Yields the services and, at the first start, the admin's password.
    """
    from holdfast.controller.disk_guard import DiskGuard, MinFreeSpace
    from holdfast.controller.disk_monitor import DiskMonitor, FilesDiskMonitor
    from holdfast.controller.gateway import GatewayAddressProvider
    from holdfast.controller.images.cleanup import ImageCleanup
    from holdfast.controller.live_jobs import JobLimits
    from holdfast.controller.loop import Controller
    from holdfast.controller.retention import ArtifactRetention, AuditRetention, LogRetention, MetricsRetention
    from holdfast.controller.schedule_runner import ScheduleRunner
    from holdfast.services import build_services
    from holdfast.store import people
    from holdfast.store.database import Store
    from holdfast.store.jobs import records as job_rows
    from holdfast.store.vault import Vault

    async with AsyncExitStack() as stack:
        marks = settings.disk.to_thresholds()
        reserve = create_disk_reserve(home, marks)
        vault = Vault.open(home / "secret.key")
        full_ago = 0.0 if is_disk_space_low(home) else reserve.read_seconds_since_full()
        url = settings.store.url or f"sqlite:///{home / 'holdfast.db'}"
        store = open_with_space(lambda: Store.open(url, vault=vault), home, reserve)
        stack.push_async_callback(store.close)
        store.acquire_exclusive_lock()
        create_shared_folder(home, settings)
        stack.enter_context(lock_files_folder(SharedFolders.from_setting(settings.files.folder, home).root))
        several_users = len(await store.read(people.list_users)) > 1
        used = await store.read(job_rows.list_used_engines)
        engine = build_engines(home, settings, own_ports, several_users=several_users, used=used)
        if full_ago is not None:
            engine.record_disk_full(full_ago)
        limits = JobLimits(
            time_limit=_convert_seconds(settings.jobs.time_limit),
            openpai_time_limit=_convert_seconds(settings.openpai.time_limit),
            grace=timedelta(seconds=settings.jobs.grace),
            max_grace=timedelta(seconds=settings.jobs.max_grace),
            hold=_build_hold_limits(settings),
        )
        controller = Controller(
            store,
            engine,
            limits,
            derive=vault.derive_key,
            backfill=settings.queue.backfill,
            folders=SharedFolders.from_setting(settings.files.folder, home),
            platform=build_platform_options(settings),
            gateway=GatewayAddressProvider(lambda: services.ssh_gateway),
            collecting=_build_collector(engine, settings, home),
            pulls_images=settings.images.unknown == "pull",
        )
        least = MinFreeSpace(bytes=settings.hold.min_free_bytes, percent=settings.hold.min_free_percent)
        disk_guard = DiskGuard(controller, home, least)
        image_cleanup = ImageCleanup(controller, engine, _convert_days(settings.images.keep_days))
        disk_monitor = DiskMonitor(
            controller,
            engine,
            home,
            marks,
            reserve,
            release_held=disk_guard.release_hold_if_full,
            remove_image=image_cleanup.remove_least_used_image,
        )
        store.set_disk_full_handler(disk_monitor.free_space_now)
        services = build_services(
            store, engine, controller, settings, home, derive=vault.derive_key, own_ports=own_ports
        )
        stack.callback(services.metrics.database.close)  # last: tasks may end until the controller is closed
        stack.push_async_callback(controller.close)
        stack.push_async_callback(services.image_pulls.close)
        folders = (home, *(home / "engines").glob("*"), find_engine_folder(home, settings, "slurm"))
        if any(map(has_job_data, folders)) and not await store.read(people.list_users):
            raise UserError(
                f"The database is empty, but {home} contains tasks or logs of earlier jobs",
                hint="Restore the database (or its URL, store.url); to start over, move the folder away.",
            )
        first_password = await services.users.ensure_first_admin()
        await services.seed_catalogue()
        controller.update_groups(await store.read(people.list_groups))
        controller.add_end_listener(services.schedules.due_runs.release_queued_run)
        controller.add_end_listener(services.insights.enqueue_ended_job)
        sampler = _build_sampler(engine, services)
        if sampler:
            controller.add_observation_listener(sampler.handle_observation)
        await controller.recover()
        retention, clockwork = (
            LogRetention(store, engine, _convert_days(settings.logs.keep_days)),
            ScheduleRunner(services.schedules.due_runs),
        )
        artifacts, audit = ArtifactRetention(services.artifact_cleanup), AuditRetention(services.audit, services.tokens)
        metrics = MetricsRetention(
            store, services.metrics.database, controller, _convert_days(settings.metrics.keep_days)
        )
        await disk_monitor.try_enforce_disk_thresholds()  # before the first task starts
        work = (
            controller.run,
            controller.attempts.run,
            disk_monitor.run,
            *_build_files_disk_work(FilesDiskMonitor(controller, services.shared.root, marks), home, services),
            disk_guard.run,
            image_cleanup.run,
            retention.run,
            artifacts.run,
            audit.run,
            metrics.run,
            *([sampler.run] if sampler else []),
            clockwork.run,
            services.git_sync.run,
            services.insights.run,
            *_build_notification_work(store, services, controller),
            services.server_metrics.watch_event_loop,
            services.files.empty_trash,
            services.datasets.remove_purged_data,
        )
        restore_priority()  # here: from now on tasks are started
        _run_in_background(stack, *work)
        yield services, first_password


async def _run_server(
    home: Path,
    settings: Settings,
    listeners: Listeners,
    http: BoundService,
    ssh: BoundService | str | None,
    on_ready: Callable[[RunningServer], None] | None,
) -> None:
    from holdfast.server.import_savings import skip_pydantic_v1, skip_uvicorn_cli

    skip_pydantic_v1()
    skip_uvicorn_cli()
    from holdfast.server.app import create_app
    from holdfast.server.http import run_http_server
    from holdfast.server.ssh.lazy_gateway import LazySshGateway

    configure_logging()
    async with start_components(home, settings, listeners.ports) as (services, first_password):
        info = RunningServer(
            url=_format_url(settings.server.host, http.port),
            pid=os.getpid(),
            home=home,
            started_at=datetime.now(UTC),
            first_password=first_password,
            health=services.installation.engine.get_health(),
            conditions=(await services.installation.check_health()).conditions,
            ssh_problem=ssh if isinstance(ssh, str) else "",
        )
        token = await _ensure_local_token(home, services)
        notes: dict[Path, dict[str, str | int]] = {
            home / "client.json": {"url": info.url, "token": token},
            home / "server.json": {"url": info.url, "pid": info.pid, "started_at": info.started_at.isoformat()},
        }
        writing = asyncio.create_task(write_server_files(notes))
        for done in (await asyncio.wait([writing], timeout=SERVER_FILES_TIMEOUT))[0]:
            done.result()

        app = create_app(services)
        app.state.lazy_routes.after_load = gc.freeze
        holder = listeners.create_supervisor()
        after_start: list[asyncio.Task[Any]] = []

        def handle_ready() -> None:
            gc.freeze()
            gc.enable()
            after_start.append(asyncio.create_task(holder.run()))
            after_start.append(asyncio.create_task(asyncio.to_thread(load_specs)))  # before the first exit needs them
            if on_ready:
                on_ready(info)

        def handle_stop() -> None:
            for task in after_start:
                task.cancel()
            holder.release_holder()

        door = LazySshGateway(services)
        door.open_port(ssh)
        try:
            await run_http_server(
                app,
                http.listening_sockets,
                on_ready=handle_ready,
                on_stop=handle_stop,
                last_requests=LAST_REQUESTS_TIMEOUT,
            )
        finally:
            await _cancel_task(writing)
            (home / "server.json").unlink(missing_ok=True)
            await door.close()
            handle_stop()


async def _ensure_local_token(home: Path, services: Services) -> str:
    """Return the token of this machine's command line: the current one if valid, so that a restart ends no session."""
    try:
        token = str(json.loads((home / "client.json").read_text())["token"])
        await services.tokens.resolve_actor(token)
    except (OSError, ValueError, KeyError, TypeError, UserError):
        return await services.tokens.create_machine_token()
    return token


def _run_in_background(stack: AsyncExitStack, *work: BackgroundWork) -> None:
    for each in work:
        name = getattr(each, "__qualname__", repr(each))
        stack.push_async_callback(_cancel_task, asyncio.create_task(run_supervised(name, each)))


async def _cancel_task(task: asyncio.Task[None]) -> None:
    """Cancel a task; its failure was already logged."""
    task.cancel()
    await asyncio.wait([task])


def _build_collector(engine: EngineSet, settings: Settings, home: Path) -> ArtifactCollector:
    from holdfast.controller.artifacts import ArtifactCollector, ArtifactLimits

    files = settings.files
    keep = timedelta(days=files.artifact_days) if files.artifact_days else None
    limits = ArtifactLimits(files=files.artifact_files, bytes=files.artifact_bytes, keep=keep)
    return ArtifactCollector(
        engine, SharedFolders.from_setting(files.folder, home), limits, marks=settings.disk.to_thresholds()
    )


def _build_sampler(engine: EngineSet, services: Services) -> Sampler | None:
    """Build the sampler; None if metrics are disabled or not supported."""
    from holdfast.controller.sampling import Sampler

    if services.metrics.enabled:
        return Sampler(engine, services.metrics.database, looked=services.server_metrics.record_sampling)
    return None


def _build_notification_work(store: Store, services: Services, controller: Controller) -> list[BackgroundWork]:
    """Build the work that creates and sends notifications, if they are enabled."""
    from holdfast.controller.delivery import DeliveryRunner, RetryPolicy
    from holdfast.controller.notification_watcher import NotificationRetention, NotificationWatcher
    from holdfast.store.notifications.event_scan import stop_event_scan

    chosen = services.settings.notifications
    if not chosen.enabled:
        return [lambda: store.write(stop_event_scan)]
    retry_policy = RetryPolicy(
        first_wait=timedelta(seconds=chosen.first_wait), give_up=timedelta(hours=chosen.give_up_hours)
    )
    delivery = DeliveryRunner(store, services.notifications.sender, retry_policy)
    noticing = NotificationWatcher(services.notifications.creator, delivery.wake)
    controller.add_change_listener(noticing.handle_job_change)
    services.schedules.due_runs.on_missed_run = noticing.wake
    return [noticing.run, delivery.run, NotificationRetention(services.notifications).run]


def _build_hold_limits(settings: Settings) -> HoldLimits:
    from holdfast.controller.holds import HoldLimits

    hold = settings.hold
    return HoldLimits(
        enabled=hold.enabled,
        duration=timedelta(seconds=hold.duration),
        longest=timedelta(seconds=hold.longest),
        per_user=hold.per_user,
        total=hold.total,
    )


def _build_listeners(home: Path, settings: Settings) -> Listeners:
    server, ssh = settings.server, settings.ssh
    wanted = [ServiceAddress("http", server.host, server.port)]
    if ssh.enabled:
        wanted.append(ServiceAddress("ssh", ssh.host, ssh.port))
    return Listeners(home, wanted, lambda pid: describe_task_of_process(home, pid))


def _format_url(host: str, port: int) -> str:
    shown = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def _build_files_disk_work(monitor: FilesDiskMonitor, home: Path, services: Services) -> list[BackgroundWork]:
    """Monitor the disk for shared files, if it is not the state folder's."""
    try:
        same = services.shared.root.stat().st_dev == home.stat().st_dev
    except OSError:
        same = False
    return [] if same else [monitor.run]


def _convert_days(count: float) -> timedelta | None:
    return timedelta(days=count) if count else None


def _convert_seconds(value: float) -> timedelta | None:
    return timedelta(seconds=value) if value else None
