from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.access import Actor
from holdfast.core.errors import Conflict, Forbidden, InvalidJob, NotFound, UserError
from holdfast.core.records import Group, JobFilter, JobPhase, JobSummary, OffsetPageQuery
from holdfast.core.states import JobState, TaskState
from holdfast.services.errors import NameTaken, TagNotFound
from holdfast.store.database import Store

from .house import House, open_house

pytestmark = pytest.mark.anyio

HELLO = "name: hello\ncommand: echo hello\n"
SLEEPER = "name: sleeper\ncommand: sleep 100\n"


async def test_a_job_is_submitted_and_runs(house: House) -> None:
    done = await house.services.jobs.submit(house.admin, HELLO)
    assert done.created
    assert (done.summary.state, done.summary.user, done.summary.group) == (JobState.PENDING, "admin", "default")
    ended = await house.until(done.summary.id)
    assert (ended.state, ended.exit_code) == (JobState.SUCCEEDED, 0)


async def test_the_same_key_gives_the_same_job(house: House) -> None:
    first = await house.services.jobs.submit(house.admin, SLEEPER, key="k1")
    again = await house.services.jobs.submit(house.admin, SLEEPER, key="k1")
    assert (again.summary.id, again.created) == (first.summary.id, False)
    with pytest.raises(Conflict):
        await house.services.jobs.submit(house.admin, HELLO, key="k1")


async def test_warnings_become_events_once(house: House) -> None:
    text = f"{HELLO}image: no-such-image\n"
    done = await house.services.jobs.submit(house.admin, text, key="k1")
    assert done.warnings
    again = await house.services.jobs.submit(house.admin, text, key="k1")
    assert not again.created
    events = await house.services.jobs.list_events(house.admin, done.summary.id)
    told = [event for event in events if event.kind == "warning"]
    assert [event.message for event in told] == list(done.warnings)
    assert {(event.task, event.state) for event in told} == {(None, None)}
    assert events[0].kind == "submitted"


async def test_a_flood_of_warnings_is_cut(house: House) -> None:
    commands = "".join(f"- echo <% $secrets.none{n} %>\n" for n in range(30))
    done = await house.services.jobs.submit(house.admin, f"name: many\ncommands:\n{commands}")
    assert len(done.warnings) == 30
    events = await house.services.jobs.list_events(house.admin, done.summary.id)
    told = [event.message for event in events if event.kind == "warning"]
    assert told[:-1] == list(done.warnings[:19])
    assert told[-1].startswith("and 11 more")


async def test_the_same_key_for_another_group_is_a_conflict(house: House) -> None:
    await house.add_group("lab")
    await house.submit(SLEEPER, key="k1")
    with pytest.raises(Conflict, match="default"):
        await house.services.jobs.submit(house.admin, SLEEPER, group="lab", key="k1")


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", "schlüssel", "nul\0"])
async def test_odd_keys_are_refused(house: House, key: str) -> None:
    with pytest.raises(UserError) as caught:
        await house.services.jobs.submit(house.admin, HELLO, key=key)
    assert caught.value.field == "Idempotency-Key"


async def test_many_at_once_with_one_key_make_one_job(house: House) -> None:
    done = await asyncio.gather(*(house.services.jobs.submit(house.admin, SLEEPER, key="k") for _ in range(20)))
    assert len({each.summary.id for each in done}) == 1
    assert sum(each.created for each in done) == 1


async def test_a_cancelled_submit_still_reaches_the_controller(house: House) -> None:
    """The client may be gone while its job is on the way to the disk."""
    await house.services.jobs.plan(house.admin, HELLO)  # so that nothing has to be read any more
    asking = asyncio.create_task(house.services.jobs.submit(house.admin, HELLO))
    for _ in range(3):
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await house.store.write(lambda conn: None)  # writes are done in order
    (job,) = (await house.services.jobs.list(house.admin, JobFilter())).items
    assert (await house.until(job.id)).state is JobState.SUCCEEDED


async def test_secrets_are_never_shown(house: House) -> None:
    text = "name: s\nsecrets: {token: hunter2}\ncommand: echo hello\n"
    job = await house.submit(text)
    detail = await house.services.jobs.get(house.admin, job.id)
    shown = [
        await house.services.jobs.load_source(house.admin, job.id),
        await house.services.jobs.export_yaml(house.admin, job.id),
    ]
    assert all("hunter2" not in part for part in [*shown, repr(detail)])
    assert all("token" in part for part in shown)


