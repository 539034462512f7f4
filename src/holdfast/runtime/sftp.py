"""The file transfer protocol SFTP, version 3, served on two descriptors: draft-ietf-secsh-filexfer-02, with what
OpenSSH adds to it. `enter` runs it inside a task's sandbox, with the task's own rights, so that the image need not have
a server of its own. It is loaded before the sandbox is entered, and nothing may be imported after.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from time import gmtime, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_PACKET_LENGTH = 256 * 1024
MAX_DATA_LENGTH = MAX_PACKET_LENGTH - 1024
MAX_HANDLES = 256
_MAX_NAMES_AT_ONCE = 100
_BLOCK = 1 << 20

_VERSION = 3
_INIT, _REPLY_VERSION = 1, 2
_STATUS, _HANDLE, _DATA, _NAME, _ATTRS = 101, 102, 103, 104, 105
_EXTENDED_REPLY = 201
OK, EOF, NO_SUCH_FILE, PERMISSION_DENIED, FAILURE, BAD_MESSAGE, UNSUPPORTED = 0, 1, 2, 3, 4, 5, 8

_READ, _WRITE, _APPEND, _CREATE, _TRUNCATE, _EXCLUSIVE = 1, 2, 4, 8, 16, 32
_HAS_SIZE, _HAS_OWNER, _HAS_MODE, _HAS_TIMES, _HAS_MORE = 1, 2, 4, 8, 1 << 31

_CODES = {
    errno.ENOENT: NO_SUCH_FILE,
    errno.ENOTDIR: NO_SUCH_FILE,
    errno.EBADF: NO_SUCH_FILE,
    errno.ELOOP: NO_SUCH_FILE,
    errno.EPERM: PERMISSION_DENIED,
    errno.EACCES: PERMISSION_DENIED,
    errno.EROFS: PERMISSION_DENIED,
    errno.EINVAL: BAD_MESSAGE,
    errno.ENAMETOOLONG: BAD_MESSAGE,
    errno.ENOSYS: UNSUPPORTED,
    errno.EOPNOTSUPP: UNSUPPORTED,
}
_EXTENSIONS = (
    (b"posix-rename@openssh.com", b"1"),
    (b"statvfs@openssh.com", b"2"),
    (b"fstatvfs@openssh.com", b"2"),
    (b"hardlink@openssh.com", b"1"),
    (b"fsync@openssh.com", b"1"),
    (b"limits@openssh.com", b"1"),
    (b"expand-path@openssh.com", b"1"),
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HALF_A_YEAR = 183 * 24 * 3600


def serve(reader: int, writer: int, home: bytes = b"/") -> None:
    """Until the other side ends it, or says what makes no sense."""
    server = Server(home)
    buffer = bytearray()
    replies = bytearray()
    try:
        while block := os.read(reader, _BLOCK):
            buffer += block
            for packet in _packets(buffer):
                replies += server.answer(packet)
                if len(replies) >= MAX_PACKET_LENGTH:
                    _flush(writer, replies)
            _flush(writer, replies)
    except (BrokenPipeError, ProtocolError):
        return


class ProtocolError(Exception):
    """Nothing sensible can follow."""


class Bad(Exception):
    """A request that cannot be done: with a code of the protocol's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def _packets(buffer: bytearray) -> Iterator[memoryview]:
    """Those that are whole; what is left of the buffer begins the next one."""
    start = 0
    whole = bytes(buffer)
    while len(whole) - start >= 4:
        length = int.from_bytes(whole[start : start + 4], "big")
        if not 0 < length <= MAX_PACKET_LENGTH:
            raise ProtocolError
        if len(whole) - start - 4 < length:
            break
        yield memoryview(whole)[start + 4 : start + 4 + length]
        start += 4 + length
    del buffer[:start]


def _flush(writer: int, replies: bytearray) -> None:
    view = memoryview(bytes(replies))
    replies.clear()
    while view:
        view = view[os.write(writer, view) :]


