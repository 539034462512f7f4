"""Receivers that fail, are slow or gone, on real sockets and a clock moved by hand: each notification arrives once,
and nobody waits for another's receiver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.controller.delivery import INTERRUPTED_MESSAGE, MAX_DELIVERIES_PER_HOST, DeliveryRunner, RetryPolicy
from holdfast.controller.notification_watcher import NotificationWatcher
from holdfast.core.notifications import NotificationRecord, NotificationState, compute_retry_delay
from holdfast.core.states import JobState
from holdfast.store.notifications import records as notification_rows
from tests.services.house import House, open_house
from tests.services.webhook_receiver import Hook

FAILS = "name: train\ncommand: exit 3\n"
TIMEOUT = 2  # seconds that the silent receivers of these tests are given


@dataclass
class Post:
    house: House
    delivery: DeliveryRunner
    hooks: list[Hook] = field(default_factory=list)

    def hook(self, *answers: int, **more: dict[str, str]) -> Hook:
        self.hooks.append(Hook(*answers, **more))
        return self.hooks[-1]

    async def tell(self, *hooks: Hook, jobs: int = 1) -> None:
        """Jobs fail, and notifications of that are made for each of these."""
        for hook in hooks:
            await self.house.services.notifications.add_recipient(self.house.admin, "webhook", hook.url, ["failed"])
        for _ in range(jobs):
            await self.house.run(FAILS)
        await self.house.services.notifications.creator.create_notifications()

    async def try_all(self) -> None:
        while await self.delivery.start_due_deliveries():
            await self.delivery.wait_until_idle()

    async def records(self) -> list[NotificationRecord]:
        return list(reversed((await self.house.services.notifications.list(self.house.admin, limit=500)).items))

    async def until_over(self) -> list[NotificationRecord]:
        """Move the clock to each next try, until there is none."""
        async with asyncio.timeout(60):
            while True:
                await self.try_all()
                next_at = await self.house.store.read(notification_rows.find_next_due_time, self.house.clock.now())
                if next_at is None:
                    return await self.records()
                self.house.clock.at = next_at


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def post(tmp_path: Path) -> AsyncIterator[Post]:
    async with open_house(tmp_path / "home", settings={"notifications": {"timeout": TIMEOUT}}) as house:
        await house.services.notifications.creator.initialize()
        made = Post(house, DeliveryRunner(house.store, house.services.notifications.sender, clock=house.clock.now))
        yield made
        for hook in made.hooks:
            hook.close()
        await made.delivery.close()


@pytest.mark.anyio
async def test_one_that_fails_ten_times_gets_it_in_the_end_once(post: Post) -> None:
    hook = post.hook(*[500, Hook.HANG_UP, 503, 429, 408] * 2)
    await post.tell(hook)
    start = post.house.clock.now()
    (record,) = await post.until_over()
    assert (record.state, record.tries, record.error) == (NotificationState.SENT, 11, "")
    assert [len(hook.posts), len(hook.taken)] == [11, 1]
    assert len({one.id for one in hook.posts}) == 1
    assert len({one.raw for one in hook.posts}) == 1
    assert timedelta(minutes=4) < post.house.clock.now() - start < timedelta(minutes=20)


@pytest.mark.anyio
async def test_one_that_is_gone_gets_it_when_it_comes_back(post: Post) -> None:
    hook = post.hook()
    hook.close()
    await post.tell(hook, jobs=3)
    await post.try_all()
    assert {(each.state, each.error) for each in await post.records()} == {
        (NotificationState.WAITING, "the connection was refused")
    }
    post.house.clock.forward(5)
    await post.try_all()
    hook.open()
    records = await post.until_over()
    assert {each.state for each in records} == {NotificationState.SENT}
    assert sorted(one.id for one in hook.taken) == sorted(each.id for each in records)


@pytest.mark.anyio
async def test_one_that_never_comes_is_given_up_after_a_day(post: Post) -> None:
    hook = post.hook()
    hook.close()
    await post.tell(hook)
    start = post.house.clock.now()
    (record,) = await post.until_over()
    assert record.state is NotificationState.FAILED
    assert timedelta(hours=22) < post.house.clock.now() - start <= timedelta(hours=24)
    assert record.tries > 20


@pytest.mark.anyio
async def test_one_that_refuses_is_asked_a_few_times(post: Post) -> None:
    hook = post.hook(*[404] * 9)
    await post.tell(hook)
    (record,) = await post.until_over()
    assert (record.state, record.tries, record.error) == (NotificationState.FAILED, 3, "responded with 404")


@pytest.mark.anyio
async def test_one_that_has_too_much_to_do_says_when(post: Post) -> None:
    hook = post.hook(429, headers={"Retry-After": "1800"})
    await post.tell(hook)
    await post.try_all()
    (record,) = await post.records()
    assert record.next_at == post.house.clock.now() + timedelta(seconds=1800)
    assert (await post.until_over())[0].state is NotificationState.SENT


@pytest.mark.release
@pytest.mark.anyio
async def test_one_that_does_not_answer_is_not_sent_it_twice_and_holds_up_nobody(post: Post) -> None:
    """Jobs end, and others are told, while it hangs."""
    silent, quick = post.hook(*[Hook.SILENT] * 100), post.hook()
    noticing = NotificationWatcher(post.house.services.notifications.creator, post.delivery.wake)
    post.house.controller.add_change_listener(noticing.handle_job_change)
    loops = [asyncio.create_task(work) for work in (noticing.run(), post.delivery.run())]
    try:
        for hook in (silent, quick):
            await post.house.services.notifications.add_recipient(post.house.admin, "webhook", hook.url, ["failed"])
        many = 2 * MAX_DELIVERIES_PER_HOST
        jobs = [(await post.house.submit(FAILS)).id for _ in range(many)]
        assert [(await post.house.until(job)).state for job in jobs] == [JobState.FAILED] * many
        await asyncio.to_thread(quick.wait, many)
        await asyncio.to_thread(silent.seen.wait, lambda posts: len(posts) >= many)
        async with asyncio.timeout(60):
            while any(each.state is NotificationState.SENDING for each in await post.records()):
                await asyncio.sleep(0.05)
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.wait(loops)
    post.house.clock.forward(86400)
    await post.try_all()
    assert len({one.id for one in silent.posts}) == len(silent.posts) == many
    assert len({one.id for one in quick.posts}) == len(quick.posts) == many
    told = {(each.state, each.error) for each in await post.records()}
    assert told == {
        (NotificationState.UNCONFIRMED, f"no response within {TIMEOUT} seconds"),
        (NotificationState.SENT, ""),
    }


@pytest.mark.anyio
async def test_two_deliveries_send_each_once(post: Post) -> None:
    hook = post.hook()
    await post.tell(hook, jobs=10)
    other = DeliveryRunner(post.house.store, post.house.services.notifications.sender, clock=post.house.clock.now)

    async def all_of(delivery: DeliveryRunner) -> None:
        while await delivery.start_due_deliveries():
            await delivery.wait_until_idle()

    await asyncio.gather(all_of(post.delivery), all_of(other))
    assert {each.state for each in await post.records()} == {NotificationState.SENT}
    assert len({one.id for one in hook.posts}) == len(hook.posts) == 10


@pytest.mark.anyio
async def test_what_was_being_sent_when_a_server_ended_is_not_sent_again(post: Post) -> None:
    hook = post.hook()
    await post.tell(hook, jobs=2)
    found = await post.house.store.read(
        notification_rows.list_due_notifications, post.house.clock.now(), lanes=(), users=(), under_way=(), limit=9
    )
    assert await post.house.store.write(notification_rows.claim_notification, found[0].seq, 0)
    assert not await post.house.store.write(notification_rows.claim_notification, found[0].seq, 0)
    await post.delivery.recover_interrupted_deliveries()
    await post.until_over()
    first, second = await post.records()
    assert (first.state, first.error) == (NotificationState.UNCONFIRMED, INTERRUPTED_MESSAGE)
    assert second.state is NotificationState.SENT
    assert [one.id for one in hook.posts] == [second.id]


@pytest.mark.anyio
async def test_what_is_cut_off_before_anything_was_sent_is_sent_later(post: Post) -> None:
    """The server ends while a name is looked up, or a connection made."""
    hook = post.hook()
    await post.tell(hook)
    await post.delivery.start_due_deliveries()
    for task in list(post.delivery._deliveries):
        task.cancel()
    await asyncio.wait(post.delivery._deliveries)
    assert hook.posts == []
    again = DeliveryRunner(post.house.store, post.house.services.notifications.sender, clock=post.house.clock.now)
    await again.recover_interrupted_deliveries()
    await again.start_due_deliveries()
    await again.wait_until_idle()
    assert len(hook.taken) == 1


def tries(first: timedelta) -> Iterator[float]:
    return (compute_retry_delay(count, first, 0.999999).total_seconds() for count in range(1, 60))


def test_waits_double_up_to_an_hour() -> None:
    waits = list(tries(RetryPolicy().first_wait))
    assert [round(wait, 3) for wait in waits[:4]] == [1, 2, 4, 8]
    assert max(waits) <= 3600
    assert compute_retry_delay(3, timedelta(seconds=1), 0.0) == timedelta(seconds=2)
