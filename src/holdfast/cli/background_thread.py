"""Background threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def run_in_background(watch: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `watch(over)` in a daemon thread; set `over` at the end of the block."""
    over = threading.Event()
    threading.Thread(target=watch, args=(over,), name="beside", daemon=True).start()
    try:
        yield
    finally:
        over.set()
