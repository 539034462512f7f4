"""How SQLite reads a page by number, and finds a name: along an index, never by sorting or reading all jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from holdfast.core.records import JobOrder, JobPhase, OffsetPageQuery
from holdfast.store.jobs import records as jobs

from .open_store import Opened

GROUPS = tuple(f"g{number}" for number in range(20))


@pytest.mark.release_after(8)
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"groups": ("red",)},
        {"groups": GROUPS, "named_groups": GROUPS[:9]},
        {"users": ("ann", "bob")},
        {"users": ("ann",), "groups": GROUPS},
        {"phases": tuple(JobPhase)},
        {"phases": (JobPhase.FAILED,), "groups": GROUPS},
        {"phases": (JobPhase.WAITING, JobPhase.RUNNING), "users": ("ann",), "groups": GROUPS},
        {"tags_none": ("x",), "other_priorities": (1,)},
        {"groups": GROUPS, "before_seq": 5},
        {"users": ("ann",), "groups": GROUPS, "after_seq": 5},
    ],
)
def test_by_submission_nothing_is_sorted(tmp_path: Path, more: dict[str, Any], descending: bool) -> None:
    plan = _plan(tmp_path, OffsetPageQuery(descending=descending, offset=10, **more))
    assert not [line for line in plan if "TEMP B-TREE" in line]
    assert "SCAN jobs" not in plan or not {"groups", "users", "phases"} & more.keys()


def test_other_orders_are_sorted(tmp_path: Path) -> None:
    """Else the test above would see nothing."""
    assert any("TEMP B-TREE" in line for line in _plan(tmp_path, OffsetPageQuery(order=JobOrder.GPUS)))


@pytest.mark.parametrize("groups", [None, ("red",), GROUPS])
def test_a_name_is_looked_up_by_user_and_name(tmp_path: Path, groups: tuple[str, ...] | None) -> None:
    """However many jobs there are in the groups of whoever asks."""
    plan = _explain(tmp_path, lambda conn: jobs.find_newest_named_job(conn, "ann", "mnist", groups))
    assert any("ix_jobs_user_job" in line for line in plan)
    assert not any("group" in line for line in plan)


def _plan(folder: Path, query: OffsetPageQuery) -> list[str]:
    return _explain(folder, lambda conn: jobs.list_numbered_page(conn, query, count=False))


def _explain(folder: Path, look: Callable[[Connection], Any]) -> list[str]:
    opened = Opened(f"sqlite:///{folder / 'holdfast.db'}")
    try:
        return opened.read(_explained, look)
    finally:
        opened.close()


def _explained(conn: Connection, look: Callable[[Connection], Any]) -> list[str]:
    statements: list[tuple[str, Any]] = []

    def note(conn: Any, cursor: Any, statement: str, values: Any, context: Any, many: bool) -> None:
        statements.append((statement, values))

    event.listen(conn, "before_cursor_execute", note)
    look(conn)
    event.remove(conn, "before_cursor_execute", note)
    pages = [(sql, values) for sql, values in statements if sql.startswith("SELECT seq ")]
    assert len(pages) == 1
    sql, values = pages[0]
    return [row[3] for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)]


def test_few_jobs_with_a_text_are_looked_up(tmp_path: Path) -> None:
    opened = Opened(f"sqlite:///{tmp_path / 'holdfast.db'}")
    opened.submit("train")
    opened.close()
    plan = _plan(tmp_path, OffsetPageQuery(text="train"))
    assert any("INTEGER PRIMARY KEY (rowid=?)" in line for line in plan)