class Fields:
    """Reads the fields of a packet, one after the other."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        return self._take(1)[0]

    def number(self) -> int:
        return int.from_bytes(self._take(4), "big")

    def long(self) -> int:
        return int.from_bytes(self._take(8), "big")

    def view(self) -> memoryview:
        return self._take(self.number())

    def string(self) -> bytes:
        return bytes(self.view())

    def path(self) -> bytes:
        path = self.string()
        if b"\0" in path:
            raise Bad(BAD_MESSAGE, "a NUL byte in a name")
        return path or b"."

    def attributes(self) -> Attributes:
        return Attributes(self)

    def _take(self, count: int) -> memoryview:
        end = self._at + count
        if end > len(self._data):
            raise Bad(BAD_MESSAGE, "the packet is cut off")
        taken = self._data[self._at : end]
        self._at = end
        return taken


class Attributes:
    """What a client wants a file to be like."""

    def __init__(self, fields: Fields) -> None:
        flags = fields.number()
        self.size = fields.long() if flags & _HAS_SIZE else None
        self.owner = (fields.number(), fields.number()) if flags & _HAS_OWNER else None
        self.mode = fields.number() & 0o7777 if flags & _HAS_MODE else None
        self.times = (fields.number(), fields.number()) if flags & _HAS_TIMES else None
        if flags & _HAS_MORE:
            for _ in range(2 * min(fields.number(), 1000)):
                fields.view()

    def set_on(self, target: bytes | int) -> None:
        if self.size is not None:
            os.truncate(target, self.size)
        if self.mode is not None:
            os.chmod(target, self.mode)
        if self.times is not None:
            os.utime(target, self.times)
        if self.owner is not None:
            os.chown(target, *self.owner)


class Folder:
    """A folder that is being listed."""

    def __init__(self, path: bytes) -> None:
        self.path = path
        self._entries = os.scandir(path)
        self._first: list[bytes] = [b".", b".."]

    def next_names(self) -> list[bytes]:
        names, self._first = self._first, []
        for entry in self._entries:
            names.append(entry.name)
            if len(names) >= _MAX_NAMES_AT_ONCE:
                break
        return names

    def close(self) -> None:
        self._entries.close()


class Server:
    def __init__(self, home: bytes) -> None:
        self._home = home
        self._handles: dict[bytes, int | Folder] = {}
        self._next = 0
        self._requests: dict[int, Callable[[Fields], bytes]] = {
            3: self._open, 4: self._close, 5: self._read, 6: self._write, 7: self._lstat, 8: self._fstat,
            9: self._setstat, 10: self._fsetstat, 11: self._opendir, 12: self._readdir, 13: self._remove,
            14: self._mkdir, 15: self._rmdir, 16: self._realpath, 17: self._stat, 18: self._rename,
            19: self._readlink, 20: self._symlink, 200: self._extended,
        }  # fmt: skip
        self._extensions: dict[bytes, Callable[[Fields], bytes]] = {
            b"posix-rename@openssh.com": self._posix_rename,
            b"statvfs@openssh.com": self._statvfs,
            b"fstatvfs@openssh.com": self._fstatvfs,
            b"hardlink@openssh.com": self._hardlink,
            b"fsync@openssh.com": self._fsync,
            b"limits@openssh.com": self._limits,
            b"expand-path@openssh.com": self._expand_path,
        }

    def answer(self, packet: memoryview) -> bytes:
        """A reply, ready to be sent."""
        fields = Fields(packet)
        kind = fields.byte()
        if kind == _INIT:
            words = [struct.pack(">I", _VERSION), *(_string(word) for pair in _EXTENSIONS for word in pair)]
            return _packet(_REPLY_VERSION, b"", b"".join(words))
        if len(packet) < 5:
            raise ProtocolError
        number = bytes(packet[1:5])
        fields.number()
        reply = self._try(kind, fields)
        return _packet(reply[0], number, reply[1:])

    def _try(self, kind: int, fields: Fields) -> bytes:
        """The kind of the reply, and what follows its number."""
        try:
            request = self._requests.get(kind)
            if request is None:
                raise Bad(UNSUPPORTED, "there is no such request")
            return request(fields)
        except Bad as bad:
            return _status(bad.code, str(bad))
        except OSError as error:
            number = error.errno or 0
            return _status(_CODES.get(number, FAILURE), os.strerror(number))
        except (ValueError, OverflowError) as error:
            return _status(BAD_MESSAGE, str(error))

    # --- open files -----------------------------------------------------------------------------------------------

    def _open(self, fields: Fields) -> bytes:
        path, wanted, attributes = fields.path(), fields.number(), fields.attributes()
        ways = {_READ: os.O_RDONLY, _WRITE: os.O_WRONLY, _READ | _WRITE: os.O_RDWR}
        flags = ways.get(wanted & (_READ | _WRITE), os.O_RDONLY)
        flags |= os.O_APPEND if wanted & _APPEND else 0
        flags |= os.O_CREAT if wanted & _CREATE else 0
        flags |= os.O_TRUNC if wanted & _TRUNCATE else 0
        flags |= os.O_EXCL if wanted & _EXCLUSIVE else 0
        mode = attributes.mode if attributes.mode is not None else 0o666
        self._check_room()
        return self._hand_out(os.open(path, flags | os.O_NOCTTY | os.O_NONBLOCK, mode & 0o777))

    def _check_room(self) -> None:
        if len(self._handles) >= MAX_HANDLES:
            raise Bad(FAILURE, "too many open files")

    def _hand_out(self, opened: int | Folder) -> bytes:
        self._next += 1
        handle = struct.pack(">I", self._next & 0xFFFFFFFF)
        self._handles[handle] = opened
        return bytes([_HANDLE]) + _string(handle)

    def _file(self, fields: Fields) -> int:
        found = self._handles.get(fields.string())
        if not isinstance(found, int):
            raise Bad(FAILURE, "no open file has this handle")
        return found

    def _close(self, fields: Fields) -> bytes:
        opened = self._handles.pop(fields.string(), None)
        if opened is None:
            raise Bad(FAILURE, "nothing open has this handle")
        if isinstance(opened, int):
            os.close(opened)
        else:
            opened.close()
        return _status(OK)

    def _read(self, fields: Fields) -> bytes:
        fd, offset, count = self._file(fields), fields.long(), fields.number()
        data = os.pread(fd, min(count, MAX_DATA_LENGTH), offset)
        if not data:
            return _status(EOF)
        return b"%c%b%b" % (_DATA, struct.pack(">I", len(data)), data)

    def _write(self, fields: Fields) -> bytes:
        fd, offset, data = self._file(fields), fields.long(), fields.view()
        while data:
            done = os.pwrite(fd, data, offset)
            data, offset = data[done:], offset + done
        return _status(OK)

    def _fstat(self, fields: Fields) -> bytes:
        return bytes([_ATTRS]) + _attributes(os.fstat(self._file(fields)))

    def _fsetstat(self, fields: Fields) -> bytes:
        fd = self._file(fields)
        fields.attributes().set_on(fd)
        return _status(OK)

    def _fsync(self, fields: Fields) -> bytes:
        os.fsync(self._file(fields))
        return _status(OK)

    # --- names ----------------------------------------------------------------------------------------------------

    def _stat(self, fields: Fields) -> bytes:
        return bytes([_ATTRS]) + _attributes(os.stat(fields.path()))

    def _lstat(self, fields: Fields) -> bytes:
        return bytes([_ATTRS]) + _attributes(os.lstat(fields.path()))

    def _setstat(self, fields: Fields) -> bytes:
        path = fields.path()
        fields.attributes().set_on(path)
        return _status(OK)

    def _opendir(self, fields: Fields) -> bytes:
        path = fields.path()
        self._check_room()
        return self._hand_out(Folder(path))

    def _readdir(self, fields: Fields) -> bytes:
        folder = self._handles.get(fields.string())
        if not isinstance(folder, Folder):
            raise Bad(FAILURE, "no open folder has this handle")
        found: list[tuple[bytes, os.stat_result | None]] = []
        while names := folder.next_names():
            for name in names:
                try:
                    found.append((name, os.lstat(os.path.join(folder.path, name))))
                except OSError:
                    continue  # it was there a moment ago
            if found:
                return _names(found)
        return _status(EOF)

    def _remove(self, fields: Fields) -> bytes:
        os.unlink(fields.path())
        return _status(OK)

    def _mkdir(self, fields: Fields) -> bytes:
        path, attributes = fields.path(), fields.attributes()
        os.mkdir(path, attributes.mode if attributes.mode is not None else 0o777)
        return _status(OK)

    def _rmdir(self, fields: Fields) -> bytes:
        os.rmdir(fields.path())
        return _status(OK)

    def _realpath(self, fields: Fields) -> bytes:
        return _names([(os.path.realpath(fields.path()), None)])

    def _expand_path(self, fields: Fields) -> bytes:
        path = fields.path()
        if path == b"~" or path.startswith(b"~/"):
            path = self._home + path[1:]
        elif path.startswith(b"~"):
            raise Bad(NO_SUCH_FILE, "homes of other users are not known")
        return _names([(os.path.realpath(path), None)])

    def _rename(self, fields: Fields) -> bytes:
        """Never over something that is there."""
        old, new = fields.path(), fields.path()
        if stat.S_ISREG(os.lstat(old).st_mode):
            try:
                os.link(old, new, follow_symlinks=False)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV):
                    raise
            else:
                os.unlink(old)
                return _status(OK)
        if os.path.lexists(new):
            raise Bad(FAILURE, "there is something of that name")
        os.rename(old, new)
        return _status(OK)

    def _posix_rename(self, fields: Fields) -> bytes:
        old, new = fields.path(), fields.path()
        os.rename(old, new)
        return _status(OK)

    def _readlink(self, fields: Fields) -> bytes:
        return _names([(os.readlink(fields.path()), None)])

    def _symlink(self, fields: Fields) -> bytes:
        """In OpenSSH's order, which everyone follows: first where it leads, then its name."""
        target, name = fields.path(), fields.path()
        os.symlink(target, name)
        return _status(OK)

    def _hardlink(self, fields: Fields) -> bytes:
        old, new = fields.path(), fields.path()
        os.link(old, new, follow_symlinks=False)
        return _status(OK)

    # --- what OpenSSH adds ----------------------------------------------------------------------------------------

    def _extended(self, fields: Fields) -> bytes:
        request = self._extensions.get(fields.string())
        if request is None:
            raise Bad(UNSUPPORTED, "there is no such extension")
        return request(fields)

    def _statvfs(self, fields: Fields) -> bytes:
        return _filesystem(os.statvfs(fields.path()))

    def _fstatvfs(self, fields: Fields) -> bytes:
        return _filesystem(os.fstatvfs(self._file(fields)))

    def _limits(self, fields: Fields) -> bytes:
        return struct.pack(">BQQQQ", _EXTENDED_REPLY, MAX_PACKET_LENGTH, MAX_DATA_LENGTH, MAX_DATA_LENGTH, MAX_HANDLES)


