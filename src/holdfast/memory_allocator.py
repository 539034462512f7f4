"""Configures glibc's memory allocator for a server with many threads, so that freed memory is returned.

By default each thread gets its own heap, whose free part the others cannot use. And once a large block was freed,
blocks of that size stay in such a heap for good: every thread that ever checked a password would keep 20 MB.
"""

from __future__ import annotations

import ctypes

# Parameters of mallopt
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8

MAX_ARENAS = 1  # Python's own lock lets one thread at a time allocate
MMAP_THRESHOLD = 4 << 20  # bytes; larger blocks are returned as soon as they are free
TRIM_THRESHOLD = 1 << 20  # bytes free at the end of the heap above which they are returned


def configure_allocator() -> None:
    """Call it before the first other thread starts. Does nothing with another C library."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_M_ARENA_MAX, MAX_ARENAS)
    mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD)
    mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD)
