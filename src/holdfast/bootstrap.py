"""Wires the parts into a server; the only file that knows them all."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import importlib.util
import json
import logging
import os
import resource
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from holdfast.core.conditions import Condition
from holdfast.core.errors import UserError
from holdfast.core.exits.specs import load_specs
from holdfast.disk_space import is_disk_full
from holdfast.engines.base import EngineHealth, SupportsMetrics
from holdfast.engines.embedded.engine import EmbeddedEngine
from holdfast.engines.embedded.lifecycle.ownership import describe_task_of
from holdfast.engines.embedded.options import EmbeddedOptions
from holdfast.full_disk import disk_reserve, lacks_room, open_with_room, task_limits
from holdfast.listening.listeners import Listeners, Wanted
from holdfast.log_lines import set_up_log
from holdfast.memory_allocator import limit_allocator
from holdfast.settings import Settings
from holdfast.shared_folders import SharedFolders
from holdfast.start_priority import restore_priority
from holdfast.supervision import supervise
from holdfast.timezones import machine_timezone

if TYPE_CHECKING:
    from holdfast.controller.artifacts import Collecting
    from holdfast.controller.disk_monitor import FilesDiskMonitor
    from holdfast.controller.holds import HoldLimits
    from holdfast.controller.loop import Controller
    from holdfast.controller.sampling import Sampler
    from holdfast.launching import Platform
    from holdfast.listening.binding import BoundService
    from holdfast.services import Services
    from holdfast.store.database import Store

log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]

MIN_OPEN_FILES = 256
LOCK_TRIES = 20
LOCK_INTERVAL = 0.02  # seconds
NOTES_TIMEOUT = 2.0  # seconds that a start waits until other programs can find the server
NOTES_INTERVAL = 0.2  # seconds between tries on a full disk
LAST_REQUESTS = 3  # seconds that open requests get when the server stops


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    url: str
    pid: int
    home: Path
    started_at: datetime
    first_password: str | None = None  # of user admin; only right after the very first start
    health: EngineHealth | None = None
    conditions: tuple[Condition, ...] = ()


def serve(home: Path, settings: Settings, *, on_ready: Callable[[ServerInfo], None] | None = None) -> None:
    """Run the server until SIGINT or SIGTERM. Tasks run on when it ends, and are found again at the next start."""
    gc.disable()  # until it serves: loading makes many objects, and all of them stay
    limit_allocator()
    import uvloop

    make_home(home)
    _check_open_files()
    with _only_server(home), _open_listeners(home, settings) as listeners:
        http = listeners.bind_http(settings.server.host, settings.server.port)
        ssh = listeners.bind_ssh(settings.ssh.host, settings.ssh.port) if settings.ssh.enabled else None
        uvloop.run(_serve(home, settings, listeners, http, ssh, on_ready))


def _check_open_files() -> None:
    """With fewer, starting a task fails in ways that look as if the machine could not isolate it."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 <= most < MIN_OPEN_FILES:
        raise UserError(
            f"The server may open {most} files; it needs {MIN_OPEN_FILES} or more",
            hint=f"Raise the limit before you start it: ulimit -n {MIN_OPEN_FILES * 4}",
        )


def running(home: Path) -> ServerInfo | None:
    """The server that runs on this state folder, if one does."""
    try:
        with open(home / "server.lock") as lock:
            if _try_lock(lock):
                return None
        data = json.loads((home / "server.json").read_text())
        started_at = datetime.fromisoformat(data["started_at"])
        return ServerInfo(url=data["url"], pid=int(data["pid"]), home=home, started_at=started_at)
    except (OSError, ValueError, KeyError):
        return None  # it is just starting


def probe(home: Path, settings: Settings) -> EngineHealth:
    """What the embedded engine could promise here, without starting a server."""

    async def look() -> EngineHealth:
        engine = EmbeddedEngine(home, engine_options(home, settings))
        await engine.open(lambda observation: None)
        try:
            return engine.health()
        finally:
            await engine.close()

    make_home(home)
    return asyncio.run(look())


