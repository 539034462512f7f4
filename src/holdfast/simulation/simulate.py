"""The whole of a simulation: read the job, look into its images, run it, and say what would break."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import itertools
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from holdfast.bootstrap import platform_of
from holdfast.core.attempt import JobSnapshot, Seen, TaskAttempt
from holdfast.core.job import Job, Role
from holdfast.core.plan import amount_of, fresh_tasks, waiting_of
from holdfast.core.scheduling.placement import Assignment, Node, Placed
from holdfast.engines.base import Launch
from holdfast.launching import LaunchContext, Launcher, Platform
from holdfast.launching.context import plugin_calls
from holdfast.settings import Settings

from .containers import ContainerStage
from .cutting import chosen_roles, cut
from .heard import Mask
from .homes import SimulationHome, left_homes, new_home
from .names import check_templates, check_variables, texts_of, variables_of
from .needs import find_needs
from .playing import Event, Interrupted, Play, Played, ask
from .probe import Answer, probe_launch, read_answer, tell_answer
from .report import About, Ending, Remarks, Report, TaskRun
from .sandbox import SandboxStage
from .server_view import ServerView, as_server_has_it, tell
from .stage import Stage
from .stand_ins import StandIns, provide_stand_ins, surround
from .untried import find_untried
from .verdict import Missing, conclude, diagnosis_of, masked, not_run_task, tasks_of

SANDBOX = "sandbox"
_PROBE_TIMEOUT = 60.0  # seconds
_FIRST_PORT = 15000  # of those that tasks are only told about


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    engine: str = SANDBOX  # or docker, podman
    roles: tuple[str, ...] = ()  # empty: all
    instances: int | None = 1  # at most so many of each role; None: all
    timeout: float = 120.0  # seconds


Say = Callable[[str, str], None]  # the task and a line of its output


def simulate(
    job: Job, options: Options, *, state: Path, settings: Settings, view: ServerView, remarks: Remarks, say: Say
) -> Report:
    """Blocks until it is over. SIGINT, SIGTERM and SIGHUP stop it and leave nothing behind."""
    return asyncio.run(_simulate(job, options, state, settings, view, remarks, say))


async def _simulate(
    job: Job, options: Options, state: Path, settings: Settings, view: ServerView, remarks: Remarks, say: Say
) -> Report:
    events: asyncio.Queue[Event] = asyncio.Queue()
    chosen = chosen_roles(job, options.roles)
    with _signals(events), new_home(state) as home:
        await _clean_up(state, settings, remarks)
        stage = make_stage(options.engine, home, state, settings)
        simulation = _Simulation(job, chosen, options, stage, events, home.path, view, remarks, say)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(stage.close)
            await stage.open(events.put_nowait)
            return await simulation.run(platform_of(settings))


def make_stage(engine: str, home: SimulationHome, state: Path, settings: Settings) -> Stage:
    home.remember(engine)
    if engine == SANDBOX:
        return SandboxStage(home.path, state, settings)
    return ContainerStage(engine, home.path, settings)


async def _clean_up(state: Path, settings: Settings, remarks: Remarks) -> None:
    """After simulations that were killed."""
    for home in left_homes(state):
        stage = make_stage(home.stage or SANDBOX, home, state, settings)
        try:
            await stage.open(lambda observation: None)
            await stage.close()
            home.remove()
        except Exception as error:  # it is tried again the next time
            text = f"What a killed simulation left in {home.path} could not be removed: {error}"
            remarks.warn(About.ENGINE, text)


@contextlib.contextmanager
def _signals(events: asyncio.Queue[Event]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, events.put_nowait, Ending.INTERRUPTED)
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
        options: Options,
        stage: Stage,
        events: asyncio.Queue[Event],
        home: Path,
        view: ServerView,
        remarks: Remarks,
        say: Say,
    ) -> None:
        self.job = as_server_has_it(job, view)
        self.chosen = chosen
        self.options = options
        self.stage = stage
        self.events = events
        self.view = view
        self.remarks = remarks
        self.say = say
        self.mask = Mask(job.secrets)
        self.furniture = StandIns(home / "stand-ins")
        self.id = f"simulation-{home.name}"
        self.user = view.user or getpass.getuser()

    async def run(self, platform: Platform) -> Report:
        tell(self.view, self.remarks)
        for note in self.stage.notes():
            self.remarks.note(About.ENGINE, note)
        check_templates(self.job, self.chosen, self.remarks)
        node = self.stage.node()
        job = await asyncio.to_thread(provide_stand_ins, self.job, self.furniture, self.remarks, self.chosen)
        small = cut(job, self.options.instances, node, self.remarks, self.chosen)
        surroundings = await asyncio.to_thread(self._surround, small, node, platform)
        whole = self._whole(job, node, surroundings)
        launches = self._launches(self._placed(small, node), surroundings, whole)
        try:
            await self._look_into_images(launches, whole)
        except Interrupted:
            return self._report(Ending.INTERRUPTED)
        self._name_untried(job)
        left_out = await self._left_out(small)
        not_run = tuple(
            not_run_task(launch.task, why) for launch in launches.values() if (why := left_out.get(_role_of(launch)))
        )
        own = replace(small, roles=tuple(role for role in small.roles if role.name in {*self.chosen} - {*left_out}))
        if not own.roles:
            return self._report(Ending.NOT_RUN, not_run)
        played = await self._play(own, node, launches)
        conclude(played, launches, Missing(self.job, small, self.furniture.unknown), self.remarks)
        return self._report(played.ending, (*tasks_of(played), *not_run), played)

    def _surround(self, job: Job, node: Node, platform: Platform) -> LaunchContext:
        return surround(
            job,
            node,
            isolated=self.stage.isolated,
            furniture=self.furniture,
            platform=platform,
            remarks=self.remarks,
        )

    # -- who runs where

    def _snapshot(self, job: Job, tasks: tuple[TaskAttempt, ...] = ()) -> JobSnapshot:
        return JobSnapshot(id=self.id, job=job, user=self.user, submitted_at=datetime.now(UTC), tasks=tasks)

    def _placed(self, job: Job, node: Node) -> JobSnapshot:
        """All roles have their places, also those that are not run: others are told of them."""
        tasks = fresh_tasks(job)
        ports = iter(free_ports(sum(_port_count(job.role(task.role)) for task in tasks)))
        return self._snapshot(job, tuple(_place(task, job.role(task.role), node, ports) for task in tasks))

    def _launches(
        self, snapshot: JobSnapshot, surroundings: LaunchContext, whole: Mapping[str, Launch]
    ) -> dict[str, Launch]:
        """They are told of tasks that are not run here, as in the real run: a name for nobody is better than none."""
        launcher = Launcher(snapshot)
        ours = [task for task in snapshot.tasks if task.role in self.chosen]
        made = {snapshot.attempt_id(task): launcher.launch(task, surroundings) for task in ours}
        return {id: replace(each, env={**whole[_role_of(each)].env, **each.env}) for id, each in made.items()}

    def _whole(self, job: Job, node: Node, surroundings: LaunchContext) -> dict[str, Launch]:
        """Role -> its first task in the real run, with all instances of all roles."""
        numbers = itertools.count(_FIRST_PORT)
        tasks = tuple(_place(task, job.role(task.role), node, numbers) for task in fresh_tasks(job))
        launcher = Launcher(self._snapshot(job, tasks))
        first = {task.role: task for task in tasks if task.index == 0 and task.role in self.chosen}
        return {role: launcher.launch(task, surroundings) for role, task in first.items()}

    # -- before it runs

    async def _left_out(self, job: Job) -> dict[str, str]:
        """Role -> why it cannot be run here."""
        found: dict[str, str] = {}
        for image in dict.fromkeys(role.engine_image for role in job.roles if role.name in self.chosen):
            missing = await self.stage.missing_image(image)
            if missing:
                text, hint = missing
                roles = [role.name for role in job.roles if role.name in self.chosen and role.engine_image == image]
                found |= dict.fromkeys(roles, text)
                self.remarks.problem(About.IMAGE, f"{text}: {_did_not_run(roles)}", hint)
        return found

    def _name_untried(self, job: Job) -> None:
        """`job`: as it is furnished."""
        for role in (role for role in job.roles if role.name in self.chosen):
            real = [mount.target for mount in role.mounts if self.furniture.is_real(mount)]
            for path, folder in find_untried("\n".join(role.commands), self.furniture.targets, real):
                text = f"{self.mask(path)} could not be tried: it is not here, {folder} is an empty folder"
                self.remarks.warn(About.PATH, text, "See that it is there in the real run.", role.name)

    async def _look_into_images(self, launches: Mapping[str, Launch], whole: Mapping[str, Launch]) -> None:
        """One task of each role tells for all of them."""
        seen: set[str] = set()
        for launch in launches.values():
            role = _role_of(launch)
            if role not in seen:
                seen.add(role)
                await self._look_into(launch, self.job.role(role), variables_of(whole[role]))

    async def _look_into(self, launch: Launch, role: Role, real: set[str]) -> None:
        answer = Answer()
        if await self.stage.missing_image(launch.image) is None:
            answer = await self._probe(launch, role)
        here = {*answer.variables, *variables_of(launch)}
        check_variables(role.name, texts_of(self.job, role), real, here, self.remarks)

    async def _probe(self, launch: Launch, role: Role) -> Answer:
        needs = find_needs(launch.script, brought=bool(plugin_calls(self.job)))
        if role.resources.gpu:
            needs.programs.pop("nvidia-smi", None)  # comes with the GPUs
        for wanted in (needs.files, needs.folders):
            for path in [path for path in wanted if self.furniture.is_below(path)]:
                del wanted[path]
        seen, output = await ask(self.stage, self.events, probe_launch(launch, needs), _PROBE_TIMEOUT)
        answer = read_answer(output)
        if not answer.whole and seen.seen is not Seen.REFUSED:
            self.remarks.warn(About.IMAGE, f"The image {launch.image} could not be looked into", role=role.name)
        tell_answer(answer, launch.image, role.name, self.mask, self.remarks)
        return answer

    # -- running

    async def _play(self, own: Job, node: Node, launches: Mapping[str, Launch]) -> Played:
        snapshot = self._snapshot(own)
        waiting = waiting_of(snapshot, snapshot.submitted_at)[0]
        assignments = tuple(
            Assignment(
                attempt_id=snapshot.attempt_id(task),
                node=node.name,
                amount=amount_of(own.role(task.role)),
                user=self.user,
                group=own.group,
                gpus=launches[snapshot.attempt_id(task)].gpus,
                ports=launches[snapshot.attempt_id(task)].ports,
            )
            for task in fresh_tasks(own)
        )
        play = Play(self.stage, self.events, launches, self.mask, self.say)
        return await play.run(snapshot, Placed(waiting, assignments), self.options.timeout)

    def _report(self, ending: Ending, tasks: tuple[TaskRun, ...] = (), played: Played | None = None) -> Report:
        return Report(
            job=self.job.name,
            dialect=str(self.job.dialect),
            engine=self.stage.name,
            ending=ending,
            seconds=played.seconds if played else 0.0,
            tasks=tasks,
            remarks=tuple(masked(remark, self.mask) for remark in self.remarks.found),
            diagnosis=diagnosis_of(played, self.mask) if played else None,
            server=self.view.url,
        )


def _role_of(launch: Launch) -> str:
    return launch.task.rpartition("-")[0]


def _did_not_run(roles: list[str]) -> str:
    return f"role {roles[0]} did not run" if len(roles) == 1 else f"roles {', '.join(roles)} did not run"


def _port_count(role: Role) -> int:
    return sum(role.ports.values())


def _place(task: TaskAttempt, role: Role, node: Node, ports: Iterator[int]) -> TaskAttempt:
    return replace(
        task,
        node=node.name,
        gpus=node.gpus[: role.resources.gpu],
        ports={label: tuple(itertools.islice(ports, count)) for label, count in role.ports.items()},
    )


def free_ports(count: int) -> list[int]:
    """That nobody listens on, outside of what a server on this machine gives out."""
    with contextlib.ExitStack() as opened:
        probes = [opened.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
