"""Errors that say nothing about what the kernel can do: resources that are used up now, and may be free in a moment."""

from __future__ import annotations

import errno

TEMPORARY_ERRORS = frozenset(
    {
        errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EIO, errno.EBUSY,
        errno.EINTR, errno.ETXTBSY, errno.ESTALE, errno.ETIMEDOUT, errno.EROFS,
    }
)  # fmt: skip