def make_home(home: Path) -> None:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o700)
    except OSError as error:
        raise UserError(
            f"Cannot use {home} as the state folder: {error.strerror}",
            hint="Choose another one with HOLDFAST_HOME or --home.",
        ) from None


def make_shared(home: Path, settings: Settings) -> None:
    """Before the engine looks what it must hide: a folder that came later would be seen by every job."""
    folders = SharedFolders.at(settings.files.folder, home)
    try:
        folders.make(folders.root)
    except OSError as error:
        raise UserError(
            f"Cannot use {folders.root} for groups' files: {error.strerror}",
            field="files.folder",
            hint="Choose another folder with the setting files.folder.",
        ) from None


@asynccontextmanager
async def parts(
    home: Path, settings: Settings, own_ports: frozenset[int] = frozenset()
) -> AsyncIterator[tuple[Services, str | None]]:
    """Store, engine, controller and services, started here and stopped in the right order.

    `own_ports`: those that the server listens on. Yields the services and, at the very first start, the admin's
    password.
    """
    from holdfast.controller.disk_guard import DiskGuard, MinFree
    from holdfast.controller.disk_monitor import DiskMonitor, FilesDiskMonitor
    from holdfast.controller.gateway import GatewayOf
    from holdfast.controller.live import Limits
    from holdfast.controller.loop import Controller
    from holdfast.controller.retention import ArtifactRetention, AuditRetention, MetricsRetention, Retention
    from holdfast.controller.schedule_runner import ScheduleRunner
    from holdfast.services import build_services
    from holdfast.store import people
    from holdfast.store.database import Store
    from holdfast.store.vault import Vault

    async with AsyncExitStack() as stack:
        marks = settings.disk.marks()
        reserve = disk_reserve(home, marks)
        vault = Vault.open(home / "secret.key")
        full_ago = 0.0 if lacks_room(home) else reserve.seconds_since_full()
        url = settings.store.url or f"sqlite:///{home / 'holdfast.db'}"
        store = open_with_room(lambda: Store.open(url, vault=vault), home, reserve)
        stack.push_async_callback(store.close)
        store.lock_exclusive()
        make_shared(home, settings)
        stack.enter_context(_sole_user(SharedFolders.at(settings.files.folder, home).root))
        several_users = len(await store.read(people.list_users)) > 1
        engine = EmbeddedEngine(home, engine_options(home, settings, own_ports, several_users=several_users))
        if full_ago is not None:
            engine.note_disk_full(full_ago)
        limits = Limits(
            time_limit=_seconds(settings.jobs.time_limit),
            openpai_time_limit=_seconds(settings.openpai.time_limit),
            grace=timedelta(seconds=settings.jobs.grace),
            max_grace=timedelta(seconds=settings.jobs.max_grace),
            hold=_hold_limits(settings),
        )
        controller = Controller(
            store,
            engine,
            limits,
            derive=vault.derive,
            backfill=settings.queue.backfill,
            folders=SharedFolders.at(settings.files.folder, home),
            platform=platform_of(settings),
            gateway=GatewayOf(lambda: services.ssh_gate),
            collecting=_collecting(engine, settings, home),
        )
        least = MinFree(bytes=settings.hold.min_free_bytes, percent=settings.hold.min_free_percent)
        disk_guard = DiskGuard(controller, home, least)
        disk_monitor = DiskMonitor(controller, engine, home, marks, reserve, release_held=disk_guard.guard)
        store.on_full(disk_monitor.relieve)
        services = build_services(store, engine, controller, settings, home, derive=vault.derive, own_ports=own_ports)
        stack.callback(services.metrics.files.close)  # last: tasks may end until the controller is closed
        stack.push_async_callback(controller.close)
        if _was_used(home) and not await store.read(people.list_users):
            raise UserError(
                f"The database is empty, but {home} holds tasks or logs of earlier jobs",
                hint="Give the database back (or its address, store.url); to start afresh, move the folder away.",
            )
        first_password = await services.users.ensure_first_admin()
        await services.seed()
        controller.groups_changed(await store.read(people.list_groups))
        controller.on_end(services.schedules.due.job_ended)
        controller.on_end(services.insights.job_ended)
        sampler = _sampler(engine, services)
        if sampler:
            controller.on_seen(sampler.hear)
        await controller.recover()
        retention, clockwork = (
            Retention(store, engine, _days(settings.logs.keep_days)),
            ScheduleRunner(services.schedules.due),
        )
        artifacts, audit = ArtifactRetention(services.artifact_sweep), AuditRetention(services.audit, services.tokens)
        figures = MetricsRetention(store, services.metrics.files, controller, _days(settings.metrics.keep_days))
        await disk_monitor.try_check()  # before the first task starts
        work = (
            controller.run,
            controller.attempts.run,
            disk_monitor.run,
            *_watch_files_disk(FilesDiskMonitor(controller, services.shared.root, marks), home, services),
            disk_guard.run,
            retention.run,
            artifacts.run,
            audit.run,
            figures.run,
            *([sampler.run] if sampler else []),
            clockwork.run,
            services.git_sync.run,
            services.insights.run,
            *_noticing(store, services, controller),
            services.vitals.watch_loop,
            services.files.clear_removed,
            services.datasets.clear_purged,
        )
        restore_priority()  # here: from now on tasks are started
        _run_in_background(stack, *work)
        yield services, first_password


