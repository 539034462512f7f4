"""An SFTP server, version 3, on two descriptors: draft-ietf-secsh-filexfer-02, with OpenSSH's extensions. `exec_helper`
runs it inside a task's sandbox, with the task's own privileges, so that the image needs no server. It is loaded before
the sandbox is joined, and nothing may be imported after. On a node of a cluster it is a program, with the Python of
the node: 3.8 or newer."""

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
_MAX_NAMES_PER_REPLY = 100
_READ_SIZE = 1 << 20  # bytes

_PROTOCOL_VERSION = 3
_FXP_INIT, _FXP_VERSION = 1, 2
_FXP_STATUS, _FXP_HANDLE, _FXP_DATA, _FXP_NAME, _FXP_ATTRS = 101, 102, 103, 104, 105
_FXP_EXTENDED_REPLY = 201
OK, EOF, NO_SUCH_FILE, PERMISSION_DENIED, FAILURE, BAD_MESSAGE, UNSUPPORTED = 0, 1, 2, 3, 4, 5, 8

_FXF_READ, _FXF_WRITE, _FXF_APPEND, _FXF_CREATE, _FXF_TRUNCATE, _FXF_EXCLUSIVE = 1, 2, 4, 8, 16, 32
_ATTR_SIZE, _ATTR_UIDGID, _ATTR_PERMISSIONS, _ATTR_ACMODTIME, _ATTR_EXTENDED = 1, 2, 4, 8, 1 << 31

