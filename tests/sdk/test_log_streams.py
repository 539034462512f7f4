"""Byte for byte, whatever happens to the connection."""

from __future__ import annotations

import pytest

from holdfast.sdk import ApiError, CannotConnect

from .conftest import Ask
from .scripted import Asked, Drop, Say, ScriptedServer, a_job, a_task, error_say, json_say

DATA = bytes(range(256)) * 40


class LogRoute:
    """Serves DATA as a log of attempt 2, try 1; breaks off after `cuts[n]` bytes of the n-th stream."""

    def __init__(self, cuts: list[int], *, first: int = 0) -> None:
        self.cuts = cuts
        self.first = first
        self.starts: list[int] = []

    def __call__(self, asked: Asked) -> Say:
        start = max(self.first, int(asked.params.get("start", "0")))
        if "lines" in asked.params:
            start = len(DATA) - 100
        headers = {"X-Log-Start": str(start), "X-Log-Size": str(len(DATA)), "X-Log-Complete": "true"}
        if "count" in asked.params:
            return Say(DATA[start : start + int(asked.params["count"])], headers=headers)
        self.starts.append(start)
        if self.cuts:
            return Say(DATA[start : start + self.cuts.pop(0)], headers=headers, cut=True)
        return Say(DATA[start:], headers=headers)


@pytest.fixture
def job(server: ScriptedServer) -> None:
    tasks = [a_task(attempt=2, number=1), a_task(task="main-1", attempt=2, number=0)]
    server.on("GET", "/jobs/train", json_say(a_job(tasks=tasks)))
    server.on("GET", "/jobs/job-1", json_say(a_job(tasks=tasks)))


@pytest.mark.usefixtures("job")
def test_follows_to_the_end(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/jobs/job-1/log", LogRoute([]))
    assert b"".join(ask("stream_log", "train", follow=True)) == DATA


@pytest.mark.usefixtures("job")
def test_goes_on_at_the_byte_where_the_connection_broke(server: ScriptedServer, ask: Ask) -> None:
    route = LogRoute([1000, 0, 777])
    server.on("GET", "/jobs/job-1/log", route)
    assert b"".join(ask("stream_log", "train", follow=True, lines=None)) == DATA
    assert route.starts == [0, 1000, 1000, 1777]


@pytest.mark.usefixtures("job")
def test_stays_with_the_try_it_began_with(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/jobs/job-1/log", LogRoute([10]))
    ask("stream_log", "train", follow=True, task="main-0")
    chosen = [asked.params for asked in server.asked if asked.path.endswith("/log")]
    assert all((one["attempt"], one["try"], one["task"]) == ("2", "1", "main-0") for one in chosen)


@pytest.mark.usefixtures("job")
def test_a_tail_cut_off_goes_on_by_offset(server: ScriptedServer, ask: Ask) -> None:
    route = LogRoute([60])
    server.on("GET", "/jobs/job-1/log", route)
    assert b"".join(ask("stream_log", "job-1", follow=True, lines=3)) == DATA[-100:]
    assert route.starts == [len(DATA) - 100, len(DATA) - 40]


def test_a_whole_log_cut_off_goes_on_too(server: ScriptedServer, ask: Ask) -> None:
    route = LogRoute([4096])
    server.on("GET", "/jobs/train/log", route)
    assert b"".join(ask("stream_log", "train")) == DATA
    assert route.starts == [0, 4096]


@pytest.mark.usefixtures("job")
def test_a_stream_that_ends_before_the_log_does_is_taken_up_again(server: ScriptedServer, ask: Ask) -> None:
    """As when the server closes its streams politely before it goes down."""

    def part(asked: Asked) -> Say:
        return Say(DATA[:50], headers={"X-Log-Start": "0"})

    def not_complete(asked: Asked) -> Say:
        return Say(headers={"X-Log-Start": "50", "X-Log-Size": "50", "X-Log-Complete": "false"})

    server.on("GET", "/jobs/job-1/log", part, not_complete, LogRoute([]))
    assert b"".join(ask("stream_log", "job-1", follow=True)) == DATA


@pytest.mark.usefixtures("job")
def test_a_restart_in_the_middle_changes_nothing(server: ScriptedServer, ask: Ask) -> None:
    route = LogRoute([5000])

    def go_down(asked: Asked) -> Say:
        server.on("GET", "/jobs/job-1/log", route)
        server.restart_soon()
        return route(asked)

    server.on("GET", "/jobs/job-1/log", go_down)
    assert b"".join(ask("stream_log", "job-1", follow=True)) == DATA
    assert route.starts == [0, 5000]


@pytest.mark.usefixtures("job")
def test_older_bytes_dropped_by_the_size_cap_are_skipped(server: ScriptedServer, ask: Ask) -> None:
    route = LogRoute([10], first=300)
    server.on("GET", "/jobs/job-1/log", route)
    assert b"".join(ask("stream_log", "job-1", follow=True)) == DATA[300:]


def test_no_server_at_the_start_is_an_error_at_once(server: ScriptedServer, ask: Ask) -> None:
    server.stop()
    with pytest.raises(CannotConnect):
        ask("stream_log", "train", follow=True)
    server.start()


@pytest.mark.usefixtures("job")
def test_a_server_that_never_comes_back_ends_the_patience(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/jobs/job-1/log", Drop())
    with pytest.raises(CannotConnect, match="Lost the connection"):
        ask("stream_log", "job-1", follow=True, retry_timeout=0.2)


@pytest.mark.usefixtures("job")
def test_an_expired_log_is_an_error(server: ScriptedServer, ask: Ask) -> None:
    server.on("GET", "/jobs/job-1/log", error_say("expired", 410, "expired on 2026-01-01"))
    with pytest.raises(ApiError, match="expired on"):
        ask("stream_log", "job-1", follow=True)


def test_a_piece_knows_where_it_lies(server: ScriptedServer, ask: Ask) -> None:
    headers = {"X-Log-Start": "5", "X-Log-End": "8", "X-Log-Size": "20", "X-Log-Complete": "false"}
    server.on("GET", "/jobs/train/log", Say(b"abc", headers=headers))
    log = ask("get_log", "train", start=5, count=3, stream="stderr")
    assert (log.data, log.start, log.end, log.size, log.complete) == (b"abc", 5, 8, 20, False)
    assert server.asked[0].params == {"start": "5", "count": "3", "stream": "stderr"}


@pytest.mark.parametrize("follow", [True, False])
def test_stays_with_the_task_it_was_shown(server: ScriptedServer, ask: Ask, follow: bool) -> None:
    """Which one is shown by default changes once a task has decided."""
    tasks = [a_task(attempt=2, number=1), a_task(task="main-1", attempt=2, number=0)]
    server.on("GET", "/jobs/job-1", json_say(a_job(tasks=tasks, decided_by="main-1")))
    cuts = [10]

    def route(asked: Asked) -> Say:
        start = int(asked.params.get("start", "0"))
        headers = {"X-Log-Task": "main-1", "X-Log-Start": str(start), "X-Log-Size": "50", "X-Log-Complete": "true"}
        cut = cuts.pop() if cuts else 0
        return Say(DATA[start : cut or 50], headers=headers, cut=bool(cut))

    server.on("GET", "/jobs/job-1/log", route)
    assert b"".join(ask("stream_log", "job-1", follow=follow)) == DATA[:50]
    asked = [one.params.get("task") for one in server.asked if one.path.endswith("/log")]
    assert asked[1:] == ["main-1"] * (len(asked) - 1)
    assert len(asked) > 1
    assert asked[0] == ("main-1" if follow else None)