async def test_an_openpai_job_is_kept_and_cloned_as_openpai_yaml(house: House) -> None:
    role = {"dockerImage": "i", "commands": ["echo hello"], "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0}}
    written = {
        "protocolVersion": 2,
        "name": "pai",
        "type": "job",
        "prerequisites": [{"type": "dockerimage", "name": "i", "uri": "host"}],
        "taskRoles": {"t": role},
    }
    plain = await house.submit(json.dumps(written))
    clone = await house.services.jobs.export_yaml(house.admin, plain.id)
    assert clone.startswith("protocolVersion: 2\nname: pai\n")
    assert (await house.submit(clone)).dialect is plain.dialect
    hidden = await house.submit(json.dumps({**written, "secrets": {"token": "hunter2"}}))
    clone, source = (
        await house.services.jobs.export_yaml(house.admin, hidden.id),
        await house.services.jobs.load_source(house.admin, hidden.id),
    )
    assert source == clone
    assert clone.endswith("secrets:\n  token: '******'\n")


async def test_nobody_reruns_a_job_with_the_secrets_of_another(house: House) -> None:
    ann, bob = await house.user("ann", "team"), await house.user("bob", "team")
    text = "name: a\ngroup: team\nsecrets: {token: abc}\ncommand: echo $token"
    first = await house.submit(text, ann)
    with pytest.raises(Forbidden, match="secrets of ann"):
        await house.services.jobs.rerun(bob, first.id)
    for actor in (ann, house.admin):
        assert (await house.services.jobs.rerun(actor, first.id)).summary.rerun_of == first.id
    plain = await house.submit("name: b\ngroup: team\ncommand: 'true'", ann)
    assert (await house.services.jobs.rerun(bob, plain.id)).summary.user == "bob"


async def test_whoever_gets_a_name_later_does_not_get_the_secrets_of_its_earlier_user(house: House) -> None:
    ann = await house.user("ann", "team")
    text = "name: a\ngroup: team\nsecrets: {token: abc}\ncommand: echo $token"
    first = await house.run(text, ann)
    plain = await house.run("name: b\ngroup: team\ncommand: 'true'", ann)
    await house.services.users.delete(house.admin, "ann")
    house.clock.forward(1)
    other = await house.user("ann", "team")
    with pytest.raises(Forbidden, match="secrets of a deleted user who was also called ann"):
        await house.services.jobs.rerun(other, first.id)
    assert (await house.services.jobs.rerun(other, plain.id)).created
    assert (await house.services.jobs.rerun(house.admin, first.id)).created
    own = await house.run(text, other)
    assert (await house.services.jobs.rerun(other, own.id)).created


async def test_a_rerun_has_the_secrets(house: House) -> None:
    text = "name: s\nsecrets: {token: hunter2}\nenv: {T: '<% $secrets.token %>'}\ncommand: exit 0\n"
    first = await house.run(text)
    second = await house.services.jobs.rerun(house.admin, first.id)
    await house.until(second.summary.id)
    assert second.summary.rerun_of == first.id
    launches = [task.launch.env["T"] for task in house.engine.machine.tasks.values()]
    assert launches == ["hunter2", "hunter2"]


async def test_the_text_is_kept_as_it_was_sent(house: House) -> None:
    text = "# mine\nname: hello   # with a comment\ncommand: echo hello\n"
    job = await house.submit(text)
    assert await house.services.jobs.load_source(house.admin, job.id) == text


async def test_bad_files_say_everything_that_is_wrong(house: House) -> None:
    with pytest.raises(InvalidJob) as caught:
        await house.services.jobs.submit(house.admin, "name: 3 bad!\nresources: {cpu: -1}\n")
    assert len(caught.value.problems) >= 2


async def test_too_many_tasks_are_refused(house: House) -> None:
    with pytest.raises(UserError, match="10000"):
        await house.submit("name: many\nroles: {w: {instances: 10001, command: exit 0}}\n")


async def test_an_unknown_image_is_taken_with_a_warning(house: House) -> None:
    done = await house.services.jobs.submit(house.admin, f"{HELLO}image: pytorch\n")
    assert any("pytorch" in warning for warning in done.warnings)


async def test_an_unknown_dialect_is_refused(house: House) -> None:
    with pytest.raises(UserError, match="'slurm' is not a supported job file format"):
        await house.services.jobs.submit(house.admin, HELLO, dialect="slurm")


async def test_members_submit_to_their_groups_only(house: House) -> None:
    alice = await house.user("alice", "lab")
    assert (await house.submit(HELLO, alice)).group == "lab"  # none was named: a group of hers
    with pytest.raises(Forbidden, match="default"):
        await house.submit(HELLO, alice, group="default")
    with pytest.raises(NotFound, match="nowhere"):
        await house.submit(HELLO, house.admin, group="nowhere")


async def test_who_is_in_several_groups_says_which(house: House) -> None:
    alice = await house.user("alice", "lab", "shop")
    for text in (HELLO, "displayName: x\ninstanceType: cpu-1\nimage: host\ncommand: 'true'\n"):
        with pytest.raises(UserError, match="several: lab, shop") as caught:
            await house.submit(text, alice)
        assert caught.value.field == "group"
        assert "--group" in str(caught.value.hint)
    assert (await house.submit(HELLO, alice, group="shop")).group == "shop"
    assert (await house.submit(HELLO + "\ngroup: lab\n", alice)).group == "lab"
    await house.services.groups.set_member(house.admin, "default", "alice", admin=False)
    alice = Actor(name="alice", groups={"lab": False, "shop": False, "default": False})
    assert (await house.submit(HELLO, alice)).group == "default"


async def test_other_groups_jobs_are_not_there(house: House) -> None:
    alice, bob = await house.user("alice", "lab"), await house.user("bob", "shop")
    job = await house.submit(SLEEPER, alice)
    jobs = house.services.jobs
    for look in (
        jobs.get,
        jobs.load_source,
        jobs.export_yaml,
        jobs.list_events,
        jobs.list_tasks,
        jobs.list_attempts,
        jobs.stop,
        jobs.rerun,
    ):
        for ref in (job.id, job.name, job.id[-6:]):
            with pytest.raises(NotFound):
                await look(bob, ref)
    with pytest.raises(NotFound):
        await jobs.wait(bob, job.id, 0)
    report = await jobs.stop_many(bob, [job.id])
    assert (report.stopped, [ref for ref, _ in report.failed]) == ((), [job.id])
    assert house.controller.get_active_job(job.id) is not None


async def test_lists_show_ones_own_groups(house: House) -> None:
    alice, bob = await house.user("alice", "lab"), await house.user("bob", "shop")
    nobody = Actor(name="carol")
    await house.submit(HELLO, alice)
    listed = house.services.jobs.list
    assert [job.user for job in (await listed(alice, JobFilter())).items] == ["alice"]
    assert (await listed(bob, JobFilter())).items == ()
    assert (await listed(nobody, JobFilter())).items == ()
    assert len((await listed(house.admin, JobFilter())).items) == 1
    with pytest.raises(NotFound, match="lab"):
        await listed(bob, JobFilter(groups=("lab",)))


async def test_stopping_is_durable_and_idempotent(house: House) -> None:
    job = await house.submit(SLEEPER)
    await house.until(job.id, JobState.RUNNING)
    summary, stopped = await house.services.jobs.stop(house.admin, job.id)
    assert stopped
    assert summary.stopping or summary.state is JobState.CANCELLED
    ended = await house.until(job.id)
    assert ended.state is JobState.CANCELLED
    summary, stopped = await house.services.jobs.stop(house.admin, job.id)
    assert (summary.state, stopped) == (JobState.CANCELLED, False)


async def test_stopping_many_goes_on_past_failures(house: House) -> None:
    first, second = await house.submit(SLEEPER), await house.submit(SLEEPER)
    report = await house.services.jobs.stop_many(house.admin, [first.id, "no-such-job", second.id, first.id])
    assert report.stopped == (first.id, second.id)
    assert [ref for ref, _ in report.failed] == ["no-such-job"]


async def test_waiting_ends_with_the_job(house: House) -> None:
    job = await house.submit(SLEEPER)
    running = await house.until(job.id, JobState.RUNNING)
    assert not running.state.final
    waiting = asyncio.create_task(house.services.jobs.wait(house.admin, job.id, 60))
    house.engine.finish_task(f"{job.id}.0.main-0.0", 3)
    ended = await asyncio.wait_for(waiting, 20)
    assert (ended.state, ended.exit_code) == (JobState.FAILED, 3)


async def test_waiting_gives_up_at_the_timeout(house: House) -> None:
    job = await house.submit(SLEEPER)
    assert not (await house.services.jobs.wait(house.admin, job.id, 0.01)).state.final


async def test_a_job_that_waits_says_why(house: House) -> None:
    await house.submit("name: big\ncommand: sleep 9\nresources: {cpu: 4}\n")
    job = await house.submit("name: next\ncommand: sleep 9\nresources: {cpu: 2}\n")
    while not house.controller.list_wait_reasons(job.id):
        await asyncio.sleep(0)
    detail = await house.services.jobs.get(house.admin, job.id)
    assert detail.waiting
    assert "cores" in detail.waiting[0]


async def test_tasks_are_shown_before_they_begin(house: House) -> None:
    await house.submit("name: big\ncommand: sleep 9\nresources: {cpu: 4}\n")
    text = "name: two\nroles:\n  z: {command: exit 0}\n  a: {instances: 2, command: exit 0}\n"
    job = await house.submit(text)
    tasks = await house.services.jobs.list_tasks(house.admin, job.id)
    assert [(record.task.task, record.task.state) for record in tasks] == [
        ("z-0", TaskState.WAITING),
        ("a-0", TaskState.WAITING),
        ("a-1", TaskState.WAITING),
    ]


@pytest.mark.parametrize("number", [1, 2])
async def test_a_job_and_its_tasks_are_of_one_moment(
    house: House, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Also when the job ends after so many reads of the database."""
    job = await house.submit(SLEEPER)
    await house.until(job.id, JobState.RUNNING)
    read, reads = Store.read, 0

    async def slow_read(store: Store, *args: Any, **more: Any) -> Any:
        nonlocal reads
        reads += 1
        found = await read(store, *args, **more)
        if reads == number:
            house.engine.finish_task(house.engine.list_running()[0], 1)
            await house.until(job.id)
        return found

    monkeypatch.setattr(Store, "read", slow_read)
    found = await house.services.jobs.get(house.admin, job.id)
    [task] = found.tasks
    assert task.task.state.ended == found.record.summary.state.final


async def test_every_attempt_is_kept(house: House) -> None:
    job = await house.run("name: retried\nretry: 2\ncommand: exit 7\n")
    attempts = await house.services.jobs.list_attempts(house.admin, job.id)
    assert [each.attempt for each in attempts] == [2, 1, 0]
    assert {record.task.exit.code for each in attempts for record in each.tasks if record.task.exit} == {7}


async def test_events_come_in_order_and_in_pages(house: House) -> None:
    job = await house.run(HELLO)
    events = await house.services.jobs.list_events(house.admin, job.id)
    assert events[0].kind == "submitted"
    assert events[0].actor == "admin"
    assert [event.seq for event in events] == sorted(event.seq for event in events)
    rest = await house.services.jobs.list_events(house.admin, job.id, after=events[0].seq, limit=1)
    assert [event.seq for event in rest] == [events[1].seq]


async def test_plan_says_what_would_happen_and_does_nothing(house: House) -> None:
    planned = await house.services.jobs.plan(house.admin, HELLO)
    assert planned.verdict.answer == "now"
    assert "echo hello" in planned.yaml
    never = await house.services.jobs.plan(house.admin, f"{HELLO}resources: {{cpu: 64}}\n")
    assert never.verdict.answer == "never"
    assert (await house.services.jobs.list(house.admin, JobFilter())).items == ()


async def test_the_time_limit_in_force_is_shown(house: House) -> None:
    limits = []
    for extra in ("", "time_limit: 1h\n", "time_limit: 0\n"):
        job = await house.submit(HELLO + extra)
        limits.append((await house.services.jobs.get(house.admin, job.id)).time_limit)
    assert [limit.total_seconds() if limit else None for limit in limits] == [86400, 3600, None]


# -- names


async def test_a_unique_name_is_taken_once(house: House) -> None:
    alice = await house.user("alice", "lab", "shop")
    jobs = house.services.jobs
    first = (await jobs.submit(alice, HELLO, group="lab", unique=True)).summary
    await house.until(first.id)
    with pytest.raises(NameTaken) as caught:
        await jobs.submit(alice, HELLO, group="shop", unique=True)
    assert caught.value.name == "hello"
    await jobs.submit(house.admin, HELLO, unique=True)  # somebody else's
    await jobs.submit(alice, HELLO, group="lab")  # where it need not be
    with pytest.raises(NameTaken):  # said before the group is looked at
        await jobs.submit(alice, HELLO, group="default", unique=True)


async def test_of_many_with_one_unique_name_one_is_taken(house: House) -> None:
    tries = [house.services.jobs.submit(house.admin, SLEEPER, unique=True) for _ in range(10)]
    done = await asyncio.gather(*tries, return_exceptions=True)
    assert sorted(type(each).__name__ for each in done) == ["NameTaken"] * 9 + ["SubmitResult"]
    assert len((await house.services.jobs.list(house.admin, JobFilter())).items) == 1


async def test_the_same_key_comes_before_the_name(house: House) -> None:
    first = await house.services.jobs.submit(house.admin, SLEEPER, key="k1", unique=True)
    again = await house.services.jobs.submit(house.admin, SLEEPER, key="k1", unique=True)
    assert (again.summary.id, again.created) == (first.summary.id, False)
    with pytest.raises(NameTaken):
        await house.services.jobs.submit(house.admin, SLEEPER, key="k2", unique=True)


async def test_a_job_is_found_by_user_and_name(house: House) -> None:
    alice, bob = await house.user("alice", "lab"), await house.user("bob", "shop")
    await house.submit(SLEEPER, alice)
    newest = await house.submit(SLEEPER, alice)
    named = house.services.jobs.find_by_name
    assert (await named(alice, "alice", "sleeper")).id == newest.id
    assert (await named(house.admin, "alice", "sleeper")).id == newest.id
    for actor, user, name in (
        (bob, "alice", "sleeper"),
        (alice, "bob", "sleeper"),
        (alice, "alice", "sleepe"),
        (alice, "alice", newest.id),
        (alice, "alice", "x" * 1000),
        (alice, "a\0", "\ud800"),
        (Actor(name="nobody"), "alice", "sleeper"),
    ):
        with pytest.raises(NotFound):
            await named(actor, user, name)


# -- pages by number


async def test_numbered_pages_show_ones_own_groups(house: House) -> None:
    alice, bob = await house.user("alice", "lab"), await house.user("bob", "shop")
    await house.submit(SLEEPER, alice)
    await house.submit(HELLO, bob)

    async def users(actor: Actor, query: OffsetPageQuery) -> list[str]:
        page = await house.services.jobs.get_numbered_page(actor, query, count=True)
        assert page.total == len(page.items)
        return [job.user for job in page.items]

    every = OffsetPageQuery()
    assert await users(house.admin, every) == ["bob", "alice"]
    assert await users(alice, every) == ["alice"]
    assert await users(Actor(name="nobody"), every) == []
    assert await users(Actor(name="reader", can_read_all_jobs=True), every) == ["bob", "alice"]
    for groups in (OffsetPageQuery(named_groups=("shop", "lab")), OffsetPageQuery(groups=("shop", "lab"))):
        assert await users(alice, groups) == ["alice"]
    assert await users(alice, OffsetPageQuery(named_groups=("shop",))) == []
    assert await users(house.admin, OffsetPageQuery(named_groups=("shop",))) == ["bob"]
    assert await users(house.admin, OffsetPageQuery(phases=(JobPhase.CANCELLED,))) == []


async def test_tries_of_a_job_are_told(house: House) -> None:
    job = await house.run("name: retried\nretry: 2\ncommand: exit 7\n")
    past = await house.services.jobs.list_past_attempts(house.admin, job.id)
    assert [each.number for each in past] == [0, 1]
    assert {each.outcome.exit.code for each in past} == {7}
    assert (job.attempt, job.user_retries) == (2, 2)
    with pytest.raises(NotFound):
        await house.services.jobs.list_past_attempts(Actor(name="nobody"), job.id)


# -- tags


async def test_tags_come_and_go_and_say_who(house: House) -> None:
    alice, bob = await house.user("alice", "lab"), await house.user("bob", "lab", "shop")
    job = await house.submit(SLEEPER, alice)
    jobs = house.services.jobs
    assert (await jobs.tag(bob, job.id, "slow")).tags == ("slow",)
    assert (await jobs.tag(alice, job.id, "slow")).tags == ("slow",)
    assert (await jobs.tag(alice, "sleeper", "bad idea")).tags == ("slow", "bad idea")
    assert (await jobs.untag(alice, job.id, "slow")).tags == ("bad idea",)
    with pytest.raises(TagNotFound):
        await jobs.untag(alice, job.id, "slow")
    events = [event for event in await jobs.list_events(alice, job.id) if event.kind in ("tagged", "untagged")]
    assert [(event.kind, event.actor) for event in events] == [
        ("tagged", "bob"),
        ("tagged", "alice"),
        ("untagged", "alice"),
    ]
    assert "slow" in events[0].message


@pytest.mark.parametrize("tag", ["", " ", "a,b", "a\nb", "nul\0", "\ud800", "\x7f", "x" * 256])
async def test_odd_tags_are_refused(house: House, tag: str) -> None:
    job = await house.submit(SLEEPER)
    with pytest.raises(UserError) as caught:
        await house.services.jobs.tag(house.admin, job.id, tag)
    assert caught.value.field == "tag"
    with pytest.raises(TagNotFound):
        await house.services.jobs.untag(house.admin, job.id, tag)


async def test_a_job_has_only_so_many_tags(house: House) -> None:
    job = await house.submit(SLEEPER)
    for number in range(100):
        await house.services.jobs.tag(house.admin, job.id, str(number))
    with pytest.raises(UserError, match="at most 100"):
        await house.services.jobs.tag(house.admin, job.id, "one more")


# -- where all may read


async def test_who_reads_everything_acts_only_in_their_groups(house: House) -> None:
    alice = await house.user("alice", "lab")
    bob = replace(await house.user("bob", "shop"), can_read_all_jobs=True)
    job = await house.submit(SLEEPER, alice)
    jobs = house.services.jobs
    for look in _looks(house):
        await look(bob, job.id)
    assert [each.user for each in (await jobs.list(bob, JobFilter())).items] == ["alice"]
    assert (await jobs.find_by_name(bob, "alice", "sleeper")).id == job.id
    await _refused(house, bob, job)


async def test_a_job_one_may_only_read_hides_none_of_ones_own(house: House) -> None:
    alice, bob = await house.user("alice", "lab"), replace(await house.user("bob", "shop"), can_read_all_jobs=True)
    own = await house.submit(SLEEPER, bob)
    await house.submit(SLEEPER, alice)  # newer, of the same name
    assert (await house.services.jobs.tag(bob, "sleeper", "mine")).id == own.id
    summary, stopped = await house.services.jobs.stop(bob, "sleeper")
    assert (summary.id, stopped) == (own.id, True)


async def test_guests_read_jobs_and_do_nothing_else(tmp_path: Path) -> None:
    async with open_house(tmp_path / "home", settings={"access": {"reading": "anyone"}}) as house:
        guest = house.services.tokens.get_guest()
        assert guest is not None
        assert not guest.admin
        job = await house.submit(SLEEPER)
        for look in _looks(house):
            await look(guest, job.id)
        await _refused(house, guest, job)
        services = house.services
        for refused in (
            services.jobs.submit(guest, HELLO),
            services.jobs.submit(guest, HELLO, group="default", unique=True),
            services.jobs.plan(guest, HELLO),
            services.tokens.create(guest, name="mine"),
            services.tokens.create(guest, name="mine", user="admin"),
            services.users.list(guest),
            services.users.get(guest, "admin"),
            services.users.change(guest, "", email="x@example.org"),
            services.users.change_own_password(guest, "", "correct horse battery", "127.0.0.1"),
            services.users.create(guest, name="eve"),
            services.groups.create(guest, Group(name="eve")),
            services.groups.set_member(guest, "default", "admin", admin=False),
            services.images.remove(guest, "busybox"),
        ):
            with pytest.raises(UserError) as caught:
                await refused
            assert caught.value.code in ("forbidden", "not_found", "not_logged_in")


@pytest.mark.parametrize(("reading", "reads_all"), [("groups", False), ("users", True), ("anyone", True)])
async def test_the_admin_says_who_reads(tmp_path: Path, reading: str, reads_all: bool) -> None:
    async with open_house(tmp_path / "home", settings={"access": {"reading": reading}}) as house:
        await house.user("alice", "lab", password="correct horse battery")
        tokens = house.services.tokens
        login = await tokens.login("alice", "correct horse battery", "127.0.0.1")
        alice = await tokens.resolve_actor(login.text)
        assert (alice.can_read_all_jobs, alice.application) == (reads_all, False)
        made = await tokens.create(alice, name="ci", expires_in=timedelta(days=1))
        assert (await tokens.resolve_actor(made.text)).application
        assert (tokens.get_guest() is not None) == (reading == "anyone")


def _looks(house: House) -> list[Callable[[Actor, str], Awaitable[object]]]:
    jobs = house.services.jobs
    return [
        jobs.get,
        jobs.load_source,
        jobs.export_yaml,
        jobs.list_events,
        jobs.list_tasks,
        jobs.list_attempts,
        jobs.list_past_attempts,
    ]


async def _refused(house: House, actor: Actor, job: JobSummary) -> None:
    """Whatever acts on the job: it is there, but not theirs."""
    jobs = house.services.jobs
    for ref in (job.id, job.name):
        for act in (
            jobs.stop(actor, ref),
            jobs.rerun(actor, ref),
            jobs.tag(actor, ref, "mine"),
            jobs.untag(actor, ref, "mine"),
        ):
            with pytest.raises(Forbidden):
                await act
    report = await jobs.stop_many(actor, [job.id])
    assert (report.stopped, [type(error) for _, error in report.failed]) == ((), [Forbidden])
    assert house.controller.get_active_job(job.id) is not None


# -- where members act on their own alone


async def test_with_acting_by_owners_another_members_job_is_left_alone(tmp_path: Path) -> None:
    async with open_house(tmp_path / "home", settings={"access": {"acting": "owners"}}) as house:
        alice = await _logged_in(house, "alice")
        bob = await _logged_in(house, "bob")
        chief = await _logged_in(house, "chief", admin=True)
        job = await house.submit(SLEEPER, alice, group="lab")
        await house.services.jobs.get(bob, job.id)
        await _refused(house, bob, job)
        with pytest.raises(Forbidden, match="only alice and admins of lab can do this"):
            await house.services.jobs.rerun(bob, job.id)
        assert (await house.services.jobs.stop_many(bob, [job.id])).stopped == ()
        for actor in (alice, chief, house.admin):
            assert (await house.services.jobs.tag(actor, "sleeper", actor.name)).id == job.id
        assert (await house.services.jobs.stop(chief, job.id))[1]


async def test_with_acting_by_owners_a_name_means_ones_own_job(tmp_path: Path) -> None:
    async with open_house(tmp_path / "home", settings={"access": {"acting": "owners"}}) as house:
        alice, bob = await _logged_in(house, "alice"), await _logged_in(house, "bob")
        own = await house.submit(SLEEPER, bob, group="lab")
        await house.submit(SLEEPER, alice, group="lab")  # newer, of the same name
        assert (await house.services.jobs.tag(bob, "sleeper", "mine")).id == own.id


async def _logged_in(house: House, name: str, *, admin: bool = False) -> Actor:
    """A member of lab, as a token of theirs says who they are."""
    await house.user(name, "lab", password="correct horse battery")
    await house.services.groups.set_member(house.admin, "lab", name, admin=admin)
    login = await house.services.tokens.login(name, "correct horse battery", "127.0.0.1")
    return await house.services.tokens.resolve_actor(login.text)


async def test_a_users_priority_is_bounded(tmp_path: Path) -> None:
    async with open_house(tmp_path / "home", settings={"queue": {"max_priority": 10}}) as house:
        alice = await house.user("alice", "lab")
        for asked, given in ((5, 5), (10, 10), (1000, 10), (-3, -3)):
            done = await house.services.jobs.submit(alice, f"{HELLO}\ngroup: lab\npriority: {asked}\n")
            detail = await house.services.jobs.get(alice, done.summary.id)
            assert detail.record.job.priority == given
            lowered = [text for text in done.warnings if "priority" in text]
            assert lowered == ([f"priority {asked} is lowered to 10, the maximum on this server"] if asked > 10 else [])
        done = await house.services.jobs.submit(house.admin, f"{HELLO}\npriority: 1000\n")
        assert (await house.services.jobs.get(house.admin, done.summary.id)).record.job.priority == 1000
