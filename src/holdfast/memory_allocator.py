"""Sets glibc's memory allocator for a server with many threads, which return what they free.

By default each thread gets a heap of its own, whose free part the others cannot use. And once a large block was freed,
blocks of that size stay in such a heap for good: every thread that ever checked a password would keep 20 MB.
"""

from __future__ import annotations

import ctypes

# Parameters of mallopt
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8

MAX_ARENAS = 1  # Python's own lock lets one thread at a time allocate
MMAP_THRESHOLD = 4 << 20  # bytes of a block from which on it is returned as soon as it is free
TRIM_THRESHOLD = 1 << 20  # bytes free at the end of the heap from which on they are returned


def limit_allocator() -> None:
    """Before the first other thread starts. Does nothing where the C library is another one."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_M_ARENA_MAX, MAX_ARENAS)
    mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD)
    mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD)
