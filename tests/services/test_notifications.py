"""Recipients and notifications: who is told of what, in which words; what is refused; and that each is made once."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, message_from_string, policy
from pathlib import Path

import pytest

from holdfast.controller.delivery import ADDRESS_UNREADABLE_MESSAGE, DeliveryRunner
from holdfast.controller.notification_watcher import NotificationWatcher
from holdfast.core.access import Actor
from holdfast.core.errors import Conflict, Forbidden, NotFound, UserError
from holdfast.core.holds import compute_warning_time
from holdfast.core.notifications import Channel, NotificationEvent, NotificationRecord, NotificationState
from holdfast.core.records import NewEvent
from holdfast.core.schedule import OverlapPolicy, Recurrence, RecurrenceKind
from holdfast.core.states import JobState
from holdfast.jobspec.notify import parse_notify
from holdfast.services.errors import TooManyRequests
from holdfast.services.jobs.validation import MAIL_NOT_CONFIGURED_WARNING
from holdfast.services.notifications.smtp import build_mail
from holdfast.store.jobs import events as event_rows
from holdfast.store.notifications import event_scan as happenings
from holdfast.store.notifications.records import NewNotification
from holdfast.store.tables import notification_recipients as recipient_table
from holdfast.store.tables import notifications as notification_table

from .damage import damage
from .house import House, open_house
from .webhook_receiver import Hook, MailServer

pytestmark = pytest.mark.anyio

FAILS = "name: train\ncommand: exit 3\n"
WORKS = "name: good\ncommand: echo hello\n"
LOCAL = {"notifications": {"allow": ["127.0.0.0/8"], "timeout": 30}}


class Desk:
    """A house in which notifications are made and sent when the test says so."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.notifications = house.services.notifications
        self.delivery = DeliveryRunner(house.store, self.notifications.sender, clock=house.clock.now)

    async def told(self) -> int:
        """Make what is to be told, and send it; how many were made."""
        made = await self.notifications.creator.create_notifications()
        await self.send()
        return made

    async def send(self) -> None:
        while await self.delivery.start_due_deliveries():
            await self.delivery.wait_until_idle()

    async def records(self, actor: Actor | None = None) -> list[NotificationRecord]:
        """Oldest first."""
        return list(reversed((await self.notifications.list(actor or self.house.admin)).items))

    async def events(self, actor: Actor | None = None) -> list[str]:
        return [record.event.value for record in await self.records(actor)]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_house(tmp_path / "home", settings=LOCAL) as house:
        desk = Desk(house)
        await desk.notifications.creator.initialize()
        yield desk
        await desk.delivery.close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


# -- what is told, and how


async def test_a_failed_job_is_told_to_whoever_wants_it(desk: Desk, hook: Hook) -> None:
    ann = await desk.house.user("ann", "red")
    known = await desk.notifications.add_recipient(ann, "webhook", hook.url, ["failed"])
    await desk.notifications.add_recipient(ann, "slack", hook.url + "/slack")
    job = await desk.house.run("name: a<b> & @here\ngroup: red\ncommand: exit 3\n", ann)
    await desk.house.run(WORKS, desk.house.admin)  # who wants nothing
    assert await desk.told() == 2
    (web,) = [post for post in hook.posts if post.path == "/hook/abcdefghijklmnop"]
    (slack,) = [post for post in hook.posts if post.path != web.path]
    body = web.body
    assert (body["version"], body["event"], body["user"]) == (1, "failed", "ann")
    assert body["id"] == web.id
    assert (body["job"]["id"], body["job"]["name"], body["job"]["group"]) == (job.id, "a<b> & @here", "red")
    assert (body["job"]["state"], body["job"]["exit_code"]) == ("Failed", 3)
    assert body["link"] == f"http://127.0.0.1:8080/jobs/{job.id}"
    assert body["command"] == f"holdfast why {job.id}"
    assert body["subject"].startswith("a<b> & @here failed after ")
    assert "main-0: Exit code 3" in body["text"]
    assert list(slack.body) == ["text"]
    assert "a&lt;b&gt; &amp; @here failed" in slack.body["text"]
    stamp, signature = (part.partition("=")[2] for part in web.headers["Holdfast-Signature"].split(","))
    key = desk.notifications.get_webhook_secret(ann, known.recipient.address).encode()
    assert signature == hmac.new(key, stamp.encode() + b"." + web.raw, hashlib.sha256).hexdigest()
    assert key != desk.notifications.get_webhook_secret(desk.house.admin, known.recipient.address).encode()
    (first, second) = await desk.records(ann)
    assert {first.state, second.state} == {NotificationState.SENT}
    assert await desk.told() == 0
    assert len(hook.posts) == 2


