"""How many files come in at a time, and how long one may be silent: each that does holds memory and a place on disk."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

from ..refusals import TooManyRequests, Unavailable

PER_USER = 8
IN_ALL = 64
SILENCE = 60.0  # seconds
COME_BACK = 5.0  # seconds


class Uploads:
    def __init__(self) -> None:
        self._users: Counter[str] = Counter()

    @contextmanager
    def one(self, user: str) -> Iterator[None]:
        """While it comes in. Refused rather than waited for: who waits holds a connection."""
        if self._users[user] >= PER_USER:
            raise TooManyRequests(
                msg("{per_user} files of yours are coming in just now", per_user=PER_USER),
                retry_after=COME_BACK,
                hint=msg("Send the others when these are there."),
            )
        if self._users.total() >= IN_ALL:
            raise Unavailable(
                msg("{in_all} files are coming in just now", in_all=IN_ALL), hint=msg("Try again in a moment.")
            )
        self._users[user] += 1
        try:
            yield
        finally:
            self._users[user] -= 1
            if not self._users[user]:
                del self._users[user]


async def not_silent(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same chunks, as long as there is another one soon."""
    while True:
        try:
            async with asyncio.timeout(SILENCE):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise UserError(
                msg("Nothing more of the file came for {silence} seconds, so it was given up", silence=f"{SILENCE:g}"),
                hint=msg("Send it again."),
            ) from None
        if chunk is None:
            return
        yield chunk