async def _serve(
    home: Path,
    settings: Settings,
    listeners: Listeners,
    http: BoundService,
    ssh: BoundService | str | None,
    on_ready: Callable[[ServerInfo], None] | None,
) -> None:
    from holdfast.server.import_savings import leave_out_pydantic_v1, leave_out_uvicorn_cli

    leave_out_pydantic_v1()
    leave_out_uvicorn_cli()
    from holdfast.server.app import create_app
    from holdfast.server.http import run_http
    from holdfast.server.ssh.lazy_gateway import Door

    set_up_log()
    async with parts(home, settings, listeners.ports) as (services, first_password):
        info = ServerInfo(
            url=_url(settings.server.host, http.port),
            pid=os.getpid(),
            home=home,
            started_at=datetime.now(UTC),
            first_password=first_password,
            health=services.place.engine.health(),
            conditions=(await services.place.health()).conditions,
        )
        token = await _local_token(home, services)
        notes: dict[Path, dict[str, str | int]] = {
            home / "client.json": {"url": info.url, "token": token},
            home / "server.json": {"url": info.url, "pid": info.pid, "started_at": info.started_at.isoformat()},
        }
        writing = asyncio.create_task(_write_notes(notes))
        for done in (await asyncio.wait([writing], timeout=NOTES_TIMEOUT))[0]:
            done.result()

        app = create_app(services)
        app.state.late_routes.after_load = gc.freeze
        holder = listeners.supervise()
        after_start: list[asyncio.Task[Any]] = []

        def ready() -> None:
            gc.freeze()
            gc.enable()
            after_start.append(asyncio.create_task(holder.run()))
            after_start.append(asyncio.create_task(asyncio.to_thread(load_specs)))  # before the first exit needs them
            if on_ready:
                on_ready(info)

        def stop() -> None:
            for task in after_start:
                task.cancel()
            holder.release()

        door = Door(services)
        door.open(ssh)
        try:
            await run_http(app, http.listening, on_ready=ready, on_stop=stop, last_requests=LAST_REQUESTS)
        finally:
            await _end(writing)
            (home / "server.json").unlink(missing_ok=True)
            await door.close()
            stop()


def _was_used(home: Path) -> bool:
    """Something of jobs is here: starting with an empty database would end what runs and forget the rest."""
    return any(any((home / name).iterdir()) for name in ("tasks", "logs") if (home / name).is_dir())


async def _local_token(home: Path, services: Services) -> str:
    """The token of this machine's command line: the one in use while it is good, so that a restart ends no session."""
    try:
        token = str(json.loads((home / "client.json").read_text())["token"])
        await services.tokens.actor(token)
    except (OSError, ValueError, KeyError, TypeError, UserError):
        return await services.tokens.local_token()
    return token


