"""What every store must do with pages by number: every filter, every order, any offset, text that means itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from holdfast.core.attempt import StopRequest
from holdfast.core.job import Resources
from holdfast.core.records import JobOrder, JobPhase, JobSummary, OffsetPage, OffsetPageQuery
from holdfast.core.states import JobState
from holdfast.store.jobs import records as jobs
from tests.store.open_store import NOW, Opened, a_job, later

from .store_listing_contract import HOSTILE

STOP = StopRequest(actor="ann", at=NOW)
INTERVAL = OffsetPageQuery()
SHOWN = {JobState.HELD: "Running", JobState.UNKNOWN: "Running"}  # where it is not the state itself
# state, stopped, between attempts -> phase
PHASES: dict[tuple[JobState, bool, bool], JobPhase | None] = {
    (JobState.PENDING, False, False): JobPhase.WAITING,
    (JobState.PENDING, False, True): JobPhase.RUNNING,
    (JobState.PENDING, True, False): JobPhase.STOPPING,
    (JobState.PENDING, True, True): JobPhase.STOPPING,
    (JobState.PREPARING, False, False): JobPhase.WAITING,
    (JobState.PREPARING, True, False): JobPhase.STOPPING,
    (JobState.RUNNING, False, False): JobPhase.RUNNING,
    (JobState.RUNNING, True, False): JobPhase.STOPPING,
    (JobState.HELD, False, False): JobPhase.RUNNING,
    (JobState.HELD, True, False): JobPhase.STOPPING,
    (JobState.UNKNOWN, False, False): None,
    (JobState.UNKNOWN, True, False): JobPhase.STOPPING,
    (JobState.SUCCEEDED, False, False): JobPhase.SUCCEEDED,
    (JobState.FAILED, False, False): JobPhase.FAILED,
    (JobState.CANCELLED, True, False): JobPhase.CANCELLED,
    (JobState.FAILED, True, False): JobPhase.FAILED,
}


class NumberedContract:
    # -- filters

    def test_every_filter_alone_and_with_every_other(self, opened: Opened) -> None:
        made = self._mixed(opened)
        users = (None, ("ann", "nobody", "ann"), ("ann", "bob"))
        groups = ((None, None), (("red",), None), (("red", "blue"), ("blue", "none")), (("red",), ("blue",)))
        phases = (
            None,
            (JobPhase.WAITING,),
            (JobPhase.FAILED, JobPhase.CANCELLED),
            (JobPhase.RUNNING, JobPhase.STOPPING),
            tuple(JobPhase),
        )
        texts = (None, "train", "RED")
        tags = ((None, None), (("x", "y"), None), (None, ("x",)), (("y",), ("x", "z")))
        for user, (seen, named), phase, text, (some, none) in product(users, groups, phases, texts, tags):
            query = OffsetPageQuery(
                users=user, groups=seen, named_groups=named, phases=phase, text=text, tags_any=some, tags_none=none
            )
            expected = [job.id for job in made if self._fits(job, query)]
            for descending in (True, False):
                page = self._page(opened, replace(query, descending=descending))
                assert [job.id for job in page.items] == (expected if descending else expected[::-1]), query
                assert page.total == len(expected)

    def test_each_phase_has_its_jobs(self, opened: Opened) -> None:
        made: dict[str, JobPhase | None] = {}
        for number, ((state, stopped, between), phase) in enumerate(PHASES.items()):
            name = f"n{number}"
            made[name] = phase
            retry_at = later(hours=1) if between else None
            opened.advance(opened.submit(name).id, state, stop=STOP if stopped else None, retry_at=retry_at)
        for phase in JobPhase:
            expected = [name for name, its in reversed(made.items()) if its is phase]
            assert self._names(opened, phases=(phase,)) == expected, phase
        everything = [name for name, its in reversed(made.items()) if its is not None]
        assert self._names(opened, phases=tuple(JobPhase)) == everything
        by_state = self._names(opened, order=JobOrder.STATE, descending=False)
        shown = [made[name] or "unknown" for name in by_state]
        assert shown == sorted(shown)

    def test_priorities_are_some_or_any_but_some(self, opened: Opened) -> None:
        for priority in (-5, 0, 1, 7, 2**31 - 1):
            opened.submit(str(priority), job=a_job(str(priority), priority=priority))
        assert self._names(opened, priorities=(1, 7, 2**70)) == ["7", "1"]
        assert self._names(opened, other_priorities=(1, 7, -(2**70))) == [str(2**31 - 1), "0", "-5"]
        assert self._names(opened, priorities=(7,), other_priorities=(1, 7, 0)) == [str(2**31 - 1), "7", "-5"]
        assert len(self._names(opened, other_priorities=())) == 5
        assert self._names(opened, priorities=()) == []

    def test_empty_choices_list_nothing_and_empty_text_everything(self, opened: Opened) -> None:
        opened.submit("a")
        nothing: list[dict[str, Any]] = [{"groups": ()}, {"named_groups": ()}, {"users": ()}, {"phases": ()}]
        for more in [*nothing, {"tags_any": ()}]:
            page = self._page(opened, replace(INTERVAL, **more))
            assert (page.items, page.total) == ((), 0), more
        assert self._names(opened, text="", tags_none=()) == ["a"]

    def test_more_choices_than_are_merged(self, opened: Opened) -> None:
        for number in range(5):
            opened.submit(str(number), group=f"g{number * 100}")
        many = tuple(f"g{number}" for number in range(450))
        for users in (None, ("ann", "bob")):
            assert self._names(opened, groups=many, users=users) == ["4", "3", "2", "1", "0"]
            assert self._names(opened, groups=many, users=users, offset=1, limit=2) == ["3", "2"]

    # -- pages

    def test_pages_together_are_the_whole(self, opened: Opened) -> None:
        made = self._mixed(opened)
        queries = (
            INTERVAL,
            replace(INTERVAL, groups=("red", "blue")),
            replace(INTERVAL, users=("ann",), order=JobOrder.NAME),
        )
        for query, limit in product(queries, (1, 5, 100)):
            whole = self._page(opened, query).items
            assert len(whole) == sum(self._fits(job, query) for job in made)
            parts: list[JobSummary] = []
            for offset in range(0, len(whole), limit):
                page = self._page(opened, replace(query, offset=offset, limit=limit))
                assert page.total == len(whole)
                parts += page.items
            assert tuple(parts) == whole

    def test_counting_is_asked_for_and_needs_no_rows(self, opened: Opened) -> None:
        for name in "abc":
            opened.submit(name)
        assert opened.read(jobs.list_numbered_page, INTERVAL, count=False).total is None
        page = self._page(opened, replace(INTERVAL, limit=0))
        assert (page.items, page.total) == ((), 3)

    def test_odd_numbers_are_taken_for_what_they_can_mean(self, opened: Opened) -> None:
        opened.submit("a")
        for offset, limit, found in ((-5, 1, ["a"]), (2**80, 1, []), (0, 2**80, ["a"]), (0, -1, []), (1, 5, [])):
            for more in ({}, {"order": JobOrder.NAME}, {"groups": ("default",)}):
                assert self._names(opened, offset=offset, limit=limit, **more) == found
                page = opened.read(
                    jobs.list_numbered_page, replace(INTERVAL, offset=offset, limit=limit, **more), count=False
                )
                assert [job.name for job in page.items] == found

    def test_summaries_are_those_of_the_jobs(self, opened: Opened) -> None:
        opened.advance(
            opened.submit("a").id, JobState.PENDING, user_retries=2, platform_retries=3, retry_at=later(days=1)
        )
        (job,) = self._page(opened, INTERVAL).items
        assert job == opened.read(jobs.load_job_detail, job.id).summary
        assert (job.user_retries, job.platform_retries, job.retry_at) == (2, 3, later(days=1))

    # -- orders

    @pytest.mark.release_after(4)
    @pytest.mark.parametrize("order", list(JobOrder))
    def test_every_order_both_ways_with_ties_as_submitted(self, opened: Opened, order: JobOrder) -> None:
        made = self._mixed(opened)
        found = self._page(opened, replace(INTERVAL, order=order, descending=False)).items
        assert [job.id for job in found] == [job.id for job in sorted(made, key=lambda job: _key(order, job))]
        other_way = self._page(opened, replace(INTERVAL, order=order, descending=True)).items
        assert other_way == found[::-1]

    # -- text

    def test_text_is_part_of_name_user_or_group_but_not_of_the_id(self, opened: Opened) -> None:
        job = opened.submit("Train", user="Ärmel", group="blue")
        opened.submit("other", user="bob", group="red")
        for text in ("train", "RAI", "ärm", "ÄRMEL", "A\u0308rmel", "blu", "BLUE"):
            assert self._names(opened, text=text) == ["Train"], text
        for text in (job.id, job.id[-6:], "job-2", "trainblue", "train\n", "\n"):
            assert self._names(opened, text=text) == [], text

    def test_a_search_looks_into_name_and_id_and_nowhere_else(self, opened: Opened) -> None:
        job = opened.submit("Train Ärmel", user="bob", group="blue")
        opened.submit("other", user="ann", group="red")
        for text in ("train", "ÄRM", "n ä", job.id, job.id[-6:], job.id.upper()):
            assert self._names(opened, name_or_id=text) == ["Train Ärmel"], text
        assert self._names(opened, name_or_id="job-2") == ["other", "Train Ärmel"]
        for text in ("bob", "blue", "%", "trainjob", "\n", "l\nj", "\0", "\ud800", "x" * 10_000):
            assert self._names(opened, name_or_id=text) == [], text

    def test_letters_of_a_name_are_those_and_no_others(self, opened: Opened) -> None:
        for name in ("Train", "train", "TRAIN it"):
            opened.submit(name)
        assert self._names(opened, in_name="rain") == ["train", "Train"]
        assert self._names(opened, in_name="Train") == ["Train"]
        assert self._names(opened, in_name="T") == ["TRAIN it", "Train"]
        for text in ("%", "_rain", "job-", "\n", "\0", "\ud800"):
            assert self._names(opened, in_name=text) == [], text

    def test_before_and_after_another_job(self, opened: Opened) -> None:
        seqs = {name: opened.submit(name, group="red" if name in "ac" else "blue").seq for name in "abcde"}
        assert self._names(opened, before_seq=seqs["d"]) == ["c", "b", "a"]
        assert self._names(opened, before_seq=seqs["d"], after_seq=seqs["a"], descending=False) == ["b", "c"]
        assert self._names(opened, before_seq=seqs["c"], groups=("red",)) == ["a"]
        assert self._names(opened, before_seq=-1) == []
        assert self._names(opened, after_seq=2**80) == []

    def test_hostile_text_means_itself(self, opened: Opened) -> None:
        opened.submit("plain")
        for text in (
            "%",
            "_",
            "p%n",
            "pl_in",
            "'",
            '"',
            "plain\0",
            "\0",
            "\ud800",
            "{}",
            "?",
            "' OR 1=1 --",
            "x" * 10_000,
        ):
            assert self._names(opened, text=text) == [], text
            for more in ({"users": (text,)}, {"groups": (text,)}, {"named_groups": (text,)}, {"tags_any": (text,)}):
                assert self._names(opened, **more) == [], text
            assert self._names(opened, tags_none=(text,)) == ["plain"]

    @pytest.mark.parametrize("descending", [False, True])
    def test_priorities_that_do_not_count_are_none(self, opened: Opened, descending: bool) -> None:
        """They come last, or first when it is descending, whatever they are."""
        for name, priority in (("low", -1), ("some", 5), ("high", 100), ("none", 0), ("most", 2**31 - 1)):
            opened.submit(name, job=replace(a_job(name), priority=priority))
        found = self._names(
            opened, order=JobOrder.PRIORITY, ordered_priorities=(100, -1, 2**40), descending=descending, text="o"
        )
        expected = ["low", "some", "none", "most"]
        assert found == (expected[::-1] if descending else expected)
        everything = self._names(opened, order=JobOrder.PRIORITY, ordered_priorities=(100, -1), descending=descending)
        expected = ["low", "high", "some", "none", "most"]
        assert everything == (expected[::-1] if descending else expected)

    def test_hostile_names_are_found(self, opened: Opened) -> None:
        for name in HOSTILE:
            opened.submit(name, user=f"u {name}", job=a_job(name, tags=(name,)))
        for name in HOSTILE:
            assert name in self._names(opened, text=name)
            assert name in self._names(opened, text=name.upper())
            assert self._names(opened, tags_any=(name,)) == [name]
            assert self._names(opened, users=(f"u {name}",)) == [name]
            assert len(self._names(opened, tags_none=(name,))) == len(HOSTILE) - 1

    # -- helpers

    @staticmethod
    def _page(opened: Opened, query: OffsetPageQuery) -> OffsetPage:
        return opened.read(jobs.list_numbered_page, query, count=True)

    def _names(self, opened: Opened, **more: Any) -> list[str]:
        return [job.name for job in self._page(opened, replace(INTERVAL, **more)).items]

    @staticmethod
    def _mixed(opened: Opened) -> list[JobSummary]:
        """Jobs of all kinds, newest first."""
        names = ("train one", "Train two", "other", "no_", "training")
        states = (JobState.PENDING, JobState.FAILED, JobState.SUCCEEDED, JobState.RUNNING, JobState.CANCELLED)
        tags = ((), ("x",), ("y", "x"), ("z",), ("y",))
        for number in range(30):
            role = replace(
                a_job().roles[0], instances=1 + number % 2, resources=Resources(cpu=1, memory=1, gpu=number % 3)
            )
            job = replace(
                a_job(names[number % 5], ("red", "blue", "Red")[number // 2 % 3]),
                roles=(role,),
                priority=number % 4,
                tags=tags[number // 3 % 5],
            )
            user = ("ann", "bob", "_eve")[number % 3]
            schedule = ("recurrence-b", None, "recurrence-a")[number % 7 % 3]
            id = opened.submit(job=job, user=user, at=later(minutes=number), schedule=schedule).id
            state = states[number * 7 % 5]
            opened.advance(
                id,
                state,
                finished_at=later(hours=number * 11 % 7) if state.final else None,
                user_retries=number % 3,
                platform_retries=number % 2,
                stop=STOP if number % 9 == 0 else None,
            )
        found = list(opened.read(jobs.list_numbered_page, INTERVAL, count=False).items)
        assert len(found) == 30
        assert [job.seq for job in found] == sorted((job.seq for job in found), reverse=True)
        return found

    @staticmethod
    def _fits(job: JobSummary, query: OffsetPageQuery) -> bool:
        text = (query.text or "").casefold()
        return (
            (query.users is None or job.user in query.users)
            and (query.groups is None or job.group in query.groups)
            and (query.named_groups is None or job.group in query.named_groups)
            and (query.phases is None or _phase(job) in query.phases)
            and any(text in part.casefold() for part in (job.name, job.user, job.group))
            and (query.tags_any is None or bool(set(job.tags) & set(query.tags_any)))
            and not set(job.tags) & set(query.tags_none or ())
        )


def _phase(job: JobSummary) -> JobPhase | None:
    return (
        PHASES[job.state, job.stopping, job.retry_at is not None]
        if not job.state.final
        else JobPhase(job.state.lower())
    )


def _key(order: JobOrder, job: JobSummary) -> tuple[Any, ...]:
    never = NOW + timedelta(days=9999)
    by: dict[JobOrder, Any] = {
        JobOrder.NAME: job.name,
        JobOrder.SUBMITTED: 0,
        JobOrder.USER: job.user,
        JobOrder.GROUP: job.group,
        JobOrder.RETRIES: job.user_retries + job.platform_retries,
        JobOrder.TASKS: job.task_count,
        JobOrder.GPUS: job.gpu,
        JobOrder.STATE: _phase(job),
        JobOrder.FINISHED: job.finished_at or never,
        JobOrder.PRIORITY: job.priority,
        JobOrder.SCHEDULE: job.schedule or "~",  # after every id
        JobOrder.SHOWN_STATE: "Cancelled" if job.stopping else SHOWN.get(job.state, job.state),
    }
    return (by[order], job.seq)