_STATUS_BY_ERRNO = {
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
_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HALF_YEAR_SECONDS = 183 * 24 * 3600


def serve(reader: int, writer: int, home: bytes = b"/") -> None:
    """Serve until the client disconnects or breaks the protocol."""
    server = SftpServer(home)
    buffer = bytearray()
    replies = bytearray()
    try:
        while block := os.read(reader, _READ_SIZE):
            buffer += block
            for packet in _split_packets(buffer):
                replies += server.answer_packet(packet)
                if len(replies) >= MAX_PACKET_LENGTH:
                    _write_replies(writer, replies)
            _write_replies(writer, replies)
    except (BrokenPipeError, ProtocolError):
        return


class ProtocolError(Exception):
    """The client broke the protocol; the connection must end."""


class RequestError(Exception):
    """A request that failed, with a status code of the protocol."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def _split_packets(buffer: bytearray) -> Iterator[memoryview]:
    """Yield the complete packets; the rest of the buffer begins the next one."""
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


def _write_replies(writer: int, replies: bytearray) -> None:
    view = memoryview(bytes(replies))
    replies.clear()
    while view:
        view = view[os.write(writer, view) :]


class PacketReader:
    """Reads the fields of a packet, one after the other."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._offset = 0

    def read_byte(self) -> int:
        return self._read_bytes(1)[0]

    def read_uint32(self) -> int:
        return int.from_bytes(self._read_bytes(4), "big")

    def read_uint64(self) -> int:
        return int.from_bytes(self._read_bytes(8), "big")

    def read_view(self) -> memoryview:
        return self._read_bytes(self.read_uint32())

    def read_string(self) -> bytes:
        return bytes(self.read_view())

    def read_path(self) -> bytes:
        path = self.read_string()
        if b"\0" in path:
            raise RequestError(BAD_MESSAGE, "a name contains a NUL byte")
        return path or b"."

    def read_attributes(self) -> FileAttributes:
        return FileAttributes(self)

    def _read_bytes(self, count: int) -> memoryview:
        end = self._offset + count
        if end > len(self._data):
            raise RequestError(BAD_MESSAGE, "the packet is truncated")
        taken = self._data[self._offset : end]
        self._offset = end
        return taken


class FileAttributes:
    """The attributes that a client sets on a file."""

    def __init__(self, fields: PacketReader) -> None:
        flags = fields.read_uint32()
        self.size = fields.read_uint64() if flags & _ATTR_SIZE else None
        self.owner = (fields.read_uint32(), fields.read_uint32()) if flags & _ATTR_UIDGID else None
        self.mode = fields.read_uint32() & 0o7777 if flags & _ATTR_PERMISSIONS else None
        self.times = (fields.read_uint32(), fields.read_uint32()) if flags & _ATTR_ACMODTIME else None
        if flags & _ATTR_EXTENDED:
            for _ in range(2 * min(fields.read_uint32(), 1000)):
                fields.read_view()

    def apply_to(self, target: bytes | int) -> None:
        if self.size is not None:
            os.truncate(target, self.size)
        if self.mode is not None:
            os.chmod(target, self.mode)
        if self.times is not None:
            os.utime(target, self.times)
        if self.owner is not None:
            os.chown(target, *self.owner)


class FolderHandle:
    """A folder that is being listed."""

    def __init__(self, path: bytes) -> None:
        self.path = path
        self._entries = os.scandir(path)
        self._dot_names: list[bytes] = [b".", b".."]

    def read_next_names(self) -> list[bytes]:
        names, self._dot_names = self._dot_names, []
        for entry in self._entries:
            names.append(entry.name)
            if len(names) >= _MAX_NAMES_PER_REPLY:
                break
        return names

    def close(self) -> None:
        self._entries.close()


class SftpServer:
    def __init__(self, home: bytes) -> None:
        self._home = home
        self._handles: dict[bytes, int | FolderHandle] = {}
        self._last_handle_number = 0
        # A request without a reply of its own gets the status OK.
        self._request_handlers: dict[int, Callable[[PacketReader], bytes | None]] = {
            3: self._handle_open, 4: self._handle_close, 5: self._handle_read, 6: self._handle_write,
            7: self._handle_lstat, 8: self._handle_fstat, 9: self._handle_setstat, 10: self._handle_fsetstat,
            11: self._handle_opendir, 12: self._handle_readdir, 13: self._handle_remove,
            14: self._handle_mkdir, 15: self._handle_rmdir, 16: self._handle_realpath, 17: self._handle_stat,
            18: self._handle_rename, 19: self._handle_readlink, 20: self._handle_symlink,
            200: self._handle_extended,
        }  # fmt: skip
        self._extensions: dict[bytes, tuple[bytes, Callable[[PacketReader], bytes | None]]] = {  # with their versions
            b"posix-rename@openssh.com": (b"1", self._handle_posix_rename),
            b"statvfs@openssh.com": (b"2", self._handle_statvfs),
            b"fstatvfs@openssh.com": (b"2", self._handle_fstatvfs),
            b"hardlink@openssh.com": (b"1", self._handle_hardlink),
            b"fsync@openssh.com": (b"1", self._handle_fsync),
            b"limits@openssh.com": (b"1", self._handle_limits),
            b"expand-path@openssh.com": (b"1", self._handle_expand_path),
        }

    def answer_packet(self, packet: memoryview) -> bytes:
        """Return the reply, ready to be sent."""
        fields = PacketReader(packet)
        kind = fields.read_byte()
        if kind == _FXP_INIT:
            pairs = [(name, version) for name, (version, _) in self._extensions.items()]
            fields_sent = [
                struct.pack(">I", _PROTOCOL_VERSION),
                *(_pack_string(text) for pair in pairs for text in pair),
            ]
            return _make_packet(_FXP_VERSION, b"", b"".join(fields_sent))
        if len(packet) < 5:
            raise ProtocolError
        number = bytes(packet[1:5])
        fields.read_uint32()
        reply = self._answer_request(kind, fields)
        return _make_packet(reply[0], number, reply[1:])

    def _answer_request(self, kind: int, fields: PacketReader) -> bytes:
        """Return the kind of the reply, and its content after the request id."""
        try:
            request = self._request_handlers.get(kind)
            if request is None:
                raise RequestError(UNSUPPORTED, "the request is not supported")
            return request(fields) or _make_status(OK)
        except RequestError as bad:
            return _make_status(bad.code, str(bad))
        except OSError as error:
            number = error.errno or 0
            return _make_status(_STATUS_BY_ERRNO.get(number, FAILURE), os.strerror(number))
        except (ValueError, OverflowError) as error:
            return _make_status(BAD_MESSAGE, str(error))

    # --- open files -----------------------------------------------------------------------------------------------

    def _handle_open(self, fields: PacketReader) -> bytes:
        path, wanted, attributes = fields.read_path(), fields.read_uint32(), fields.read_attributes()
        ways = {_FXF_READ: os.O_RDONLY, _FXF_WRITE: os.O_WRONLY, _FXF_READ | _FXF_WRITE: os.O_RDWR}
        flags = ways.get(wanted & (_FXF_READ | _FXF_WRITE), os.O_RDONLY)
        flags |= os.O_APPEND if wanted & _FXF_APPEND else 0
        flags |= os.O_CREAT if wanted & _FXF_CREATE else 0
        flags |= os.O_TRUNC if wanted & _FXF_TRUNCATE else 0
        flags |= os.O_EXCL if wanted & _FXF_EXCLUSIVE else 0
        mode = attributes.mode if attributes.mode is not None else 0o666
        self._check_handle_limit()
        return self._add_handle(os.open(path, flags | os.O_NOCTTY | os.O_NONBLOCK, mode & 0o777))

    def _check_handle_limit(self) -> None:
        if len(self._handles) >= MAX_HANDLES:
            raise RequestError(FAILURE, "too many open files")

    def _add_handle(self, opened: int | FolderHandle) -> bytes:
        self._last_handle_number += 1
        handle = struct.pack(">I", self._last_handle_number & 0xFFFFFFFF)
        self._handles[handle] = opened
        return bytes([_FXP_HANDLE]) + _pack_string(handle)

    def _resolve_file_descriptor(self, fields: PacketReader) -> int:
        found = self._handles.get(fields.read_string())
        if not isinstance(found, int):
            raise RequestError(FAILURE, "the handle is not an open file")
        return found

    def _handle_close(self, fields: PacketReader) -> None:
        opened = self._handles.pop(fields.read_string(), None)
        if opened is None:
            raise RequestError(FAILURE, "the handle is not valid")
        if isinstance(opened, int):
            os.close(opened)
        else:
            opened.close()

    def _handle_read(self, fields: PacketReader) -> bytes:
        fd, offset, count = self._resolve_file_descriptor(fields), fields.read_uint64(), fields.read_uint32()
        data = os.pread(fd, min(count, MAX_DATA_LENGTH), offset)
        if not data:
            return _make_status(EOF)
        return b"%c%b%b" % (_FXP_DATA, struct.pack(">I", len(data)), data)

    def _handle_write(self, fields: PacketReader) -> None:
        fd, offset, data = self._resolve_file_descriptor(fields), fields.read_uint64(), fields.read_view()
        while data:
            done = os.pwrite(fd, data, offset)
            data, offset = data[done:], offset + done

    def _handle_fstat(self, fields: PacketReader) -> bytes:
        return bytes([_FXP_ATTRS]) + _pack_attributes(os.fstat(self._resolve_file_descriptor(fields)))

    def _handle_fsetstat(self, fields: PacketReader) -> None:
        fd = self._resolve_file_descriptor(fields)
        fields.read_attributes().apply_to(fd)

    def _handle_fsync(self, fields: PacketReader) -> None:
        os.fsync(self._resolve_file_descriptor(fields))

    # --- names ----------------------------------------------------------------------------------------------------

    def _handle_stat(self, fields: PacketReader) -> bytes:
        return bytes([_FXP_ATTRS]) + _pack_attributes(os.stat(fields.read_path()))

    def _handle_lstat(self, fields: PacketReader) -> bytes:
        return bytes([_FXP_ATTRS]) + _pack_attributes(os.lstat(fields.read_path()))

    def _handle_setstat(self, fields: PacketReader) -> None:
        path = fields.read_path()
        fields.read_attributes().apply_to(path)

    def _handle_opendir(self, fields: PacketReader) -> bytes:
        path = fields.read_path()
        self._check_handle_limit()
        return self._add_handle(FolderHandle(path))

    def _handle_readdir(self, fields: PacketReader) -> bytes:
        folder = self._handles.get(fields.read_string())
        if not isinstance(folder, FolderHandle):
            raise RequestError(FAILURE, "the handle is not an open folder")
        found: list[tuple[bytes, os.stat_result | None]] = []
        while names := folder.read_next_names():
            for name in names:
                try:
                    found.append((name, os.lstat(os.path.join(folder.path, name))))
                except OSError:
                    continue  # deleted in the meantime
            if found:
                return _pack_names(found)
        return _make_status(EOF)

    def _handle_remove(self, fields: PacketReader) -> None:
        os.unlink(fields.read_path())

    def _handle_mkdir(self, fields: PacketReader) -> None:
        path, attributes = fields.read_path(), fields.read_attributes()
        os.mkdir(path, attributes.mode if attributes.mode is not None else 0o777)

    def _handle_rmdir(self, fields: PacketReader) -> None:
        os.rmdir(fields.read_path())

    def _handle_realpath(self, fields: PacketReader) -> bytes:
        return _pack_names([(os.path.realpath(fields.read_path()), None)])

    def _handle_expand_path(self, fields: PacketReader) -> bytes:
        path = fields.read_path()
        if path == b"~" or path.startswith(b"~/"):
            path = self._home + path[1:]
        elif path.startswith(b"~"):
            raise RequestError(NO_SUCH_FILE, "home folders of other users are not supported")
        return _pack_names([(os.path.realpath(path), None)])

    def _handle_rename(self, fields: PacketReader) -> bytes:
        """Rename it; never replace an existing file."""
        old, new = fields.read_path(), fields.read_path()
        if stat.S_ISREG(os.lstat(old).st_mode):
            try:
                os.link(old, new, follow_symlinks=False)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV):
                    raise
            else:
                os.unlink(old)
                return _make_status(OK)
        if os.path.lexists(new):
            raise RequestError(FAILURE, "the file already exists")
        os.rename(old, new)
        return _make_status(OK)

    def _handle_posix_rename(self, fields: PacketReader) -> None:
        os.rename(fields.read_path(), fields.read_path())

    def _handle_readlink(self, fields: PacketReader) -> bytes:
        return _pack_names([(os.readlink(fields.read_path()), None)])

    def _handle_symlink(self, fields: PacketReader) -> None:
        """Create a link, with OpenSSH's order of arguments: first the target, then the name."""
        os.symlink(fields.read_path(), fields.read_path())

    def _handle_hardlink(self, fields: PacketReader) -> None:
        os.link(fields.read_path(), fields.read_path(), follow_symlinks=False)

    # --- OpenSSH's extensions -----------------------------------------------------------------------------------------

    def _handle_extended(self, fields: PacketReader) -> bytes | None:
        _, request = self._extensions.get(fields.read_string(), (b"", None))
        if request is None:
            raise RequestError(UNSUPPORTED, "the extension is not supported")
        return request(fields)

    def _handle_statvfs(self, fields: PacketReader) -> bytes:
        return _pack_filesystem_stats(os.statvfs(fields.read_path()))

    def _handle_fstatvfs(self, fields: PacketReader) -> bytes:
        return _pack_filesystem_stats(os.fstatvfs(self._resolve_file_descriptor(fields)))

    def _handle_limits(self, fields: PacketReader) -> bytes:
        return struct.pack(
            ">BQQQQ", _FXP_EXTENDED_REPLY, MAX_PACKET_LENGTH, MAX_DATA_LENGTH, MAX_DATA_LENGTH, MAX_HANDLES
        )