async def test_each_event_of_a_job_is_told_as_chosen(desk: Desk, hook: Hook) -> None:
    house = desk.house
    every = [
        "started",
        "succeeded",
        "failed",
        "stopped",
        "retried",
        "held",
        "debugger-waiting",
        "hold-ending",
        "schedule-skipped",
    ]
    await desk.notifications.add_recipient(house.admin, "webhook", hook.url, every)
    await house.run(WORKS)
    await desk.told()
    assert await desk.events() == ["started", "succeeded"]
    going = await house.submit("name: long\ncommand: sleep 100\n")
    await house.until(going.id, JobState.RUNNING)
    waits = "A debugger is waiting at train.py:4 in main-0"
    event = NewEvent(kind="debugger-waiting", message=waits, at=house.controller.clock(), task="main-0", attempt=0)
    await house.store.write(event_rows.record_event, going.id, event)
    await house.services.jobs.stop(house.admin, going.id)
    await house.until(going.id)
    await desk.told()
    assert (await desk.events())[2:] == ["started", "debugger-waiting", "stopped"]
    (called,) = [post.body for post in hook.posts if post.body["event"] == "debugger-waiting"]
    assert (called["job"]["task"], called["command"]) == ("main-0", f"holdfast debug {going.id}")
    assert waits in called["text"]
    await house.run("name: again\ncommand: exit 1\nretry: 1\n")
    await desk.told()
    assert (await desk.events())[5:] == ["started", "retried", "started", "failed"]
    assert sorted(post.body["event"] for post in hook.posts) == sorted(await desk.events())


async def test_a_held_job_is_told_of_and_that_its_hold_ends_soon_once(desk: Desk, hook: Hook) -> None:
    house = desk.house
    house.controller.clock = house.clock.now
    await desk.notifications.add_recipient(house.admin, "webhook", hook.url, ["held", "hold-ending", "failed"])
    job = await house.submit("name: crash\ncommand: exit 3\nhold: 20h\n")
    await house.until(job.id, JobState.HELD)
    await desk.told()
    assert hook.posts[0].body["command"] == f"holdfast ssh {job.id}"
    for hours, expected in ((18, 0), (1.5, 1), (0.2, 1)):
        house.clock.forward(hours * 3600)
        await look_again(house, job.id)
        await desk.told()
        assert (await desk.events()).count("hold-ending") == expected
    await house.services.holds.extend(house.admin, job.id, by=timedelta(hours=10))
    house.clock.forward(9.8 * 3600)
    await look_again(house, job.id)
    await desk.told()
    assert await desk.events() == ["held", "hold-ending", "hold-ending"]
    assert "The hold on main-0 expires at 2026-03-02 18:00 UTC" in (await last_body(desk, hook))["text"]


async def look_again(house: House, job_id: str) -> None:
    """As its timer would: nothing is asked for that does not exist."""
    house.controller._mark_jobs(job_id)
    async with asyncio.timeout(20):
        while house.controller._marked or house.controller._wake.is_set():
            await asyncio.sleep(0.001)
    await house.store.write(lambda conn: None)


async def last_body(desk: Desk, hook: Hook) -> dict[str, object]:
    return dict(hook.posts[-1].body)


def test_short_holds_end_untold() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert compute_warning_time(noon, noon + timedelta(minutes=9)) is None
    assert compute_warning_time(noon, noon + timedelta(minutes=50)) == noon + timedelta(minutes=45)
    assert compute_warning_time(noon, noon + timedelta(days=7)) == noon + timedelta(days=7, hours=-1)


