"""What every store must do with recipients, notices, and what they are made of."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from holdfast.core.errors import UserError
from holdfast.core.notifications import (
    Channel,
    NotificationEvent,
    NotificationState,
    NotifySpec,
    Recipient,
    StoredRecipient,
)
from holdfast.core.records import NewEvent
from holdfast.core.schedule import RunResult, Schedule
from holdfast.store import people, schedules
from holdfast.store.jobs import events
from holdfast.store.notifications import creation as notice_making
from holdfast.store.notifications import event_scan as happenings
from holdfast.store.notifications import recipients
from holdfast.store.notifications import records as notices
from holdfast.store.notifications.records import DeliveryOutcome, NewNotification
from holdfast.store.tables import notification_recipients as recipient_table
from holdfast.store.tables import notifications as notice_table
from tests.store.open_store import NOW, Opened, a_job, a_user

from .store_schedules_contract import add

KINDS = ("failed", "started")
NOTIFY = NotifySpec(events=frozenset({NotificationEvent.FAILED}))
TO_ANN = StoredRecipient(
    id="to-1",
    user="änn",
    recipient=Recipient(
        way=Channel.WEBHOOK,
        address="https://example.org/ü?secret",
        events=frozenset({NotificationEvent.FAILED, NotificationEvent.HELD}),
    ),
    created_at=NOW,
)


def a_notice(number: int = 0, **more: object) -> NewNotification:
    made = NewNotification(
        id=f"notice-{number}",
        user="änn",
        way=Channel.WEBHOOK,
        address=f"https://host{number % 3}.example.org/secret",
        event=NotificationEvent.FAILED,
        happening=f"job-1 {number}",
        job_id="job-1",
        subject="a\0b",
        body={"text": "words\0", "job": {"id": "job-1"}},
        created_at=NOW + timedelta(seconds=number),
    )
    return replace(made, **more)  # type: ignore[arg-type]


class NoticesContract:
    def _looked(self, opened: Opened, limit: int = 100) -> happenings.EventBatch:
        return opened.read(happenings.load_event_batch, KINDS, limit)

    def _make(self, opened: Opened, *made: NewNotification, most: int = 100) -> int | None:
        found = self._looked(opened)
        return opened.write(notice_making.create_notifications, found.before, found.after, made, most)

    def _note(self, opened: Opened, job: str, kind: str) -> None:
        opened.write(events.record_event, job, NewEvent(kind=kind, message="m", at=NOW, task="main-0", attempt=0))

    def test_recipients_are_kept_whole_and_sealed(self, opened: Opened) -> None:
        for name in ("änn", "bob"):
            opened.write(people.create_user, user=a_user(name), password_hash=None)
        opened.write(recipients.add_recipient, TO_ANN, 2)
        opened.write(recipients.add_recipient, replace(TO_ANN, id="to-2", created_at=NOW + timedelta(1)), 2)
        with pytest.raises(UserError):
            opened.write(recipients.add_recipient, replace(TO_ANN, id="to-3"), 2)
        opened.write(recipients.add_recipient, replace(TO_ANN, id="to-3", user="bob"), 2)
        assert opened.read(recipients.list_recipients, "änn")[0] == TO_ANN
        assert opened.read(recipients.load_users_with_recipients) == {"änn", "bob"}
        assert opened.write(recipients.set_recipient_events, "to-2", frozenset({NotificationEvent.STARTED}))
        assert opened.read(recipients.list_recipients, "änn")[1].recipient.events == {NotificationEvent.STARTED}
        assert opened.write(recipients.remove_recipient, "to-2")
        assert not opened.write(recipients.remove_recipient, "to-2")
        opened.write(people.delete_user, "bob")
        assert opened.read(recipients.list_recipients, "bob") == []

    def test_only_what_somebody_wants_is_looked_at_and_once(self, opened: Opened) -> None:
        old = opened.submit("old", user="änn")
        self._note(opened, old.id, "failed")
        opened.write(happenings.start_event_scan)
        opened.write(happenings.start_event_scan)  # at every start
        opened.write(people.create_user, user=a_user("änn"), password_hash=None)
        opened.write(recipients.add_recipient, TO_ANN, 2)
        others, asks = (
            opened.submit("others", user="bob"),
            opened.submit(user="bob", job=a_job("asks", notify=(NOTIFY,))),
        )
        for job in (old, others, asks):
            for kind in ("failed", "placed", "started"):
                self._note(opened, job.id, kind)
        found = self._looked(opened)
        assert [(each.name, each.kind, each.asks) for each in found.events] == [
            ("old", "failed", False),
            ("old", "started", False),
            ("asks", "failed", True),
            ("asks", "started", True),
        ]
        first = self._looked(opened, 3)
        assert (len(first.events), first.more) == (3, True)
        assert opened.write(notice_making.create_notifications, first.before, first.after, [a_notice()], 100) == 1
        assert opened.write(notice_making.create_notifications, first.before, first.after, [a_notice(1)], 100) is None
        assert [each.kind for each in self._looked(opened).events] == ["started"]
        assert self._make(opened) == 0
        last = self._looked(opened)
        assert (last.before, last.events, last.more) == (last.after, (), False)

    def test_what_was_while_nobody_was_to_be_told_is_not_told_later(self, opened: Opened) -> None:
        opened.write(happenings.start_event_scan)
        asks = opened.submit(user="bob", job=a_job("asks", notify=(NOTIFY,)))
        self._note(opened, asks.id, "failed")
        opened.write(happenings.stop_event_scan)
        opened.write(happenings.start_event_scan)
        assert self._looked(opened).events == ()
        self._note(opened, asks.id, "started")
        assert [each.kind for each in self._looked(opened).events] == ["started"]

    def test_runs_that_did_not_come_about_are_looked_at(self, opened: Opened) -> None:
        opened.write(happenings.start_event_scan)
        made = self._schedule(opened, RunResult.SKIPPED)
        (missed,) = self._looked(opened).runs
        assert (missed.run.schedule_id, missed.name, missed.user) == (made.id, "nightly", "ann")
        assert self._make(opened) == 0
        assert self._looked(opened).runs == ()
        opened.write(schedules.delete_schedule, made.id)
        self._schedule(opened, RunResult.STARTED)
        again = self._schedule(opened, RunResult.FAILED)  # under numbers that were given before, perhaps
        assert [each.run.schedule_id for each in self._looked(opened).runs] == [again.id]

    def _schedule(self, opened: Opened, result: RunResult) -> Schedule:
        made = add(opened, "nightly")
        run = schedules.NewScheduleRun(due_at=NOW, at=NOW, result=result, message="busy")
        assert opened.write(schedules.advance_schedules, [schedules.ScheduleStep(after=made, run=run)])[0].applied
        return made

    def test_a_notice_is_claimed_by_one_and_settled_by_that_one(self, opened: Opened) -> None:
        opened.write(happenings.start_event_scan)
        assert self._make(opened, *(a_notice(number) for number in range(4))) == 4
        due = opened.read(notices.list_due_notifications, NOW, lanes=(), users=(), under_way=(), limit=9)
        assert [each.notification.id for each in due] == ["notice-0"]
        assert due[0].notification == replace(a_notice(), subject="a\ufffdb", body={**a_notice().body})
        later = NOW + timedelta(minutes=1)

        def left(**but: object) -> list[str]:
            asked = {"lanes": (), "users": (), "under_way": (), **but}
            found = opened.read(notices.list_due_notifications, later, limit=9, **asked)  # type: ignore[arg-type]
            return [each.notification.id[-1] for each in found]

        assert left() == ["0", "1", "2", "3"]
        assert left(lanes=["host0.example.org"]) == ["1", "2"]
        assert left(users=["änn"]) == []
        assert left(under_way=[due[0].seq]) == ["1", "2", "3"]
        seq = due[0].seq
        lost = DeliveryOutcome(
            seq=seq, tries=1, claimed=False, state=NotificationState.WAITING, at=later, next_at=later
        )
        assert opened.write(notices.claim_notification, seq, 0)
        assert not opened.write(notices.claim_notification, seq, 0)
        opened.write(notices.record_delivery, lost)  # of one that did not get it
        assert left() == ["1", "2", "3"]
        opened.write(notices.record_delivery, replace(lost, claimed=True, error="answered 500"))
        assert not opened.write(notices.claim_notification, seq, 0)
        assert opened.write(notices.claim_notification, seq, 1)
        opened.write(
            notices.record_delivery, replace(lost, tries=2, claimed=True, state=NotificationState.SENT, next_at=None)
        )
        assert opened.read(notices.find_next_due_time, NOW) == NOW + timedelta(seconds=1)
        assert opened.write(notices.claim_notification, seq + 1, 0)
        assert opened.write(notices.mark_interrupted_notifications, later, "cut off") == 1
        shown = {each.id: each for each in opened.read(notices.list_notifications, "änn", None, 9)}
        assert (shown["notice-0"].state, shown["notice-0"].tries) == (NotificationState.SENT, 2)
        assert shown["notice-0"].ended_at == later
        assert (shown["notice-1"].state, shown["notice-1"].error) == (NotificationState.UNCONFIRMED, "cut off")
        assert list(shown) == ["notice-3", "notice-2", "notice-1", "notice-0"]
        assert [each.id for each in opened.read(notices.list_notifications, "änn", shown["notice-1"].seq, 9)] == [
            "notice-0"
        ]
        assert opened.read(notices.list_notifications, "bob", None, 9) == []
        assert opened.write(notices.delete_notifications, NOW + timedelta(seconds=2), 9) == 2

    def test_events_are_counted_and_above_the_limit_left_out_and_told_so(self, opened: Opened) -> None:
        opened.write(happenings.start_event_scan)
        opened.submit("x")  # so that there is something to look at
        every = [
            a_notice(number * 10 + to, happening=f"h-{number}", address=f"https://host{to}.example.org/secret")
            for number in range(5)
            for to in range(3)
        ]
        # Three of five are told, each to three; the others to nobody, and each of the three learns it, twice.
        assert self._make(opened, *every, most=3) == 9 + 6
        assert opened.read(notice_making.count_recent_events, "änn", NOW + timedelta(minutes=1)) == 3
        shown = opened.read(notices.list_notifications, "änn", None, 99)[:6]
        assert {(each.event, each.job_id) for each in shown} == {(NotificationEvent.DROPPED, None)}
        until = NOW + timedelta(hours=1, seconds=10)  # when the second of the three is an hour old
        assert sorted(str(each.next_at) for each in shown if each.next_at == until) == [str(until)] * 3
        opened.submit("y")
        more = [a_notice(100, address="https://host0.example.org/secret"), a_notice(101, user="bob")]
        assert self._make(opened, *more, most=3) == 1
        due = opened.read(notices.list_due_notifications, until, lanes=(), users=(), under_way=(), limit=99)
        told = {
            each.notification.address[8:13]: each.notification
            for each in due
            if each.notification.body.get("left_out", {}).get("count")
        }
        assert {host: each.body["left_out"] for host, each in told.items()} == {
            host: {"until": until.isoformat(), "count": count}
            for host, count in (("host0", 3), ("host1", 2), ("host2", 2))
        }
        assert told["host0"].subject.startswith("3 events were suppressed from ")
        opened.submit("z")
        assert self._make(opened, a_notice(200, created_at=until), most=3) == 1

    def test_what_somebody_has_to_act_upon_is_told_all_the_same(self, opened: Opened) -> None:
        opened.write(happenings.start_event_scan)
        opened.submit("x")
        urgent = [a_notice(number, event=NotificationEvent.HOLD_ENDING) for number in range(3, 12)]
        assert self._make(opened, a_notice(0), a_notice(1), *urgent, most=1) == 1 + 2 + 9
        opened.submit("y")
        assert (
            self._make(
                opened, a_notice(20, event=NotificationEvent.HELD), a_notice(23, event=NotificationEvent.HELD), most=1
            )
            == 3
        )
        assert [each.event for each in opened.read(notices.list_notifications, "änn", None, 3)] == [
            NotificationEvent.DROPPED,
            NotificationEvent.DROPPED,
            NotificationEvent.HELD,
        ]

    def test_a_damaged_address_is_none_and_others_are_read(self, opened: Opened) -> None:
        opened.write(people.create_user, user=a_user("änn"), password_hash=None)
        for id in ("to-1", "to-2"):
            opened.write(recipients.add_recipient, replace(TO_ANN, id=id), 2)
        opened.write(happenings.start_event_scan)
        opened.submit("x")
        assert self._make(opened, a_notice(0), a_notice(1, created_at=NOW)) == 2
        for table, id in ((recipient_table, "to-1"), (notice_table, "notice-0")):
            broken = (
                update(table).where(table.c.id == id).values(address_sealed=b"\x01damaged, and no address any more")
            )
            opened.write(lambda conn, broken=broken: conn.execute(broken))
        assert [each.readable for each in opened.read(recipients.list_recipients, "änn")] == [False, True]
        due = opened.read(notices.list_due_notifications, NOW, lanes=(), users=(), under_way=(), limit=9)
        assert [(each.readable, bool(each.notification.address)) for each in due] == [(False, False), (True, True)]
        assert [bool(each.address) for each in opened.read(notices.list_notifications, "änn", None, 9)] == [True, False]