def _run_in_background(stack: AsyncExitStack, *work: Work) -> None:
    for each in work:
        name = getattr(each, "__qualname__", repr(each))
        stack.push_async_callback(_end, asyncio.create_task(supervise(name, each)))


async def _end(task: asyncio.Task[None]) -> None:
    """One that failed has been told of, and does not make the server's own end a failure."""
    task.cancel()
    await asyncio.wait([task])


def _collecting(engine: EmbeddedEngine, settings: Settings, home: Path) -> Collecting:
    from holdfast.controller.artifacts import ArtifactLimits, Collecting

    files = settings.files
    keep = timedelta(days=files.artifact_days) if files.artifact_days else None
    limits = ArtifactLimits(files=files.artifact_files, bytes=files.artifact_bytes, keep=keep)
    return Collecting(engine, SharedFolders.at(files.folder, home), limits, marks=settings.disk.marks())


def _sampler(engine: EmbeddedEngine, services: Services) -> Sampler | None:
    """None where nothing is to be measured, or cannot be."""
    from holdfast.controller.sampling import Sampler

    if services.metrics.enabled and isinstance(engine, SupportsMetrics):
        return Sampler(engine, services.metrics.files, looked=services.vitals.looked)
    return None


def _noticing(store: Store, services: Services, controller: Controller) -> list[Work]:
    """What makes and sends notifications; where they are switched off, nothing does."""
    from holdfast.controller.delivery import Delivery, Patience
    from holdfast.controller.notification_watcher import NotificationRetention, NotificationWatcher
    from holdfast.store.notifications.occurrences import end_noticing

    chosen = services.settings.notifications
    if not chosen.enabled:
        return [lambda: store.write(end_noticing)]
    patience = Patience(first_wait=timedelta(seconds=chosen.first_wait), give_up=timedelta(hours=chosen.give_up_hours))
    delivery = Delivery(store, services.notifications.sending, patience)
    noticing = NotificationWatcher(services.notifications.making, delivery.stir)
    controller.on_change(noticing.job_changed)
    services.schedules.due.missed = noticing.stir
    return [noticing.run, delivery.run, NotificationRetention(services.notifications).run]


def _hold_limits(settings: Settings) -> HoldLimits:
    from holdfast.controller.holds import HoldLimits

    hold = settings.hold
    return HoldLimits(
        enabled=hold.enabled,
        duration=timedelta(seconds=hold.duration),
        longest=timedelta(seconds=hold.longest),
        per_user=hold.per_user,
        total=hold.total,
    )


def engine_options(
    home: Path, settings: Settings, own_ports: frozenset[int] = frozenset(), *, several_users: bool = False
) -> EmbeddedOptions:
    node, images = settings.node, settings.images
    log_bytes, task_bytes, task_files = task_limits(home, settings)
    return EmbeddedOptions(
        cpus=node.cpus,
        memory=node.memory,
        gpus=None if node.gpus is None else tuple(node.gpus),
        port_start=node.port_start,
        port_end=node.port_end,
        reserved_ports=own_ports | _fixed_ports(settings),
        pids_max=node.max_processes,
        log_cap=log_bytes,
        task_bytes=task_bytes,
        task_files=task_files,
        marks=settings.disk.marks(),
        unknown_image=images.unknown,
        isolation=settings.sandbox.isolation,
        several_users=several_users,
        host_show=tuple(images.host_show),
        library=_library(),
        hidden=(str(home), settings.files.folder) if settings.files.folder else (str(home),),
        node_name=node.name or socket.gethostname(),
        address=node.address,
        scratch_grace=settings.jobs.grace,
    )


def _fixed_ports(settings: Settings) -> frozenset[int]:
    """Also of a gateway that cannot listen just now: it gets its port at the next start."""
    ports = (settings.server.port, settings.ssh.port if settings.ssh.enabled else 0)
    return frozenset(port for port in ports if port)


