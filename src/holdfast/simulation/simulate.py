"""Run a simulation: load the job, check its images, run it, and report what would fail."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import itertools
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from holdfast.core.attempt import JobSnapshot, ObservedState, TaskAttempt
from holdfast.core.errors import UserError
from holdfast.core.job import HOST_IMAGE, Job, Role
from holdfast.core.planning.task_requests import build_queue_entries, build_task_attempts, get_role_limits
from holdfast.core.scheduling.placement import Assignment, Node, Placement
from holdfast.engines.base import LaunchSpec
from holdfast.launching import AttemptLaunchBuilder, LaunchContext, PrimeHubSettings
from holdfast.launching.context import list_plugin_calls
from holdfast.settings import Settings
from holdfast.start_options import build_platform_options

from .backend import Backend
from .engine_choice import SANDBOX, EngineChoice, choose_engine, find_fallback
from .engine_setups import ContainerSetup, SandboxSetup
from .homes import STAND_INS_FOLDER, SimulationHome, create_home, iter_leftover_homes
from .image_requirements import find_requirements
from .probe import ProbeResult, build_probe_launch, parse_probe_output, report_probe_result
from .reduction import reduce_job, select_role_names
from .report import RemarkLevel, Remarks, RemarkTopic, SimulationEnding, SimulationReport, TaskResult
from .server_view import ServerView, apply_server_view, report_server_view
from .stand_ins import StandIns, build_launch_context, provide_stand_ins
from .task_output import SecretMask
from .task_runner import SimulationEvent, SimulationInterrupted, SimulationResult, TaskRunner, run_probe_task
from .unchecked_paths import iter_unchecked_paths
from .undefined_names import (
    get_variable_names,
    iter_role_texts,
    report_undefined_references,
    report_undefined_variables,
)
from .verdict import (
    MissingResources,
    build_diagnosis,
    build_skipped_task_result,
    list_task_results,
    mask_remark,
    report_results,
)

_PROBE_TIMEOUT = 60.0  # seconds
_FIRST_PORT = 15000  # of tasks that are not run


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    engine: str | None = None  # sandbox, docker or podman; None: the one of the settings
    roles: tuple[str, ...] = ()  # empty: all
    instances: int | None = 1  # maximum for each role; None: all
    timeout: float = 120.0  # seconds
    write_mounts: bool = False  # tasks may change the real folders of their writable mounts


LinePrinter = Callable[[str, str], None]  # the task and a line of its output


def run_simulation(
    job: Job,
    options: SimulationOptions,
    *,
    state: Path,
    settings: Settings,
    view: ServerView,
    remarks: Remarks,
    say: LinePrinter,
) -> SimulationReport:
    """Run the simulation; blocking. SIGINT, SIGTERM and SIGHUP stop it and clean up."""
    return asyncio.run(_run_simulation(job, options, state, settings, view, remarks, say))


async def _run_simulation(
    job: Job,
    options: SimulationOptions,
    state: Path,
    settings: Settings,
    view: ServerView,
    remarks: Remarks,
    say: LinePrinter,
) -> SimulationReport:
    events: asyncio.Queue[SimulationEvent] = asyncio.Queue()
    chosen = select_role_names(job, options.roles)
    with _handle_signals(events), create_home(state) as home:
        await _remove_leftover_homes(state, settings, remarks)
        engine = choose_engine(options.engine, settings, os.environ)
        async with AsyncExitStack() as stack:
            backend = await _open_backend(stack, engine, home, state, settings, events)
            other = _find_other_engine(backend, apply_server_view(job, view), chosen, options, settings)
            if other is not None:
                text = f"The sandbox does not work for this user: tasks run in {other.name} containers"
                remarks.add_note(RemarkTopic.ENGINE, text)
                await stack.aclose()
                backend = await _open_backend(stack, other, home, state, settings, events)
            simulation = _Simulation(job, chosen, options, backend, events, home.path, view, remarks, say)
            return await simulation.run(build_platform_options(settings))


async def _open_backend(
    stack: AsyncExitStack,
    engine: EngineChoice,
    home: SimulationHome,
    state: Path,
    settings: Settings,
    events: asyncio.Queue[SimulationEvent],
) -> Backend:
    """Open a backend, which the stack closes."""
    backend = create_backend(engine, home, state, settings)
    stack.push_async_callback(backend.close)
    await backend.open(events.put_nowait)
    return backend


def create_backend(engine: EngineChoice, home: SimulationHome, state: Path, settings: Settings) -> Backend:
    home.save_engine(engine)
    if engine.name == SANDBOX:
        return Backend(SandboxSetup(home.path, state, settings), home.path)
    return Backend(ContainerSetup(engine, home.path, settings), home.path)


def _find_other_engine(
    backend: Backend, job: Job, chosen: tuple[str, ...], options: SimulationOptions, settings: Settings
) -> EngineChoice | None:
    """Return the engine to use if nothing was chosen and the sandbox does not work. The image `host` needs it."""
    works = backend.can_start_tasks and (backend.isolated or settings.sandbox.isolation == "off")
    if options.engine is not None or backend.name != SANDBOX or works or settings.images.unknown == "host":
        return None
    if any(role.engine_image == HOST_IMAGE for role in job.roles if role.name in chosen):
        return None
    return find_fallback(settings, os.environ)


async def _remove_leftover_homes(state: Path, settings: Settings, remarks: Remarks) -> None:
    """Clean up after killed simulations."""
    for home in iter_leftover_homes(state):
        try:
            backend = create_backend(home.engine, home, state, settings)
            try:
                await backend.open(lambda observation: None)
            finally:
                await backend.close()
            if not home.remove():
                raise UserError("some files belong to another user. Remove them as root")
        except Exception as error:  # the next simulation tries again
            text = f"Cannot remove the files of a killed simulation in {home.path}: {error}"
            remarks.add_warning(RemarkTopic.ENGINE, text)


@contextlib.contextmanager
def _handle_signals(events: asyncio.Queue[SimulationEvent]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, events.put_nowait, SimulationEnding.INTERRUPTED)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class _Simulation:
    def __init__(
        self,
        job: Job,
        chosen: tuple[str, ...],
        options: SimulationOptions,
        backend: Backend,
        events: asyncio.Queue[SimulationEvent],
        home: Path,
        view: ServerView,
        remarks: Remarks,
        say: LinePrinter,
    ) -> None:
        self.job = apply_server_view(job, view)
        self.chosen = chosen
        self.options = options
        self.backend = backend
        self.events = events
        self.view = view
        self.remarks = remarks
        self.print_line = say
        self.mask = SecretMask(job.secrets)
        self.stand_ins = StandIns(home / STAND_INS_FOLDER)
        self.id = f"simulation-{home.name}"
        self.user = view.user or _get_user_name()

    async def run(self, platform: PrimeHubSettings) -> SimulationReport:
        report_server_view(self.view, self.remarks)
        for note in self.backend.list_notes():
            self.remarks.add_note(RemarkTopic.ENGINE, note)
        report_undefined_references(self.job, self.chosen, self.remarks)
        node = self.backend.get_node()
        job = await asyncio.to_thread(self._provide_stand_ins)
        small = reduce_job(job, self.options.instances, node, self.remarks, self.chosen)
        surroundings = await asyncio.to_thread(self._build_context, small, node, platform)
        whole = self._build_full_launches(job, node, surroundings)
        launches = self._build_launches(self._place_tasks(small, node), surroundings, whole)
        try:
            await self._probe_images(launches, whole)
        except SimulationInterrupted:
            return self._build_report(SimulationEnding.INTERRUPTED)
        self._report_unchecked_paths(job)
        left_out = await self._find_skipped_roles(small)
        not_run = tuple(
            build_skipped_task_result(launch.task, why)
            for launch in launches.values()
            if (why := left_out.get(_get_role_name(launch)))
        )
        own = replace(small, roles=tuple(role for role in small.roles if role.name in {*self.chosen} - {*left_out}))
        if not own.roles:
            return self._build_report(SimulationEnding.NOT_RUN, not_run)
        result = await self._run_tasks(own, node, launches)
        report_results(result, launches, self._list_missing_resources(small), self.remarks)
        return self._build_report(result.ending, (*list_task_results(result), *not_run), result)

    def _provide_stand_ins(self) -> Job:
        """Replace missing mounts, and print which mounts are read-only or can be changed, before anything runs."""
        write_mounts = self.options.write_mounts or not self.backend.isolated  # only a sandbox can protect them
        job = provide_stand_ins(self.job, self.stand_ins, self.remarks, self.chosen, write_mounts=write_mounts)
        for remark in self.remarks.found:
            if remark.about is RemarkTopic.MOUNT and remark.level is RemarkLevel.NOTE:
                self.print_line("simulation", self.mask(f"{remark.text}. {remark.hint}".strip()))
        return job

    def _list_missing_resources(self, small: Job) -> MissingResources:
        return MissingResources(self.job, small, self.stand_ins.unknown, self.stand_ins.write_protected)

    def _build_context(self, job: Job, node: Node, platform: PrimeHubSettings) -> LaunchContext:
        return build_launch_context(
            job, node, isolated=self.backend.isolated, stand_ins=self.stand_ins, platform=platform, remarks=self.remarks
        )

    # -- placement

    def _build_snapshot(self, job: Job, tasks: tuple[TaskAttempt, ...] = ()) -> JobSnapshot:
        return JobSnapshot(id=self.id, job=job, user=self.user, submitted_at=datetime.now(UTC), tasks=tasks)

    def _place_tasks(self, job: Job, node: Node) -> JobSnapshot:
        """Place all roles, including those that are not run: other tasks get their addresses."""
        tasks = build_task_attempts(job)
        ports = iter(find_free_ports(sum(sum(job.get_role(task.role).ports.values()) for task in tasks)))
        return self._build_snapshot(
            job, tuple(_assign_node(task, job.get_role(task.role), node, ports) for task in tasks)
        )

    def _build_launches(
        self, snapshot: JobSnapshot, surroundings: LaunchContext, whole: Mapping[str, LaunchSpec]
    ) -> dict[str, LaunchSpec]:
        """Build the launches. They contain the names of tasks that are not run, as in the real run."""
        launcher = AttemptLaunchBuilder(snapshot)
        ours = [task for task in snapshot.tasks if task.role in self.chosen]
        made = {snapshot.build_attempt_id(task): launcher.build_launch(task, surroundings) for task in ours}
        return {id: replace(each, env={**whole[_get_role_name(each)].env, **each.env}) for id, each in made.items()}

    def _build_full_launches(self, job: Job, node: Node, surroundings: LaunchContext) -> dict[str, LaunchSpec]:
        """Build the launch of each role's first task in the real run, with all instances of all roles."""
        numbers = itertools.count(_FIRST_PORT)
        tasks = tuple(_assign_node(task, job.get_role(task.role), node, numbers) for task in build_task_attempts(job))
        launcher = AttemptLaunchBuilder(self._build_snapshot(job, tasks))
        first = {task.role: task for task in tasks if task.index == 0 and task.role in self.chosen}
        return {role: launcher.build_launch(task, surroundings) for role, task in first.items()}

    # -- before it runs

    async def _find_skipped_roles(self, job: Job) -> dict[str, str]:
        """Return the roles that cannot run, each with the reason."""
        found: dict[str, str] = {}
        for image in dict.fromkeys(role.engine_image for role in job.roles if role.name in self.chosen):
            missing = await self.backend.find_image_problem(image)
            if missing:
                text, hint = missing
                roles = [role.name for role in job.roles if role.name in self.chosen and role.engine_image == image]
                found |= dict.fromkeys(roles, text)
                self.remarks.add_problem(RemarkTopic.IMAGE, f"{text}: {_describe_skipped_roles(roles)}", hint)
        return found

    def _report_unchecked_paths(self, job: Job) -> None:
        """`job`: with its stand-ins."""
        for role in (role for role in job.roles if role.name in self.chosen):
            real = [mount.target for mount in role.mounts if self.stand_ins.is_real(mount)]
            for path, folder in iter_unchecked_paths("\n".join(role.commands), self.stand_ins.targets, real):
                text = f"{self.mask(path)} was not checked: {folder} is an empty folder in the simulation"
                self.remarks.add_warning(RemarkTopic.PATH, text, "Check that it exists in the real run.", role.name)

    async def _probe_images(self, launches: Mapping[str, LaunchSpec], whole: Mapping[str, LaunchSpec]) -> None:
        """Check the image of one task of each role."""
        seen: set[str] = set()
        for launch in launches.values():
            role = _get_role_name(launch)
            if role not in seen:
                seen.add(role)
                await self._check_launch_variables(launch, self.job.get_role(role), get_variable_names(whole[role]))

    async def _check_launch_variables(self, launch: LaunchSpec, role: Role, real: set[str]) -> None:
        answer = ProbeResult()
        if await self.backend.find_image_problem(launch.image) is None:
            answer = await self._probe_image(launch, role)
        here = {*answer.variables, *get_variable_names(launch)}
        report_undefined_variables(role.name, iter_role_texts(self.job, role), real, here, self.remarks)

    async def _probe_image(self, launch: LaunchSpec, role: Role) -> ProbeResult:
        needs = find_requirements(launch.script, brought=bool(list_plugin_calls(self.job)))
        if role.resources.gpu:
            needs.programs.pop("nvidia-smi", None)  # part of the GPU driver
        for wanted in (needs.files, needs.folders):
            for path in [path for path in wanted if self.stand_ins.contains(path)]:
                del wanted[path]
        seen, output = await run_probe_task(
            self.backend, self.events, build_probe_launch(launch, needs), _PROBE_TIMEOUT
        )
        answer = parse_probe_output(output)
        if not answer.complete and seen.seen is not ObservedState.REFUSED:
            self.remarks.add_warning(
                RemarkTopic.IMAGE, f"The image {launch.image} could not be checked", role=role.name
            )
        report_probe_result(answer, launch.image, role.name, self.mask, self.remarks)
        return answer

    # -- running

    async def _run_tasks(self, own: Job, node: Node, launches: Mapping[str, LaunchSpec]) -> SimulationResult:
        snapshot = self._build_snapshot(own)
        waiting = build_queue_entries(snapshot, snapshot.submitted_at)[0]
        assignments = tuple(
            Assignment(
                attempt_id=snapshot.build_attempt_id(task),
                node=node.name,
                amount=get_role_limits(own.get_role(task.role)),
                user=self.user,
                group=own.group,
                gpus=launches[snapshot.build_attempt_id(task)].gpus,
                ports=launches[snapshot.build_attempt_id(task)].ports,
            )
            for task in build_task_attempts(own)
        )
        play = TaskRunner(self.backend, self.events, launches, self.mask, self.print_line)
        return await play.run(snapshot, Placement(waiting, assignments), self.options.timeout)

    def _build_report(
        self, ending: SimulationEnding, tasks: tuple[TaskResult, ...] = (), result: SimulationResult | None = None
    ) -> SimulationReport:
        return SimulationReport(
            job=self.job.name,
            dialect=str(self.job.dialect),
            engine=self.backend.name,
            ending=ending,
            seconds=result.seconds if result else 0.0,
            tasks=tasks,
            remarks=tuple(mask_remark(remark, self.mask) for remark in self.remarks.found),
            diagnosis=build_diagnosis(result, self.mask) if result else None,
            server=self.view.url,
        )


def _get_user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # this user has no entry in the passwd database
        return str(os.getuid())


def _get_role_name(launch: LaunchSpec) -> str:
    return launch.task.rpartition("-")[0]


def _describe_skipped_roles(roles: list[str]) -> str:
    return f"role {roles[0]} did not run" if len(roles) == 1 else f"roles {', '.join(roles)} did not run"


def _assign_node(task: TaskAttempt, role: Role, node: Node, ports: Iterator[int]) -> TaskAttempt:
    return replace(
        task,
        node=node.name,
        gpus=node.gpus[: role.resources.gpu],
        ports={label: tuple(itertools.islice(ports, count)) for label, count in role.ports.items()},
    )


def find_free_ports(count: int) -> list[int]:
    """Return free ports outside the range that a server on this machine assigns."""
    with contextlib.ExitStack() as opened:
        probes = [opened.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