# --- rendering ----------------------------------------------------------------------------------------------------


def _make_packet(kind: int, number: bytes, rest: bytes) -> bytes:
    return b"%b%c%b%b" % (struct.pack(">I", 1 + len(number) + len(rest)), kind, number, rest)


def _pack_string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


_STATUS_TEXTS = {OK: "Success", EOF: "End of file"}


def _make_status(code: int, text: str = "") -> bytes:
    words = (text or _STATUS_TEXTS.get(code, "Failure")).encode("utf-8", "replace")
    return struct.pack(">BI", _FXP_STATUS, code) + _pack_string(words) + _pack_string(b"")


def _pack_attributes(found: os.stat_result) -> bytes:
    return struct.pack(
        ">IQIIIII",
        _ATTR_SIZE | _ATTR_UIDGID | _ATTR_PERMISSIONS | _ATTR_ACMODTIME,
        found.st_size,
        found.st_uid & 0xFFFFFFFF,
        found.st_gid & 0xFFFFFFFF,
        found.st_mode,
        min(max(0, int(found.st_atime)), 0xFFFFFFFF),
        min(max(0, int(found.st_mtime)), 0xFFFFFFFF),
    )


def _pack_names(found: list[tuple[bytes, os.stat_result | None]]) -> bytes:
    parts = [struct.pack(">BI", _FXP_NAME, len(found))]
    for name, status in found:
        parts.append(_pack_string(name))
        parts.append(_pack_string(_format_long_name(name, status) if status is not None else name))
        parts.append(_pack_attributes(status) if status is not None else b"\0\0\0\0")
    return b"".join(parts)


