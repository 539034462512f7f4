"""What every store must do with tags: the job shows them, lists find it by them, and both always agree."""

from __future__ import annotations

import pytest

from holdfast.core.errors import NotFound, UserError
from holdfast.core.records import OffsetPageQuery
from holdfast.store.jobs import events
from holdfast.store.jobs import records as jobs
from tests.store.open_store import Opened, a_job, an_event

TAGGED = an_event("tagged", actor="ann")


class TagsContract:
    def test_tags_come_and_go_with_their_events(self, opened: Opened) -> None:
        id = opened.submit(job=a_job(tags=("first", "first"))).id
        other = opened.submit().id
        assert opened.write(jobs.add_tag, id, "second", event=TAGGED)
        assert opened.write(jobs.add_tag, other, "second", event=TAGGED)
        assert opened.read(jobs.load_job_detail, id).summary.tags == ("first", "first", "second")
        assert self._tagged(opened, "second") == [other, id]
        assert opened.write(jobs.remove_tag, id, "first", event=an_event("untagged"))
        assert opened.read(jobs.load_job_detail, id).summary.tags == ("second",)
        assert self._tagged(opened, "first") == []
        assert opened.write(jobs.remove_tag, id, "second", event=an_event("untagged"))
        assert opened.read(jobs.load_job_detail, id).summary.tags == ()
        assert self._tagged(opened, "second") == [other]
        kinds = [event.kind for event in opened.read(events.list_events, id)]
        assert kinds == ["submitted", "tagged", "untagged", "untagged"]

    def test_what_changes_nothing_writes_nothing(self, opened: Opened) -> None:
        id = opened.submit(job=a_job(tags=("one",))).id
        assert not opened.write(jobs.add_tag, id, "one", event=TAGGED)
        for tag in ("two", "ONE", "", "a\0", "\ud800"):
            assert not opened.write(jobs.remove_tag, id, tag, event=TAGGED)
        assert len(opened.read(events.list_events, id)) == 1
        assert self._tagged(opened, "one") == [id]

    def test_a_tag_does_not_get_in_the_way_of_who_drives_the_job(self, opened: Opened) -> None:
        id = opened.submit().id
        before = opened.read(jobs.load_snapshot, id)
        opened.write(jobs.add_tag, id, "one", event=TAGGED)
        assert opened.read(jobs.load_snapshot, id) == before
        opened.finish(id)
        assert opened.read(jobs.load_job_detail, id).summary.tags == ("one",)

    def test_a_job_has_only_so_many(self, opened: Opened) -> None:
        id = opened.submit(job=a_job(tags=tuple(map(str, range(99))))).id
        opened.write(jobs.add_tag, id, "the last", event=TAGGED)
        with pytest.raises(UserError, match="at most 100 tags"):
            opened.write(jobs.add_tag, id, "one more", event=TAGGED)
        assert self._tagged(opened, "one more") == []

    def test_no_job_no_tag(self, opened: Opened) -> None:
        for change in (jobs.add_tag, jobs.remove_tag):
            for id in ("job-none", "a\0"):
                with pytest.raises(NotFound):
                    opened.write(change, id, "tag", event=TAGGED)

    @staticmethod
    def _tagged(opened: Opened, tag: str) -> list[str]:
        page = opened.read(jobs.list_numbered_page, OffsetPageQuery(tags_any=(tag,)), count=False)
        return [job.id for job in page.items]
