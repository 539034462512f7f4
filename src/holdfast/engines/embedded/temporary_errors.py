"""Errors that do not depend on the kernel's features: resources that are exhausted now."""

from __future__ import annotations

import errno

TEMPORARY_ERRORS = frozenset(
    {
        errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EIO, errno.EBUSY,
        errno.EINTR, errno.ETXTBSY, errno.ESTALE, errno.ETIMEDOUT, errno.EROFS,
    }
)  # fmt: skip