async def test_a_schedule_that_did_not_run_is_told_of(desk: Desk, hook: Hook) -> None:
    house = desk.house
    await desk.notifications.add_recipient(house.admin, "webhook", hook.url, ["schedule-skipped"])
    daily = Recurrence(kind=RecurrenceKind.CUSTOM, cron="0 * * * *")
    made = await house.services.schedules.create(
        house.admin, "name: nightly\ncommand: sleep 100\n", daily, overlap=OverlapPolicy.SKIP
    )
    stirred: list[bool] = []
    house.services.schedules.due_runs.on_missed_run = lambda: stirred.append(True)
    for _ in range(2):
        house.clock.forward(3600)
        await house.services.schedules.due_runs.run_due_schedules()
    assert await desk.told() == 1
    assert stirred == [True]
    body = hook.posts[0].body
    assert (body["event"], body["job"]) == ("schedule-skipped", None)
    assert (body["schedule"]["id"], body["schedule"]["result"]) == (made.schedule.id, "skipped")
    await house.services.schedules.delete(house.admin, made.schedule.id)  # its numbers may be given again
    again = await house.services.schedules.create(
        house.admin, "name: other\ncommand: sleep 100\n", daily, overlap=OverlapPolicy.SKIP
    )
    for _ in range(2):
        house.clock.forward(3600)
        await house.services.schedules.due_runs.run_due_schedules()
    assert await desk.told() == 1
    assert hook.posts[1].body["schedule"]["id"] == again.schedule.id


