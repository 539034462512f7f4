"""What every store must do with lists: every filter, whole and steady pages, search that takes any text."""

from __future__ import annotations

from datetime import timedelta
from itertools import product

import pytest

from holdfast.core.errors import Conflict, UserError
from holdfast.core.records import JobFilter
from holdfast.core.states import JobState
from holdfast.store.jobs import records as jobs
from holdfast.store.jobs.own_jobs import count_user_jobs_by_state
from tests.store.open_store import NOW, Opened, later

HOSTILE = (
    "100%", "a_b", "it's", 'say "hi"', "star*", "(x OR y)", "NEAR(a b)", "col:val", "back\\slash", "-minus", "^caret",
    "semi;--", "{}", "%s :x ?", "naïve", "訓練", "🚀🚀", "ÅNGSTRÖM", "ﬁne", "a'b\"c%d_e*f", "tab\there", "  spaces  ",
)  # fmt: skip


class ListingContract:
    # -- filters

    def test_no_filter_lists_everything_newest_first(self, opened: Opened) -> None:
        for name in "abc":
            opened.submit(name)
        assert opened.names(JobFilter()) == ["c", "b", "a"]

    def test_every_filter_alone_and_with_every_other(self, opened: Opened) -> None:
        made = self._mixed(opened)
        users = (None, "ann")
        groups = (None, (), ("red", "none", "red"))
        states = (None, (JobState.FAILED,), (JobState.PENDING, JobState.SUCCEEDED))
        texts = (None, "train", "o")
        spans = ((None, None), (later(hours=2), None), (later(hours=2), later(hours=5)))
        for user, chosen, state, text, (after, before) in product(users, groups, states, texts, spans):
            filter = JobFilter(
                user=user, groups=chosen, states=state, text=text, submitted_after=after, submitted_before=before
            )
            page = opened.read(jobs.list_job_page, filter, 100)
            assert [job.id for job in page.items] == [job.id for job in made if self._fits(job, filter)], filter
            assert page.next is None

    def test_empty_choices_list_nothing_and_empty_text_everything(self, opened: Opened) -> None:
        opened.submit("a")
        assert opened.names(JobFilter(states=())) == []
        assert opened.names(JobFilter(groups=())) == []
        assert opened.names(JobFilter(user="nobody")) == []
        assert opened.names(JobFilter(text="")) == ["a"]

    def test_summaries_in_a_list_are_those_of_the_jobs(self, opened: Opened) -> None:
        opened.finish(opened.submit("a").id)
        opened.submit("b")
        for job in opened.read(jobs.list_job_page, JobFilter()).items:
            assert job == opened.read(jobs.load_job_detail, job.id).summary

    def test_bounds_of_time_are_exact_also_after_clock_jumps(self, opened: Opened) -> None:
        hours = (0, 1, 2, 100, 3, -50, 4, 5)  # the clock went forward, back, and back again
        for hour in hours:
            opened.submit(str(hour), at=NOW + timedelta(hours=hour))
        for low, high in ((0, 5), (3, 101), (-60, 1), (-60, -49), (4, 4), (6, 99)):
            filter = JobFilter(submitted_after=later(hours=low), submitted_before=later(hours=high))
            expected = [str(hour) for hour in reversed(hours) if low <= hour < high]
            assert opened.names(filter) == expected
        moment = timedelta(microseconds=1)
        assert opened.names(JobFilter(submitted_after=NOW + moment, submitted_before=later(hours=1))) == []
        assert opened.names(JobFilter(submitted_after=NOW, submitted_before=NOW + moment)) == ["0"]

    def test_more_groups_than_fit_one_statement(self, opened: Opened) -> None:
        for number in range(5):
            opened.submit(str(number), group=f"g{number * 100}")
        many = tuple(f"g{number}" for number in range(450))
        for states in (None, (JobState.PENDING,)):
            filter = JobFilter(groups=many, states=states, user="ann")
            assert opened.names(filter, 2) == ["4", "3", "2", "1", "0"]

    # -- pages

    def test_pages_are_complete(self, opened: Opened) -> None:
        made = self._mixed(opened)
        for filter in (JobFilter(), JobFilter(groups=("red", "blue")), JobFilter(text="a"), JobFilter(text="train")):
            expected = [job.id for job in made if self._fits(job, filter)]
            for limit in (1, 3, 8, 100):
                assert [job.id for job in opened.pages(filter, limit)] == expected, (filter, limit)

    def test_a_search_without_patience_still_finds_all_in_more_pages(
        self, opened: Opened, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("holdfast.store.jobs.listing._WINDOW_SIZE", 3)
        monkeypatch.setattr("holdfast.store.jobs.listing._HIT_BATCH_SIZE", 2)
        made = self._mixed(opened)
        for filter in (JobFilter(text="train", user="ann"), JobFilter(text="tr", groups=("blue",))):
            found = opened.pages(filter, 50, timeout=0.0)
            assert [job.id for job in found] == [job.id for job in made if self._fits(job, filter)]

    def test_pages_are_steady_while_jobs_arrive_and_change(self, opened: Opened) -> None:
        before = [opened.submit(str(number)).name for number in range(9)]
        seen, cursor = [], None
        while True:
            page = opened.read(jobs.list_job_page, JobFilter(), 2, cursor)
            seen += [job.name for job in page.items]
            if page.next is None:
                break
            cursor = page.next
            opened.finish(opened.submit("newer").id)
        assert seen == before[::-1]

    @pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "٣", "9" * 30, "1; DROP TABLE jobs", "\0"])
    def test_a_cursor_that_is_none_is_refused(self, opened: Opened, cursor: str) -> None:
        with pytest.raises(UserError, match="page"):
            opened.read(jobs.list_job_page, JobFilter(), 10, cursor)

    # -- text

    def test_hostile_names_are_found_by_every_part_of_them(self, opened: Opened) -> None:
        for name in HOSTILE:
            opened.submit(name)
        for name in HOSTILE:
            for part in {name, name[:1], name[-1:], name[:2], name[1:4], name.upper(), name.lower()}:
                found = opened.names(JobFilter(text=part))
                assert name in found, part

    def test_hostile_text_means_itself(self, opened: Opened) -> None:
        opened.submit("plain")
        for text in ("%", "_", "*", '"', "'", "p%n", "pl_in", "plain*", '"plain"', "pla OR ain", "plain\0", "\ud800"):
            assert opened.names(JobFilter(text=text)) == [], text
        assert opened.names(JobFilter(text="plain\nx")) == []
        assert opened.names(JobFilter(text="x" * 10_000)) == []

    def test_letter_case_makes_no_difference(self, opened: Opened) -> None:
        opened.submit("Train-ResNet Ångström ΣΊΣΥΦΟΣ")
        for text in ("train", "RESNET", "ångström", "ÅNGSTRÖM", "σίσυφος", "Σίσυφος", "A\u030angstro\u0308m"):
            assert len(opened.names(JobFilter(text=text))) == 1, text

    def test_ids_are_found_by_every_part_of_them(self, opened: Opened) -> None:
        made = [opened.submit(f"n{number}", at=later(minutes=number)) for number in range(5)]
        for job in made:
            for part in (job.id, job.id[-6:], job.id[-2:], job.id[4:], job.id[10:20], job.id.upper()):
                assert job.name in opened.names(JobFilter(text=part)), part
        assert len(opened.names(JobFilter(text="job-"))) == 5

    def test_nothing_matches_across_name_and_id(self, opened: Opened) -> None:
        opened.submit("name")
        assert opened.names(JobFilter(text="namejob")) == []
        assert opened.names(JobFilter(text="name job")) == []

    # -- counting

    def test_unfinished_jobs_are_counted_by_state(self, opened: Opened) -> None:
        made = self._mixed(opened)
        for groups in (None, ("red",), ("red", "blue"), (), ("none",)):
            expected = {
                state: sum(job.state is state and (groups is None or job.group in groups) for job in made)
                for state in JobState
                if not state.final
            }
            assert opened.read(jobs.count_jobs_by_state, groups) == expected

    def test_own_jobs_are_counted_as_far_as_anybody_would(self, opened: Opened) -> None:
        made = self._mixed(opened)
        since = later(hours=3)
        for groups in (None, ("red",), ("red", "blue"), ("none",), ()):
            mine = [job for job in made if job.user == "ann" and (groups is None or job.group in groups)]
            fits = [job for job in mine if not job.state.final or job.submitted_at >= since]
            expected = {state: sum(job.state is state for job in fits) for state in JobState}
            assert opened.read(count_user_jobs_by_state, "ann", groups, since, 1000) == expected
        capped = opened.read(count_user_jobs_by_state, "ann", None, NOW, 1)
        assert set(capped.values()) == {0, 1}
        assert set(opened.read(count_user_jobs_by_state, "nul\0", None, later(days=400), 9).values()) == {0}

    # -- finding one

    def test_a_job_is_found_by_id_name_beginning_or_end(self, opened: Opened) -> None:
        old, new = opened.submit("train"), opened.submit("train", at=later(hours=1))
        other = opened.submit("other", at=later(hours=2), group="blue")
        assert self._find(opened, old.id) == old.id
        assert self._find(opened, "train") == new.id
        assert self._find(opened, other.id[:18]) == other.id
        assert self._find(opened, other.id[-6:]) == other.id
        for nothing in ("", "trai", "tra", "job", old.id[5:12], old.id + "x", "a\0", "\ud800", "%", "______"):
            assert self._find(opened, nothing) is None, nothing

    def test_only_jobs_of_the_groups_are_found(self, opened: Opened) -> None:
        mine, theirs = opened.submit("same", group="red"), opened.submit("same", group="blue")
        for ref in (theirs.id, theirs.id[-6:]):
            assert self._find(opened, ref) == theirs.id
            assert self._find(opened, ref, ["red"]) is None
        assert self._find(opened, "same") == theirs.id
        assert self._find(opened, "same", ["red"]) == mine.id
        assert self._find(opened, "same", []) is None

    def test_a_part_that_fits_several_is_a_conflict(self, opened: Opened) -> None:
        made = [opened.submit(f"n{number}", group=f"g{number}") for number in range(2)]
        part = made[0].id[:17]  # all submitted in the same minute
        with pytest.raises(Conflict, match="several jobs"):
            self._find(opened, part)
        assert self._find(opened, part, ["g1"]) == made[1].id

    # -- helpers

    @staticmethod
    def _find(opened: Opened, ref: str, groups: list[str] | None = None) -> str | None:
        found = opened.read(jobs.find_job, ref, groups)
        return found.id if found else None

    @staticmethod
    def _mixed(opened: Opened) -> list:
        """Jobs of all kinds, newest first."""
        names = ("train one", "Train two", "other", "no", "training")
        states = (JobState.PENDING, JobState.FAILED, JobState.SUCCEEDED, JobState.RUNNING)
        for number in range(24):
            job = opened.submit(
                f"{names[number % 5]} {number}",
                user=("ann", "bob", "eve")[number % 3],
                group=("red", "blue")[number // 2 % 2],
                at=later(minutes=20 * number),
            )
            if states[number % 4] is not JobState.PENDING:
                opened.advance(job.id, states[number % 4])
        found = opened.read(jobs.list_job_page, JobFilter(), 100).items
        assert len(found) == 24
        return list(found)

    @staticmethod
    def _fits(job, filter: JobFilter) -> bool:
        text = (filter.text or "").casefold()
        return (
            (filter.user is None or job.user == filter.user)
            and (filter.groups is None or job.group in filter.groups)
            and (filter.states is None or job.state in filter.states)
            and (text in job.name.casefold() or text in job.id)
            and (filter.submitted_after is None or job.submitted_at >= filter.submitted_after)
            and (filter.submitted_before is None or job.submitted_at < filter.submitted_before)
        )
