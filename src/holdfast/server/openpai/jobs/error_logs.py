"""The last log lines of the task that caused an attempt to fail, without the job's secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdfast.core.masking import shorten_stars
from holdfast.services.logs.service import Logs, TaskLog

MAX_USER_LINES, MAX_PLATFORM_LINES = 15, 10
MAX_READ_SIZE = 16384  # bytes to read

_PLATFORM_LINE_PATTERN = re.compile(r"\[[^\]]{0,40}\] \[openpai-runtime\] (.*)")


@dataclass(frozen=True, slots=True)
class ErrorLogs:
    user: str = ""
    platform: str = ""  # lines of the platform around its commands


NO_ERROR_LOGS = ErrorLogs()


async def read_error_logs(logs: Logs, chosen: TaskLog) -> ErrorLogs:
    """Return nothing when there is no log or it was deleted."""
    if chosen.record.logs_removed_at is not None or (source := logs.find_source(chosen)) is None:
        return NO_ERROR_LOGS
    span = await logs.get_full_span(source)
    start = max(span.start, span.end - MAX_READ_SIZE)
    data = await source.read(start, span.end - start)
    cut = start > span.start
    return parse_error_logs(await logs.mask_secrets(chosen, data, cut=cut), whole=not cut)


def parse_error_logs(data: bytes, *, whole: bool) -> ErrorLogs:
    """Return lines from the end of a log; unless it is `whole`, its first line is cut."""
    lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n") if data else []
    user: list[str] = []
    platform: list[str] = []
    for line in lines if whole or len(lines) == 1 else lines[1:]:
        ours = _PLATFORM_LINE_PATTERN.fullmatch(line)
        (platform if ours else user).append(ours[1] if ours else line)
    texts = ("\n".join(user[-MAX_USER_LINES:]), "\n".join(platform[-MAX_PLATFORM_LINES:]))
    return ErrorLogs(*map(shorten_stars, texts))