def test_nothing_in_a_name_becomes_a_header() -> None:
    notification = NewNotification(
        id="notification-1",
        user="ann",
        way=Channel.MAIL,
        address="team@example.org",
        event=NotificationEvent.FAILED,
        happening="job-1 1",
        job_id=None,
        subject="a\r\nBcc: x@example.org\n\n\u2028<b>",
        body={"text": ".\r\nRCPT TO:<x@example.org>\n.hidden"},
        created_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    read = message_from_bytes(build_mail(notification, "holdfast@example.org").as_bytes(), policy=policy.default)
    assert read["Bcc"] is None
    assert read["Subject"] == "[holdfast] a Bcc: x@example.org <b>"
    assert "RCPT TO:<x@example.org>" in read.get_content()


async def test_mails_are_sent_to_whom_the_admin_allows(tmp_path: Path) -> None:
    server = MailServer(451)
    mail = {"host": "127.0.0.1", "port": server.port, "sender": "holdfast@example.org", "domains": ["example.org"]}
    async with open_house(tmp_path / "home", settings={"mail": mail}) as house:
        desk = Desk(house)
        await desk.notifications.creator.initialize()
        ann = await house.user("ann", "red")
        await house.services.users.change(house.admin, "ann", email="ann@lab.example.org")
        await desk.notifications.add_recipient(ann, "mail", "team@example.org", ["failed"])
        await desk.notifications.add_recipient(ann, "mail", "far@elsewhere.net", ["failed"])
        job = await house.run("name: träin\ngroup: red\nnotify: {mail: me, on: failed}\ncommand: exit 3\n", ann)
        assert await desk.told() == 3
        for _ in range(3):
            house.clock.forward(3600)
            await desk.send()
        states = {record.address: (record.state, record.error) for record in await desk.records(ann)}
        assert states["far@elsewhere.net"] == (
            NotificationState.FAILED,
            "mail to elsewhere.net is not allowed on this server",
        )
        assert {mail.to for mail in server.mails} == {"team@example.org", "ann@lab.example.org"}
        assert len(server.mails) == 2
        read = message_from_string(server.mails[0].text, policy=policy.default)
        assert read["Subject"].startswith("[holdfast] träin failed")
        assert read["From"] == "holdfast@example.org"
        assert read["Message-ID"].startswith("<notification-")
        assert f"holdfast why {job.id}" in read.get_content()
    server.close()


async def test_a_mail_that_is_not_answered_is_not_sent_again(tmp_path: Path) -> None:
    server = MailServer(silent=True)
    settings = {
        "mail": {"host": "127.0.0.1", "port": server.port, "sender": "holdfast@example.org"},
        "notifications": {"timeout": 1},
    }
    async with open_house(tmp_path / "home", settings=settings) as house:
        desk = Desk(house)
        await desk.notifications.creator.initialize()
        await desk.notifications.add_recipient(house.admin, "mail", "team@example.org", ["failed"])
        await house.run(FAILS)
        await desk.told()
        (record,) = await desk.records()
        assert (record.state, record.error) == (
            NotificationState.UNCONFIRMED,
            "the mail server did not respond in time",
        )
        house.clock.forward(86400)
        await desk.send()
        assert len(server.mails) == 1
    server.close()


# -- what jobs ask for


async def test_jobs_ask_for_themselves(desk: Desk, hook: Hook) -> None:
    house = desk.house
    ann = await house.user("ann", "red")
    await desk.notifications.add_recipient(ann, "webhook", hook.url, ["stopped"])
    text = (
        "name: own\ngroup: red\ncommand: exit 3\nsecrets: {hook: '%s'}\n"
        "notify: [failed, {webhook: <%% $secrets.hook %%>, on: [started]}]\n"
    )
    await house.run(text % f"{hook.url}/of-the-job", ann)
    assert await desk.told() == 2
    assert {(post.path[-10:], post.body["event"]) for post in hook.posts} == {
        ("of-the-job", "started"),
        (hook.url[-10:], "failed"),
    }
    shown = await house.services.jobs.get(ann, "own")
    assert hook.url not in shown.record.source
    sent = await house.services.jobs.submit(ann, "name: m\ngroup: red\ncommand: echo hi\nnotify: {mail: me}\n")
    assert sent.warnings == (MAIL_NOT_CONFIGURED_WARNING,)
    words = parse_notify("succeeded")
    await house.services.jobs.submit(ann, "name: asked\ngroup: red\ncommand: echo hi\n", notify=words)
    asked = await house.services.jobs.get(ann, "asked")
    await house.until(asked.record.summary.id)
    assert await desk.told() == 1
    assert hook.posts[-1].body["job"]["name"] == "asked"


async def test_openpai_jobs_ask_for_mails(tmp_path: Path) -> None:
    server = MailServer()
    mail = {"host": "127.0.0.1", "port": server.port, "sender": "holdfast@example.org"}
    job = (
        "protocolVersion: 2\nname: pai\ntype: job\nprerequisites: [{protocolVersion: 2, name: i, type: dockerimage, "
        "uri: host}]\ntaskRoles: {t: {instances: 1, dockerImage: i, resourcePerInstance: {cpu: 1, memoryMB: 100, "
        "gpu: 0}, commands: [echo hi]}}\n"
        "extras: {jobStatusChangeNotification: {running: true, succeeded: true, failed: true, stopped: false}}\n"
    )
    async with open_house(tmp_path / "home", settings={"mail": mail}) as house:
        desk = Desk(house)
        await desk.notifications.creator.initialize()
        await house.run(job)
        assert await desk.told() == 0  # there is no address
        await house.services.users.change(house.admin, "admin", email="admin@example.org")
        await house.run(job.replace("name: pai", "name: pai2"))
        assert await desk.told() == 2
        assert [mail.to for mail in server.mails] == ["admin@example.org"] * 2
    server.close()


# -- made once


async def test_old_events_are_told_to_nobody(tmp_path: Path, hook: Hook) -> None:
    async with open_house(tmp_path / "home", settings=LOCAL) as house:
        desk = Desk(house)
        await house.run(FAILS)
        await desk.notifications.creator.initialize()
        await desk.notifications.add_recipient(house.admin, "webhook", hook.url)
        assert await desk.told() == 0
        house.clock.at = house.controller.clock() + timedelta(days=1)
        await desk.notifications.add_recipient(house.admin, "slack", hook.url)  # later than what happens now
        await house.run(FAILS)
        assert await desk.told() == 1
        assert [record.way.value for record in await desk.records()] == ["webhook"]


async def test_two_who_make_them_make_each_once(desk: Desk, hook: Hook) -> None:
    await desk.notifications.add_recipient(desk.house.admin, "webhook", hook.url)
    for _ in range(5):
        await desk.house.run(FAILS)
    counts = await asyncio.gather(*(desk.notifications.creator.create_notifications() for _ in range(4)))
    assert sum(counts) == 5
    assert len(await desk.records()) == 5


async def test_with_nobody_to_tell_nothing_is_looked_at(desk: Desk) -> None:
    house, made = desk.house, 0

    def count() -> None:
        nonlocal made
        made += 1

    noticing = NotificationWatcher(desk.notifications.creator, count)
    house.controller.add_change_listener(noticing.handle_job_change)
    await house.run(FAILS)
    assert not noticing._wake_event.is_set()
    await house.run(f"{FAILS}notify: failed\n")
    assert noticing._wake_event.is_set()
    before = (await house.store.read(happenings.load_event_batch, ["failed"], 10)).before
    assert (
        await desk.notifications.creator.create_notifications() == 0
    )  # its user has neither recipient nor mail address
    assert (await house.store.read(happenings.load_event_batch, ["failed"], 10)).before.event > before.event


async def test_too_many_are_left_out_and_every_recipient_is_told_how_many(tmp_path: Path, hook: Hook) -> None:
    settings = {"notifications": {"per_hour": 3, "allow": ["127.0.0.1"]}}
    async with open_house(tmp_path / "home", settings=settings) as house:
        desk = Desk(house)
        await desk.notifications.creator.initialize()
        known = await desk.notifications.add_recipient(house.admin, "webhook", hook.url)
        await desk.notifications.add_recipient(house.admin, "slack", hook.url + "/slack")
        for _ in range(3):
            await house.run(FAILS)
        assert await desk.told() == 6
        with pytest.raises(TooManyRequests):
            await desk.notifications.send_test(house.admin, known.id)
        for _ in range(2):
            await house.run(FAILS)
        held = await house.submit("name: crash\ncommand: exit 3\nhold: 20h\n")
        await house.until(held.id, JobState.HELD)
        assert await desk.told() == 6  # that others are left out, and will have been, to each; and what is held
        said = [
            post
            for post in hook.posts
            if b"further notifications are suppressed until 2026-03-01 13:00 UTC" in post.raw
        ]
        assert {post.path.endswith("/slack") for post in said} == {True, False}
        assert len(said) == 2
        assert b"You still get notifications about held tasks" in said[0].raw
        assert sum(b"is on hold for debugging" in post.raw for post in hook.posts) == 2
        before = len(hook.posts)
        house.clock.forward(3600)
        await desk.send()
        assert all(b"2 events were suppressed from" in post.raw for post in hook.posts[before:])
        assert len(hook.posts) == before + 2
        await house.run(FAILS)
        assert await desk.told() == 2


async def test_a_damaged_address_holds_up_nothing_else(
    desk: Desk, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    admin = desk.house.admin
    broken = await desk.notifications.add_recipient(admin, "webhook", hook.url + "/broken")
    await desk.notifications.add_recipient(admin, "webhook", hook.url)
    await damage(desk.house, recipient_table, broken.id)
    assert [each.id for each in await desk.notifications.list_recipients(admin) if not each.readable] == [broken.id]
    await desk.house.run(FAILS)
    await desk.house.run(f"{FAILS}notify: started\n")
    assert await desk.notifications.creator.create_notifications() == 3
    first = (await desk.records())[0]
    await damage(desk.house, notification_table, first.id)
    await desk.send()
    await desk.house.run(FAILS)
    await desk.told()
    records = await desk.records()
    assert (records[0].state, records[0].error) == (NotificationState.FAILED, ADDRESS_UNREADABLE_MESSAGE)
    assert {each.state for each in records[1:]} == {NotificationState.SENT}
    assert sorted(post.id for post in hook.posts) == sorted(each.id for each in records[1:])
    logged = [each.message for each in caplog.records if each.name.startswith("holdfast") and "address" in each.message]
    assert logged == ["the address of a recipient cannot be read", "the address of a notification cannot be decrypted"]
    with pytest.raises(Conflict):
        await desk.notifications.send_test(admin, broken.id)
    assert (await desk.notifications.set_events(admin, broken.id, ["held"])).recipient.events == {
        NotificationEvent.HELD
    }
    await desk.notifications.remove_recipient(admin, broken.id)
    assert len(await desk.notifications.list_recipients(admin)) == 1


# -- recipients


async def test_recipients_are_ones_own(desk: Desk, hook: Hook) -> None:
    ann, bob = await desk.house.user("ann", "red"), await desk.house.user("bob", "red")
    known = await desk.notifications.add_recipient(ann, "webhook", hook.url, ["failed"])
    with pytest.raises(Conflict):
        await desk.notifications.add_recipient(ann, "webhook", hook.url)
    assert await desk.notifications.list_recipients(bob) == []
    for refused in (desk.notifications.list_recipients(bob, "ann"), desk.notifications.list(bob, "ann")):
        with pytest.raises(Forbidden):
            await refused
    for absent in (desk.notifications.remove_recipient(bob, known.id), desk.notifications.send_test(bob, known.id)):
        with pytest.raises(NotFound):
            await absent
    assert [each.id for each in await desk.notifications.list_recipients(desk.house.admin, "ann")] == [known.id]
    chosen = await desk.notifications.set_events(ann, known.id, ["started", "held"])
    assert chosen.recipient.events == {NotificationEvent.STARTED, NotificationEvent.HELD}
    raw = (desk.house.home / "holdfast.db").read_bytes() + (desk.house.home / "holdfast.db-wal").read_bytes()
    assert b"abcdefghijklmnop" not in raw
    await desk.notifications.remove_recipient(ann, known.id)
    await desk.notifications.add_recipient(bob, "webhook", hook.url)
    await desk.house.services.users.delete(desk.house.admin, "bob")
    assert await desk.notifications.list_recipients(desk.house.admin, "bob") == []


@pytest.mark.parametrize(
    ("way", "address"),
    [
        ("webhook", "ftp://example.org/a"),
        ("webhook", "https://ann:secret@example.org/a"),
        ("webhook", "https://example.org/a\r\nHost: other"),
        ("webhook", "https://"),
        ("webhook", "https://example.org:99999/"),
        ("slack", "file:///etc/passwd"),
        ("webhook", f"https://example.org/{'a' * 2000}"),
        ("mail", "ann@example.org"),  # no mail is set up here
        ("pigeon", "https://example.org"),
    ],
)
async def test_what_is_no_address_is_refused(desk: Desk, way: str, address: str) -> None:
    with pytest.raises(UserError):
        await desk.notifications.add_recipient(desk.house.admin, way, address)
    with pytest.raises(UserError):
        await desk.notifications.add_recipient(desk.house.admin, "webhook", "https://example.org/", ["nonsense"])


async def test_a_test_says_what_came_back_and_no_more(desk: Desk) -> None:
    hook = Hook(204, 404, 302, Hook.HANG_UP)
    known = await desk.notifications.add_recipient(desk.house.admin, "webhook", hook.url)
    came = [await desk.notifications.send_test(desk.house.admin, known.id) for _ in range(4)]
    assert [(each.result.value, each.message) for each in came] == [
        ("sent", "responded with 204"),
        ("refused", "responded with 404"),
        ("refused", "responded with 302, and redirects are not followed"),
        ("later", "the connection was closed without a response"),
    ]
    tls = await desk.notifications.add_recipient(desk.house.admin, "webhook", hook.url.replace("http:", "https:"))
    assert (await desk.notifications.send_test(desk.house.admin, tls.id)).message == "TLS failed"
    hook.close()
    gone = await desk.notifications.send_test(desk.house.admin, known.id)
    assert gone.message == "the connection was refused"
    assert [record.state.value for record in await desk.records()] == ["sent"] + ["failed"] * 5


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "0.0.0.0",
        "[::]",
        "169.254.169.254",
        "[fe80::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[fd00:ec2::254]",
        "224.0.0.1",
        "255.255.255.255",
        "2130706433",  # 127.0.0.1 as a number
        "0x7f.1",
        "10.1.2.3",  # by the setting
    ],
)
async def test_the_server_is_not_led_to_places_of_its_own(tmp_path: Path, host: str) -> None:
    hook = Hook()
    async with open_house(tmp_path / "home", settings={"notifications": {"refuse": ["10.0.0.0/8"]}}) as house:
        desk = Desk(house)
        ann = await house.user("ann", "red")
        known = await desk.notifications.add_recipient(ann, "webhook", f"http://{host}:{hook.port}/a")
        came = await desk.notifications.send_test(ann, known.id)
        assert came.result.value == "refused", came
        assert came.message.endswith("are not allowed on this server")
    assert hook.posts == []
    hook.close()


