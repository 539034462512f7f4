"""What every store must do with audit events."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from holdfast.core.audit import AuditAction, AuditKind, AuditQuery, NewAuditEvent
from holdfast.store import audit, people
from tests.store.open_store import NOW, Opened, a_user

ONE = NewAuditEvent(
    at=NOW,
    actor="änn",
    kind=AuditKind.USER,
    act=AuditAction.CREATED,
    subject="bob",
    address="::1",
    detail={"email": "b\0ob@example.org", "紅": "<b>"},
)


class AuditContract:
    def _fill(self, opened: Opened, count: int) -> None:
        for number in range(count):
            kind = AuditKind.GROUP if number % 2 else AuditKind.USER
            moment = NOW + timedelta(minutes=number)
            event = replace(ONE, at=moment, kind=kind, actor=f"actor{number % 3}", subject=f"thing{number % 5}")
            opened.write(audit.insert_audit_entry, event)

    def test_an_event_is_kept_whole(self, opened: Opened) -> None:
        opened.write(audit.insert_audit_entry, ONE)
        opened.write(audit.insert_audit_entry, replace(ONE, detail={}, actor="x\0", subject="\ud800"))
        newest, first = opened.read(audit.list_audit_entries, AuditQuery()).items
        assert NewAuditEvent(**{key: getattr(first, key) for key in NewAuditEvent.__slots__}) == ONE
        assert (newest.actor, newest.detail) == ("x\ufffd", {})

    def test_pages_follow_each_other(self, opened: Opened) -> None:
        self._fill(opened, 12)
        seen, before = [], None
        while True:
            page = opened.read(audit.list_audit_entries, AuditQuery(limit=5, before=before))
            seen += [event.at for event in page.items]
            before = page.next_before
            if before is None:
                break
        assert seen == [NOW + timedelta(minutes=number) for number in reversed(range(12))]

    def test_what_is_asked_for_is_found(self, opened: Opened) -> None:
        self._fill(opened, 30)

        def minutes(**asked: object) -> list[int]:
            page = opened.read(audit.list_audit_entries, AuditQuery(**asked))  # type: ignore[arg-type]
            return [int((event.at - NOW).total_seconds() / 60) for event in page.items]

        assert minutes(actor="actor1") == [n for n in reversed(range(30)) if n % 3 == 1]
        assert minutes(kind=AuditKind.GROUP) == [n for n in reversed(range(30)) if n % 2]
        assert minutes(subject="thing4", kind=AuditKind.USER) == [24, 14, 4]
        assert minutes(since=NOW + timedelta(minutes=27.5)) == [29, 28]
        assert minutes(until=NOW + timedelta(minutes=2)) == [1, 0]
        assert minutes(since=NOW + timedelta(days=1)) == minutes(until=NOW) == minutes(actor="nobody") == []

    def test_old_ones_are_removed_a_few_at_a_time(self, opened: Opened) -> None:
        self._fill(opened, 10)
        cut = NOW + timedelta(minutes=7)
        assert [opened.write(audit.delete_audit_entries, cut, 5) for _ in range(3)] == [5, 2, 0]
        assert len(opened.read(audit.list_audit_entries, AuditQuery()).items) == 3

    def test_preferences_are_kept_with_the_user(self, opened: Opened) -> None:
        opened.write(people.create_user, user=a_user("ann"), password_hash=None)
        assert (
            opened.read(people.load_user_preferences, "ann")
            == opened.read(people.load_user_preferences, "nobody")
            == {}
        )
        opened.write(people.set_user_preferences, "ann", {"language": "zh-Hans"})
        opened.write(people.set_user_extension, "ann", {})
        assert opened.read(people.load_user_preferences, "ann") == {"language": "zh-Hans"}
        opened.write(people.set_user_preferences, "ann", {})
        assert opened.read(people.load_user_preferences, "ann") == {}
