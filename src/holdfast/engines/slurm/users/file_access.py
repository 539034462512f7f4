"""Gives the user of a task, and no other, access to its files. Blocking: runs in a thread.

The folder of a task belongs to the server, so that the user cannot replace what the server reads there. The user gets
the folders for reports, notes and the home, and the files in the task's folder. A server that runs as root makes
the user their owner. Any other adds an entry to their access control lists, and one for itself to what is created.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterable

from holdfast.core.exits.exit import Cause
from holdfast.core.messages import msg
from holdfast.engines.start_refusal import StartRefused

from .unix_user import UnixUser

READ, WRITE = 5, 7  # permissions of an entry: with execution, which folders and scripts need
_ACCESS_LIST, _DEFAULT_LIST = "system.posix_acl_access", "system.posix_acl_default"
_VERSION = 2
_ENTRY = struct.Struct("<HHI")
_OWNER, _USER, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NO_ID = 0xFFFFFFFF
TRAVERSABLE_MODE = 0o711


def give_files(paths: Iterable[str], user: UnixUser, permissions: int) -> None:
    """Give files and folders of the server to a user. They are in a folder that only the server changes; links are left
    as they are. StartRefused if the file system does not support it."""
    for path in paths:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOENT):
                continue
            raise
        try:
            give_open_file(fd, user, permissions)
        finally:
            os.close(fd)


def give_open_file(fd: int, user: UnixUser, permissions: int) -> None:
    try:
        _give(fd, user, permissions)
    except OSError as error:
        raise StartRefused(_describe_failure(error), cause=Cause.START_FAILED, transient=True) from error


def _give(fd: int, user: UnixUser, permissions: int) -> None:
    status = os.fstat(fd)
    is_folder = stat.S_ISDIR(status.st_mode)
    if os.geteuid() == 0:
        os.fchown(fd, user.uid, user.gid)
        os.fchmod(fd, 0o700 if is_folder else stat.S_IMODE(status.st_mode) & 0o700)
        return
    os.setxattr(fd, _ACCESS_LIST, _build_list({user.uid: permissions}))
    if is_folder:
        os.setxattr(fd, _DEFAULT_LIST, _build_list({user.uid: WRITE, os.geteuid(): WRITE}))


def _build_list(users: dict[int, int]) -> bytes:
    """Return an access control list: all for the owner, nothing for the group and others."""
    entries = [(_OWNER, WRITE, _NO_ID)]
    entries += [(_USER, permissions, uid) for uid, permissions in sorted(users.items())]
    entries += [(_GROUP, 0, _NO_ID), (_MASK, WRITE, _NO_ID), (_OTHER, 0, _NO_ID)]
    return struct.pack("<I", _VERSION) + b"".join(_ENTRY.pack(*entry) for entry in entries)


def check_file_access(folder: str) -> str:
    """Try it in a folder of the server; return what does not work, empty if all does."""
    path = f"{folder}/check.{os.urandom(4).hex()}"
    user = UnixUser("nobody", 65534, 65534)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return ""  # another check says so
    try:
        _give(fd, user, WRITE)
    except OSError as error:
        return _describe_failure(error)
    finally:
        os.close(fd)
        os.unlink(path)
    return ""


def _describe_failure(error: OSError) -> str:
    why = error.strerror or str(error)
    if os.geteuid() == 0:
        return msg("The shared folder does not let root change the owner of files: {why}.", why=why)
    return msg("The shared folder does not support POSIX access control lists: {why}.", why=why)