async def test_what_is_allowed_by_name_is_reached_at_whichever_address_answers(tmp_path: Path, hook: Hook) -> None:
    async with open_house(tmp_path / "home", settings={"notifications": {"allow": ["LocalHost"]}}) as house:
        ann = await house.user("ann", "red")
        known = await house.services.notifications.add_recipient(ann, "webhook", f"http://localhost:{hook.port}/a")
        assert (await house.services.notifications.send_test(ann, known.id)).message == "responded with 200"
        assert hook.posts[0].headers["Host"] == f"localhost:{hook.port}"
        by_number = await house.services.notifications.add_recipient(ann, "webhook", f"http://127.0.0.1:{hook.port}/a")
        assert (
            "webhooks to 127.0.0.1 are not allowed"
            in (await house.services.notifications.send_test(ann, by_number.id)).message
        )


async def test_an_admin_may_reach_this_machine(house: House, hook: Hook) -> None:
    known = await house.services.notifications.add_recipient(house.admin, "webhook", hook.url)
    assert (await house.services.notifications.send_test(house.admin, known.id)).result.value == "sent"


async def test_old_notifications_are_forgotten(desk: Desk, hook: Hook) -> None:
    await desk.notifications.add_recipient(desk.house.admin, "webhook", hook.url)
    await desk.house.run(FAILS)
    await desk.told()
    desk.house.clock.forward(29 * 86400)
    assert await desk.notifications.delete_old_notifications() == 0
    desk.house.clock.forward(2 * 86400)
    assert await desk.notifications.delete_old_notifications() == 1
    assert await desk.records() == []
