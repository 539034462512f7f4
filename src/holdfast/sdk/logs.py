"""Calls about logs. Positions are byte offsets that never change their meaning, so a reader can go on where it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from holdfast import api

from .errors import ApiError, CannotConnect
from .exchange import (
    Call,
    Flow,
    Give,
    Open,
    Patience,
    Pause,
    Reply,
    Request,
    Steps,
    Take,
    as_a,
    as_params,
    busy,
    call,
    checked,
    endpoint,
    flow,
    segment,
)

QUIET = 60.0  # seconds without a byte after which a follower connects anew, in case the line is dead
RESTART_TIMEOUT = 60.0
RECONNECT = 0.1  # seconds before asking again for a log whose stream ended before the log did


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which log of a job: by default the newest try of the task that decided, or the first; both streams."""

    ref: str
    task: str | None = None
    attempt: int | None = None
    number: int | None = None
    stream: str | None = None

    @property
    def path(self) -> str:
        return f"/jobs/{segment(self.ref)}/log"

    def params(self, **more: object) -> dict[str, object]:
        own = {"task": self.task, "attempt": self.attempt, "try": self.number, "stream": self.stream}
        return {**own, **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A piece of a log and where it lies in the whole."""

    data: bytes
    start: int
    end: int
    size: int  # of the whole log so far
    complete: bool  # no more bytes will come
    task: str = ""  # whose log it is


class LogCalls:
    @endpoint
    def log(
        self,
        ref: str,
        *,
        task: str | None = None,
        attempt: int | None = None,
        number: int | None = None,
        stream: str | None = None,
        start: int | None = None,
        count: int | None = None,
        lines: int | None = None,
        last_bytes: int | None = None,
        since: datetime | float | None = None,
    ) -> Call[Log]:
        """A piece of a task's log in one answer: a range, the last lines or bytes, or what came since a time (or within
        the last so many seconds). Without any of these the whole log: prefer `stream_log` for that."""
        chosen = Selection(ref=ref, task=task, attempt=attempt, number=number, stream=stream)
        part = {"start": start, "count": count, "lines": lines, "bytes": last_bytes, "since": _since(since)}
        return call("GET", chosen.path, _as_log, params=chosen.params(**part), headers=IDENTITY)

    @flow
    def stream_log(
        self,
        ref: str,
        *,
        follow: bool = False,
        task: str | None = None,
        attempt: int | None = None,
        number: int | None = None,
        stream: str | None = None,
        start: int | None = None,
        lines: int | None = None,
        since: datetime | float | None = None,
        through_hold: bool = False,
        patience: float = RESTART_TIMEOUT,
    ) -> Flow[bytes]:
        """A task's log, exactly as written, piece by piece; with `follow` until the task has ended, or is held unless
        `through_hold`. When the connection breaks or the server restarts, goes on at the byte where it stopped."""
        chosen = Selection(ref=ref, task=task, attempt=attempt, number=number, stream=stream)
        part = {"start": start, "lines": lines, "since": _since(since)}
        return _stream(chosen, part, _Following(wanted=follow, held=follow and not through_hold), patience)

    @endpoint
    def search_log(
        self,
        ref: str,
        text: str,
        *,
        regex: bool = False,
        ignore_case: bool = False,
        task: str | None = None,
        attempt: int | None = None,
        number: int | None = None,
        stream: str | None = None,
        start: int | None = None,
        limit: int | None = None,
    ) -> Call[api.logs.LogHits]:
        """Where `text` occurs in a log; `next` of the answer is where to go on."""
        chosen = Selection(ref=ref, task=task, attempt=attempt, number=number, stream=stream)
        asked = {"q": text, "regex": regex, "ignore_case": ignore_case, "start": start, "limit": limit}
        return call("GET", f"{chosen.path}/search", as_a(api.logs.LogHits), params=chosen.params(**asked))


IDENTITY = {"Accept-Encoding": "identity"}  # byte for byte, with nothing held back to be compressed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Following:
    wanted: bool = False
    held: bool = False  # only until the task has ended or is held


def _stream(chosen: Selection, part: Mapping[str, object], follow: _Following, seconds: float) -> Flow[bytes]:
    """`at` is the offset of the next byte; None until the server has said where the part begins."""
    at: int | None = None
    patience = Patience(0)  # until something answered, a missing server is an error at once
    while True:
        pause = Pause(RECONNECT)
        try:
            if follow.wanted:
                chosen = yield from _pin(chosen)
                patience.seconds = seconds
            reply = checked((yield Open(_request(chosen, part if at is None else {"start": at}, follow))))
            patience.seconds = seconds
            chosen = replace(chosen, task=reply.headers.get("x-log-task") or chosen.task)  # the same one ever after
            at = max(at or 0, int(reply.headers.get("x-log-start", "0")))
            while data := (yield Take()):
                at += len(data)
                patience.reset()
                yield Give(data)
            if not follow.wanted or (yield from _is_over(chosen, at, follow.held)):
                return
        except CannotConnect as error:
            if error.silent and follow.wanted:
                patience.reset()  # a quiet log is no failure; whether the server lives is asked before each try
            elif error.lost:
                patience.seconds = seconds
            pause = patience.pause(error)
        except ApiError as error:
            if not busy(error):
                raise
            pause = patience.pause(error)
        yield pause


def _pin(chosen: Selection) -> Steps[Selection]:
    """Name the try: after a restart of the server the newest one may be another, and offsets would mix."""
    ask = call("GET", f"/jobs/{segment(chosen.ref)}", as_a(api.jobs.JobDetail))
    try:
        job = ask.read(checked((yield ask.request)))
    except CannotConnect as error:
        error.silent = False  # silence is a failure here
        raise
    if chosen.attempt is not None:
        return chosen
    wanted = chosen.task or job.decided_by
    named = [task for task in job.tasks if wanted in (None, task.task)]
    if not named:
        return replace(chosen, ref=job.id)
    number = chosen.number if chosen.number is not None else named[0].number
    return replace(chosen, ref=job.id, task=named[0].task, attempt=named[0].attempt, number=number)


def _is_over(chosen: Selection, at: int, held: bool) -> Steps[bool]:
    """A stream also ends when the server goes down: only a complete log that was read to its end is over; with `held`,
    also that of a task that is held."""
    try:
        reply: Reply = checked((yield _request(chosen, {"start": at, "count": 1}, _Following())))
    except ApiError as error:
        if error.code in ("no_log", "expired"):
            return True
        raise
    done = reply.headers.get("x-log-complete") == "true" or (held and reply.headers.get("x-log-held") == "true")
    return done and int(reply.headers.get("x-log-size", "0")) <= at


def _request(chosen: Selection, part: Mapping[str, object], follow: _Following) -> Request:
    return Request(
        method="GET",
        path="/api/v1" + chosen.path,
        params=as_params(chosen.params(follow=follow.wanted, held=follow.held or None, **part)),
        headers=IDENTITY,
        timeout=QUIET,
    )


def _as_log(reply: Reply) -> Log:
    start = int(reply.headers.get("x-log-start", "0"))
    end = start + len(reply.body)
    return Log(
        data=reply.body,
        start=start,
        end=int(reply.headers.get("x-log-end", end)),
        size=int(reply.headers.get("x-log-size", end)),
        complete=reply.headers.get("x-log-complete") == "true",
        task=reply.headers.get("x-log-task", ""),
    )


def _since(since: datetime | float | None) -> str | None:
    return since.isoformat() if isinstance(since, datetime) else None if since is None else f"{since:g}"
