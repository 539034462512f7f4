"""The last lines that the task which made an attempt fail has written, without the job's secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdfast.core.masking import shorten_stars
from holdfast.services.logs.service import Chosen, Logs

USER_LINES, PLATFORM_LINES = 15, 10
MAX_COUNT = 16384  # bytes looked at

_PLATFORM = re.compile(r"\[[^\]]{0,40}\] \[openpai-runtime\] (.*)")


@dataclass(frozen=True, slots=True)
class ErrorLogs:
    user: str = ""
    platform: str = ""  # what was written around its commands


NOTHING = ErrorLogs()


async def read_error_logs(logs: Logs, chosen: Chosen) -> ErrorLogs:
    """Nothing, when there is no log or it is no longer kept."""
    if chosen.record.logs_removed_at is not None or (source := logs.source_if_any(chosen)) is None:
        return NOTHING
    span = await logs.span(source)
    start = max(span.start, span.end - MAX_COUNT)
    data = await source.read(start, span.end - start)
    cut = start > span.start
    return pick_lines(await logs.mask_secrets(chosen, data, cut=cut), whole=not cut)


def pick_lines(data: bytes, *, whole: bool) -> ErrorLogs:
    """Of the end of a log; unless it is `whole`, its first line has lost its beginning."""
    lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n") if data else []
    user: list[str] = []
    platform: list[str] = []
    for line in lines if whole or len(lines) == 1 else lines[1:]:
        ours = _PLATFORM.fullmatch(line)
        (platform if ours else user).append(ours[1] if ours else line)
    said = ("\n".join(user[-USER_LINES:]), "\n".join(platform[-PLATFORM_LINES:]))
    return ErrorLogs(*map(shorten_stars, said))
