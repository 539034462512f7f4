"""Calls about logs. Positions are stable byte offsets, so a reader can continue where it stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypedDict, Unpack

from holdfast import api

from .calls import (
    Call,
    Flow,
    OpenStream,
    Pause,
    ReadChunk,
    Reply,
    Request,
    RetryTimer,
    Steps,
    StreamItem,
    build_call,
    build_path,
    check_reply,
    endpoint,
    is_temporary_error,
    stream_method,
    to_query_params,
)
from .errors import ApiError, CannotConnect

IDLE_TIMEOUT = 60.0  # seconds without data after which a follower reconnects, in case the connection is dead
RESTART_TIMEOUT = 60.0  # seconds
RECONNECT_INTERVAL = 0.1  # seconds before reconnecting to a log whose stream ended early


class LogOptions(TypedDict, total=False):
    """Options that select a log. Default: both streams of the newest try of the task that decided, or the first."""

    task: str | None
    attempt: int | None
    number: int | None  # the try of the task
    stream: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSelection:
    """A selected log."""

    ref: str
    task: str | None = None
    attempt: int | None = None
    number: int | None = None
    stream: str | None = None

    @property
    def path(self) -> str:
        return build_path("jobs", self.ref, "log")

    def build_params(self, **more: object) -> dict[str, object]:
        own = {"task": self.task, "attempt": self.attempt, "try": self.number, "stream": self.stream}
        return {**own, **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A part of a log and its position."""

    data: bytes
    start: int
    end: int
    size: int  # of the whole log so far
    complete: bool  # the log will not grow
    task: str = ""  # task of the log


class LogCalls:
    @endpoint
    def get_log(
        self,
        ref: str,
        *,
        start: int | None = None,
        count: int | None = None,
        lines: int | None = None,
        last_bytes: int | None = None,
        since: datetime | float | None = None,
        **options: Unpack[LogOptions],
    ) -> Call[Log]:
        """Return a part of a task's log: a range, the last lines or bytes, or output since a time (or in the last
        `since` seconds). Default: the whole log; prefer `stream_log` for that."""
        chosen = LogSelection(ref=ref, **options)
        part = {"start": start, "count": count, "lines": lines, "bytes": last_bytes, "since": _format_since(since)}
        return build_call("GET", chosen.path, _parse_log, params=chosen.build_params(**part), headers=IDENTITY_HEADERS)

    @stream_method
    def stream_log(
        self,
        ref: str,
        *,
        follow: bool = False,
        start: int | None = None,
        lines: int | None = None,
        since: datetime | float | None = None,
        through_hold: bool = False,
        retry_timeout: float = RESTART_TIMEOUT,
        **options: Unpack[LogOptions],
    ) -> Flow[bytes]:
        """Stream a task's log; with `follow`, until the task has ended, or is held unless `through_hold`. Continues at
        the same byte after a lost connection or a server restart."""
        chosen = LogSelection(ref=ref, **options)
        part = {"start": start, "lines": lines, "since": _format_since(since)}
        return _stream_log(
            chosen, part, _FollowMode(enabled=follow, stop_when_held=follow and not through_hold), retry_timeout
        )

    @endpoint
    def search_log(
        self,
        ref: str,
        text: str,
        *,
        regex: bool = False,
        ignore_case: bool = False,
        start: int | None = None,
        limit: int | None = None,
        **options: Unpack[LogOptions],
    ) -> Call[api.logs.LogHits]:
        """Search a log for `text`; continue at `next` of the result."""
        chosen = LogSelection(ref=ref, **options)
        search = {"q": text, "regex": regex, "ignore_case": ignore_case, "start": start, "limit": limit}
        return build_call("GET", f"{chosen.path}/search", api.logs.LogHits, params=chosen.build_params(**search))


IDENTITY_HEADERS = {"Accept-Encoding": "identity"}  # no compression, which would delay output


@dataclass(frozen=True, slots=True, kw_only=True)
class _FollowMode:
    enabled: bool = False
    stop_when_held: bool = False  # stop when the task has ended or is held


def _stream_log(chosen: LogSelection, part: Mapping[str, object], follow: _FollowMode, seconds: float) -> Flow[bytes]:
    """Stream a log with reconnects. `at`: offset of the next byte; None until the first response."""
    at: int | None = None
    retry_timeout = RetryTimer(0)  # no retries before the first response
    while True:
        pause = Pause(RECONNECT_INTERVAL)
        try:
            if follow.enabled:
                chosen = yield from _pin_try(chosen)
                retry_timeout.seconds = seconds
            reply = check_reply(
                (yield OpenStream(_build_log_request(chosen, part if at is None else {"start": at}, follow)))
            )
            retry_timeout.seconds = seconds
            chosen = replace(chosen, task=reply.headers.get("x-log-task") or chosen.task)  # keep the same task
            at = max(at or 0, int(reply.headers.get("x-log-start", "0")))
            while data := (yield ReadChunk()):
                at += len(data)
                retry_timeout.reset()
                yield StreamItem(data)
            if not follow.enabled or (yield from _is_log_complete(chosen, at, follow.stop_when_held)):
                return
        except CannotConnect as error:
            if error.silent and follow.enabled:
                retry_timeout.reset()  # an idle log is not a failure; each try checks the server first
            elif error.lost:
                retry_timeout.seconds = seconds
            pause = retry_timeout.next_pause(error)
        except ApiError as error:
            if not is_temporary_error(error):
                raise
            pause = retry_timeout.next_pause(error)
        yield pause


def _pin_try(chosen: LogSelection) -> Steps[LogSelection]:
    """Pin the newest try: a later one would have different offsets."""
    job_call = build_call("GET", build_path("jobs", chosen.ref), api.jobs.JobDetail)
    try:
        job = job_call.parse_reply(check_reply((yield job_call.request)))
    except CannotConnect as error:
        error.silent = False  # a timeout is a failure here
        raise
    if chosen.attempt is not None:
        return chosen
    name = chosen.task or job.decided_by
    named = [task for task in job.tasks if name in (None, task.task)]
    if not named:
        return replace(chosen, ref=job.id)
    number = chosen.number if chosen.number is not None else named[0].number
    return replace(chosen, ref=job.id, task=named[0].task, attempt=named[0].attempt, number=number)


def _is_log_complete(chosen: LogSelection, at: int, held: bool) -> Steps[bool]:
    """A stream also ends when the server stops. `held`: the log of a held task is complete."""
    try:
        reply: Reply = check_reply((yield _build_log_request(chosen, {"start": at, "count": 1}, _FollowMode())))
    except ApiError as error:
        if error.code in ("no_log", "expired"):
            return True
        raise
    done = reply.headers.get("x-log-complete") == "true" or (held and reply.headers.get("x-log-held") == "true")
    return done and int(reply.headers.get("x-log-size", "0")) <= at


def _build_log_request(chosen: LogSelection, part: Mapping[str, object], follow: _FollowMode) -> Request:
    return Request(
        method="GET",
        path="/api/v1" + chosen.path,
        params=to_query_params(chosen.build_params(follow=follow.enabled, held=follow.stop_when_held or None, **part)),
        headers=IDENTITY_HEADERS,
        timeout=IDLE_TIMEOUT,
    )


def _parse_log(reply: Reply) -> Log:
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


def _format_since(since: datetime | float | None) -> str | None:
    return since.isoformat() if isinstance(since, datetime) else None if since is None else f"{since:g}"
