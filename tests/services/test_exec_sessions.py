"""Who may enter which task, and what is said to the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.core.access import Actor, can_exec
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.states import JobState
from holdfast.engines.base import ExecCommand, ExecRefused, ExecSession, LaunchSpec, TaskProcess
from holdfast.services.errors import Unavailable
from holdfast.services.inside.service import IntraJobLimiter, TaskAccess, build_connection_limiter
from tests.fake_engine import FakeEngine

from .house import House, open_house

pytestmark = pytest.mark.anyio

TWO = "name: pair\nroles:\n  worker:\n    instances: 2\n    command: sleep 1000\n"
HERS = "name: hers\ngroup: red\ncommand: sleep 1000\n"


@dataclass
class Visit:
    """A session that lasts until it is closed."""

    closed: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> bytes:
        await self.over.wait()
        return b""

    async def read_stderr(self) -> bytes:
        return await self.read()

    async def write(self, data: bytes) -> None: ...

    def close_stdin(self) -> None: ...

    def resize(self, columns: int, rows: int) -> None: ...

    def signal(self, number: int) -> None: ...

    async def wait(self) -> int:
        await self.over.wait()
        return 0

    def close(self) -> None:
        self.closed = True
        self.over.set()


class OpenEngine(FakeEngine):
    """Plays tasks, and people inside them."""

    def __init__(self) -> None:
        super().__init__()
        self.entered: list[str] = []
        self.revived: list[str] = []

    async def open_session(self, attempt_id: str, command: ExecCommand) -> ExecSession:
        if command.script == "nonsense":
            raise ExecRefused("That cannot be run.")
        self.entered.append(attempt_id)
        return Visit()

    async def connect_port(self, attempt_id: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ExecRefused(f"Nothing listens on port {port}.")

    async def revive_task(self, launch: LaunchSpec) -> None:
        self.revived.append(launch.attempt_id)

    async def list_processes(self, attempt_id: str) -> Sequence[TaskProcess]:
        return []


@pytest.fixture
async def open_house_(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "home", engine=OpenEngine()) as house:
        yield house


async def running(house: House, text: str = TWO, actor: Actor | None = None) -> str:
    return (await house.until((await house.submit(text, actor)).id, JobState.RUNNING)).id


# -- who


@pytest.mark.parametrize(
    ("actor", "may"),
    [
        (Actor(name="ann", groups={"red": False}), True),
        (Actor(name="ann"), False),  # not of the group any more
        (Actor(name="bob", groups={"red": False}), False),
        (Actor(name="bob", groups={"red": True}), True),
        (Actor(name="bob", groups={"blue": True}), False),
        (Actor(name="bob", can_read_all_jobs=True), False),
        (Actor(name="root", admin=True), True),
    ],
)
async def test_owners_and_admins_enter(actor: Actor, may: bool) -> None:
    assert can_exec(actor, "red", "ann") is may


async def test_others_are_told_no_more_than_they_may_know(open_house_: House) -> None:
    house, entering = open_house_, open_house_.services.task_access
    ann, bob = await house.user("ann", "red"), await house.user("bob", "red")
    eve = await house.user("eve", "blue")
    job = await running(house, HERS, ann)
    with pytest.raises(Forbidden, match="only ann and admins of red can connect to its tasks"):
        await entering.find_target(bob, job)
    with pytest.raises(NotFound, match=f"Job {job} not found"):
        await entering.find_target(eve, job)
    with pytest.raises(NotFound):
        await entering.open_session(eve, "ann~hers", None, ExecCommand())
    assert await entering.list_targets(bob, job) == []
    assert [entrance.task for entrance in await entering.list_targets(ann, job)] == ["main-0"]


async def test_a_name_leads_into_ones_own_job_first(open_house_: House) -> None:
    """Whatever others call theirs, and however new they are."""
    house, entering = open_house_, open_house_.services.task_access
    ann, bob = await house.user("ann", "red"), await house.user("bob", "red")
    await house.user("cid", "red")
    await house.services.groups.set_member(house.admin, "red", "cid", admin=True)
    cid = Actor(name="cid", groups={"red": True})
    text = "name: train\ngroup: red\ncommand: sleep 1000\n"
    own = {actor.name: await running(house, text, actor) for actor in (house.admin, ann, cid)}
    theirs = await running(house, text, bob)
    for actor in (house.admin, ann, cid):
        assert (await entering.find_target(actor, "train")).job.id == own[actor.name]
        assert [entrance.job.id for entrance in await entering.list_targets(actor, "train")] == [own[actor.name]]
        assert (await entering.find_target(actor, "train")).describe_owner(actor) == ""
    assert (await entering.find_target(house.admin, "bob~train")).job.id == theirs
    assert (await entering.find_target(cid, theirs)).describe_owner(cid) == f"train ({theirs}) of bob, main-0"


async def test_a_name_leads_into_ones_own_job_that_lives_before_those_that_ended(open_house_: House) -> None:
    house, entering = open_house_, open_house_.services.task_access
    ann, bob = await house.user("ann", "red"), await house.user("bob", "red")
    text = "name: train\ngroup: red\ncommand: sleep 1000\n"
    await running(house, text, ann)
    lives = await running(house, text, ann)
    await running(house, text, bob)
    over = (await house.submit(text.replace("sleep 1000", "exit 0"), ann)).id
    await house.until(over)
    assert (await entering.find_target(ann, "train")).job.id == lives
    with pytest.raises(Conflict, match=f"{over} ended"):
        await entering.find_target(ann, over)


async def test_else_into_one_that_may_be_entered(open_house_: House) -> None:
    house, entering = open_house_, open_house_.services.task_access
    ann, eve = await house.user("ann", "red"), await house.user("eve", "blue")
    led, other = await running(house, HERS, ann), await running(house, HERS.replace("red", "blue"), eve)
    cid = Actor(name="cid", groups={"red": True, "blue": False})
    assert (await entering.find_target(cid, "hers")).job.id == led
    assert (await entering.find_target(house.admin, "hers")).job.id == other
    with pytest.raises(Forbidden, match="only eve and admins of blue can connect to its tasks"):
        await entering.find_target(Actor(name="dan", groups={"red": False, "blue": False}), "hers")


# -- which


@pytest.mark.parametrize(
    ("ref", "task", "found"),
    [
        ("pair", None, "worker-0"),
        ("pair", "worker-1", "worker-1"),
        ("admin~pair", None, "worker-0"),
        ("admin~pair", "worker-1", "worker-1"),
    ],
)
async def test_the_task_that_is_meant(open_house_: House, ref: str, task: str | None, found: str) -> None:
    job = await running(open_house_)
    entrance = await open_house_.services.task_access.find_target(open_house_.admin, ref, task)
    assert (entrance.task, entrance.job.id, entrance.attempt_id) == (found, job, f"{job}.0.{found}.0")


async def test_a_role_as_openpai_spells_it(open_house_: House) -> None:
    await running(open_house_, "name: odd\nroles:\n  Work_er:\n    command: sleep 1000\n")
    entrance = await open_house_.services.task_access.find_target(open_house_.admin, "odd", "worker-0")
    assert entrance.task == "Work_er-0"


async def test_tasks_that_cannot_be_entered_say_why(open_house_: House) -> None:
    house, entering = open_house_, open_house_.services.task_access
    text = "name: mixed\nroles:\n  quick: {command: exit 0}\n  slow: {command: sleep 1000}\n"
    job = await running(house, text)
    async with asyncio.timeout(20):
        while await entering.list_targets(house.admin, job) != [await entering.find_target(house.admin, job, "slow-0")]:
            await asyncio.sleep(0.01)
    with pytest.raises(Conflict, match=r"quick-0 of .* ended at .*; its container no longer exists") as caught:
        await entering.find_target(house.admin, job, "quick-0")
    assert caught.value.hint == "Choose a task that is running or on hold: slow-0."
    with pytest.raises(NotFound, match="has no task slow-7"):
        await entering.find_target(house.admin, job, "slow-7")


@pytest.mark.parametrize(("command", "hint"), [("exit 1", "--hold"), ("exit 0", "holdfast rerun")])
async def test_a_job_that_is_over(open_house_: House, command: str, hint: str) -> None:
    job = await open_house_.run(f"name: over\ncommand: {command}\n")
    with pytest.raises(Conflict, match=f"{job.id} ended at .* UTC; its containers no longer exist") as caught:
        await open_house_.services.task_access.find_target(open_house_.admin, job.id)
    assert hint in (caught.value.hint or "")


async def test_an_engine_that_lets_nobody_in(house: House) -> None:
    job = await running(house)
    with pytest.raises(UserError, match="does not support shell access"):
        await house.services.task_access.open_session(house.admin, job, None, ExecCommand())
    assert await house.services.task_access.list_targets(house.admin, job) == []


# -- inside


async def test_what_an_engine_refuses_is_told(open_house_: House) -> None:
    job = await running(open_house_)
    entering, admin = open_house_.services.task_access, open_house_.admin
    with pytest.raises(Conflict, match=r"That cannot be run$"):
        await entering.open_session(admin, job, None, ExecCommand(script="nonsense"))
    with pytest.raises(Conflict, match="Nothing listens on port 80"):
        await entering.connect_port(admin, job, None, 80)
    for port in (0, -1, 65536):
        with pytest.raises(UserError, match="is not a valid port"):
            await entering.connect_port(admin, job, None, port)


async def test_sessions_are_counted_until_they_are_closed(tmp_path: Path) -> None:
    settings = {"ssh": {"sessions_per_user": 2}}
    async with open_house(tmp_path / "home", settings=settings, engine=OpenEngine()) as house:
        job = await running(house)
        entering, admin = house.services.task_access, house.admin
        first = await entering.open_session(admin, job, None, ExecCommand())
        with pytest.raises(Conflict):
            await entering.open_session(admin, job, None, ExecCommand(script="nonsense"))  # which takes no place
        await entering.open_session(admin, job, "worker-1", ExecCommand())
        with pytest.raises(Conflict, match="You already have 2 sessions open"):
            await entering.open_session(admin, job, None, ExecCommand())
        first.close()
        first.close()
        await entering.open_session(admin, job, None, ExecCommand())
        with pytest.raises(Conflict):
            await entering.open_session(admin, job, None, ExecCommand())


async def test_what_is_open_is_limited_by_user_and_in_total() -> None:
    limiter = build_connection_limiter("sessions", per_user=2, total=3)
    [release, *_] = [limiter.acquire_nowait(user) for user in ("ann", "ann", "bob")]
    with pytest.raises(Conflict):
        limiter.acquire_nowait("ann")
    with pytest.raises(Unavailable):
        limiter.acquire_nowait("eve")
    release()
    release()
    limiter.acquire_nowait("eve")
    with pytest.raises(Unavailable):
        limiter.acquire_nowait("eve")


async def test_what_is_open_between_tasks_is_counted_by_job_and_by_user() -> None:
    limit = IntraJobLimiter("sessions between tasks", per_job=200, total=1000)
    taken = [limit.acquire_nowait(job, "ann") for job in ("one", "two") for _ in range(150)]
    with pytest.raises(Conflict, match="You already have 300 sessions between tasks open"):
        limit.acquire_nowait("three", "ann")
    [limit.acquire_nowait("bob's", "bob") for _ in range(200)]
    with pytest.raises(Conflict, match="You already have 200 sessions between tasks open"):
        limit.acquire_nowait("bob's", "bob")
    taken[0]()
    taken[0]()
    limit.acquire_nowait("three", "ann")
    with pytest.raises(Conflict):
        limit.acquire_nowait("three", "ann")


async def told(house: House, entering: TaskAccess, job: str) -> list[str]:
    await asyncio.gather(*entering._save_tasks)
    events = await house.services.jobs.list_events(house.admin, job)
    return [f"{event.message} ({event.actor}, {event.task})" for event in events if event.kind == "entered"]


async def test_a_visit_is_told_once_an_hour_for_each_way(open_house_: House) -> None:
    house, entering = open_house_, open_house_.services.task_access
    job = await running(house)
    for way in ("ssh", "ssh", "the portal"):
        await entering.open_session(house.admin, job, "worker-1", ExecCommand(), way=way)
    expected = [f"admin opened a session in worker-1 ({way}) (admin, worker-1)" for way in ("ssh", "the portal")]
    assert sorted(await told(house, entering, job)) == expected
    house.clock.forward(3601)
    await entering.open_session(house.admin, job, "worker-1", ExecCommand())
    assert len(await told(house, entering, job)) == 3


async def test_a_store_that_cannot_write_keeps_nobody_out(open_house_: House) -> None:
    house, entering = open_house_, open_house_.services.task_access
    job = await running(house)
    entered = await entering.find_target(house.admin, job)
    await house.store.close()
    await entering._save_session_event(house.admin, entered, "ssh")  # and nothing is raised


async def test_one_whose_files_alone_are_kept_is_revived_before_its_processes_have_ended(tmp_path: Path) -> None:
    class Slow(OpenEngine):
        async def stop(self, attempt_id: str, grace: float) -> None: ...  # its processes go when they like

    engine = Slow()
    async with open_house(tmp_path / "home", engine=engine) as house:
        job = await house.submit("name: crash\nhold: true\ncommand: exit 2\n")
        await house.until(job.id, JobState.HELD)
        (await house.services.task_access.open_session(house.admin, job.id, None, ExecCommand())).close()
        assert engine.revived == []
        await house.services.holds.keep_files(house.admin, job.id)
        (await house.services.task_access.open_session(house.admin, job.id, None, ExecCommand())).close()
        assert engine.revived == engine.entered[:1]
