"""Watching something while something else is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(watch: Callable[[threading.Event], None]) -> Iterator[None]:
    """`watch(over)` in a thread of its own, which nobody waits for; `over` is set at the end."""
    over = threading.Event()
    threading.Thread(target=watch, args=(over,), name="beside", daemon=True).start()
    try:
        yield
    finally:
        over.set()