def _library() -> tuple[str, ...]:
    """What every task has besides its image: the debugger, where it is installed."""
    found = importlib.util.find_spec("paipdb")
    return tuple(found.submodule_search_locations or ())[:1] if found else ()


class _only_server:
    """Holds the lock that says: this process serves this state folder."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __enter__(self) -> None:
        self.lock: IO[str] = open(self.home / "server.lock", "a")  # held for the server's life
        tries = 0
        while not _try_lock(self.lock):
            tries += 1
            if tries <= LOCK_TRIES:  # a client may just be looking whether someone serves
                time.sleep(LOCK_INTERVAL)
                continue
            known = running(self.home)
            where = f" at {known.url} (process {known.pid})" if known else ""
            raise UserError(
                f"A Holdfast server already runs on {self.home}{where}",
                hint="Use that one, stop it with `holdfast down`, or choose another folder with HOLDFAST_HOME.",
            )

    def __exit__(self, *_: object) -> None:
        self.lock.close()


@contextmanager
def _sole_user(folder: Path) -> Iterator[None]:
    """Two servers with one folder of groups' files would take each other's uploads, artifacts and checkouts for what
    nobody needs any more. A disk that cannot be written to, or has no locks, is used without."""
    try:
        lock = open(folder / "server.lock", "a")  # noqa: SIM115 - held below
    except OSError:
        yield
        return
    with lock:
        if _is_held(lock):
            raise UserError(
                f"Another Holdfast server keeps its groups' files in {folder}",
                field="files.folder",
                hint="Choose another folder with the setting files.folder, or stop that server.",
            )
        yield


def _is_held(lock: IO[str]) -> bool:
    """By another server, and not just by one that is ending."""
    for _ in range(LOCK_TRIES):
        try:
            if _try_lock(lock):
                return False
        except OSError:
            return False
        time.sleep(LOCK_INTERVAL)
    return True


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open_listeners(home: Path, settings: Settings) -> Listeners:
    server, ssh = settings.server, settings.ssh
    wanted = [Wanted("http", server.host, server.port)]
    if ssh.enabled:
        wanted.append(Wanted("ssh", ssh.host, ssh.port))
    return Listeners(home, wanted, lambda pid: describe_task_of(home, pid))


def _url(host: str, port: int) -> str:
    shown = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


async def _write_notes(notes: Mapping[Path, Mapping[str, str | int]]) -> None:
    """For other programs to find this server. On a full disk they are written once there is room."""
    for path, data in notes.items():
        text = json.dumps(data)
        while True:
            try:
                _write_private(path, text)
                break
            except OSError as error:
                if not is_disk_full(error):
                    raise
                log.warning("could not write a note, for the disk is full", extra={"event": "disk", "file": path.name})
                await asyncio.sleep(NOTES_INTERVAL)


def _write_private(path: Path, text: str) -> None:
    """Whole or not at all, readable by us alone."""
    with suppress(OSError):
        if path.read_text() == text:
            return
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _watch_files_disk(monitor: FilesDiskMonitor, home: Path, services: Services) -> list[Work]:
    """Only where groups' files lie on another disk: the state folder's is watched anyway."""
    try:
        same = services.shared.root.stat().st_dev == home.stat().st_dev
    except OSError:
        same = False
    return [] if same else [monitor.run]


def platform_of(settings: Settings) -> Platform:
    """What jobs in PrimeHub's format are told and given."""
    from holdfast.launching import ArtifactLimits, Platform

    files = settings.files
    limits = ArtifactLimits(
        bytes=files.artifact_bytes, files=files.artifact_files, keep=timedelta(days=files.artifact_days)
    )
    return Platform(
        timezone=settings.schedules.timezone or machine_timezone(),
        sudo=settings.primehub.sudo,
        scratch=settings.primehub.scratch_bytes,
        artifacts=limits if limits.bytes and limits.files else None,
    )


def _days(count: float) -> timedelta | None:
    return timedelta(days=count) if count else None


def _seconds(value: float) -> timedelta | None:
    return timedelta(seconds=value) if value else None