# --- rendering ----------------------------------------------------------------------------------------------------


def _packet(kind: int, number: bytes, rest: bytes) -> bytes:
    return b"%b%c%b%b" % (struct.pack(">I", 1 + len(number) + len(rest)), kind, number, rest)


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


_TEXTS = {OK: "Success", EOF: "End of file"}


def _status(code: int, text: str = "") -> bytes:
    words = (text or _TEXTS.get(code, "Failure")).encode("utf-8", "replace")
    return struct.pack(">BI", _STATUS, code) + _string(words) + _string(b"")


def _attributes(found: os.stat_result) -> bytes:
    return struct.pack(
        ">IQIIIII",
        _HAS_SIZE | _HAS_OWNER | _HAS_MODE | _HAS_TIMES,
        found.st_size,
        found.st_uid & 0xFFFFFFFF,
        found.st_gid & 0xFFFFFFFF,
        found.st_mode,
        min(max(0, int(found.st_atime)), 0xFFFFFFFF),
        min(max(0, int(found.st_mtime)), 0xFFFFFFFF),
    )


def _names(found: list[tuple[bytes, os.stat_result | None]]) -> bytes:
    parts = [struct.pack(">BI", _NAME, len(found))]
    for name, status in found:
        parts.append(_string(name))
        parts.append(_string(_long_name(name, status) if status is not None else name))
        parts.append(_attributes(status) if status is not None else b"\0\0\0\0")
    return b"".join(parts)


def _long_name(name: bytes, found: os.stat_result) -> bytes:
    """As `ls -l` shows it."""
    at = gmtime(min(max(0, int(found.st_mtime)), 0xFFFFFFFF))
    recent = abs(time() - found.st_mtime) < _HALF_A_YEAR
    when = f"{at.tm_hour:02}:{at.tm_min:02}" if recent else f"{at.tm_year:5}"
    mode, links, size = stat.filemode(found.st_mode), found.st_nlink, found.st_size
    day = f"{_MONTHS[at.tm_mon - 1]} {at.tm_mday:2} {when}"
    return f"{mode} {links:3} {found.st_uid:<8} {found.st_gid:<8} {size:8} {day} ".encode() + name


def _filesystem(found: os.statvfs_result) -> bytes:
    flags = (1 if found.f_flag & os.ST_RDONLY else 0) | (2 if found.f_flag & os.ST_NOSUID else 0)
    numbers = (
        found.f_bsize, found.f_frsize, found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree,
        found.f_favail, found.f_fsid & 0xFFFFFFFFFFFFFFFF, flags, found.f_namemax,
    )  # fmt: skip
    return struct.pack(">B11Q", _EXTENDED_REPLY, *numbers)