def _format_long_name(name: bytes, found: os.stat_result) -> bytes:
    """As `ls -l` shows it."""
    at = gmtime(min(max(0, int(found.st_mtime)), 0xFFFFFFFF))
    recent = abs(time() - found.st_mtime) < _HALF_YEAR_SECONDS
    when = f"{at.tm_hour:02}:{at.tm_min:02}" if recent else f"{at.tm_year:5}"
    mode, links, size = stat.filemode(found.st_mode), found.st_nlink, found.st_size
    day = f"{_MONTH_NAMES[at.tm_mon - 1]} {at.tm_mday:2} {when}"
    return f"{mode} {links:3} {found.st_uid:<8} {found.st_gid:<8} {size:8} {day} ".encode() + name


def _pack_filesystem_stats(found: os.statvfs_result) -> bytes:
    flags = (1 if found.f_flag & os.ST_RDONLY else 0) | (2 if found.f_flag & os.ST_NOSUID else 0)
    numbers = (
        found.f_bsize, found.f_frsize, found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree,
        found.f_favail, found.f_fsid & 0xFFFFFFFFFFFFFFFF, flags, found.f_namemax,
    )  # fmt: skip
    return struct.pack(">B11Q", _FXP_EXTENDED_REPLY, *numbers)


if __name__ == "__main__":  # on a node of a cluster
    serve(0, 1, os.fsencode(os.environ.get("HOME", "/")))
