"""Layers as streams of uncompressed bytes: gzip, zstd, xz, bzip2 or none. Blocking: call it from a thread."""

from __future__ import annotations

import bz2
import lzma
import sys
import threading
import zlib
from collections.abc import Iterator
from typing import IO, Any, Protocol, cast

from zlib_ng import zlib_ng

from holdfast.core.messages import msg

from .tars import BadArchive

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_GZIP_ERROR = cast(type[Exception], zlib_ng.error)  # declared as an instance
COMPRESSION_ERRORS = (EOFError, zlib.error, _GZIP_ERROR, lzma.LZMAError, zstd.ZstdError)
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_INPUT_SIZE = 256 * 1024  # bytes decompressed at once; large enough to release the interpreter's lock
_OUTPUT_SIZE = 1024 * 1024  # max bytes of output per step, however well the input is compressed
_MAX_XZ_MEMORY = 256 * 1024 * 1024  # bytes
_MAX_SKIP_SIZE = 1024 * 1024  # bytes between two entries that are not written; writers pad to 512 bytes
# Compressed zeros cost a hostile registry nothing, but the server about a second per GiB. Programs and text compress
# 20:1 at most, repetitive logs and tables 100:1. Only a layer of more than 4 GiB that is nearly all zeros exceeds both
# limits; gzip reaches 1032:1 there, zstd 32000:1. A zero-filled file among others is fine: the whole layer counts.
_MAX_SIZE_RATIO = 200  # uncompressed to compressed bytes
_MAX_EARLY_SIZE = 64 * 1024 * 1024  # compressed bytes that count before they have arrived: zeros may come first
_MIN_SIZE_LIMIT = 4 * 1024**3  # bytes that every layer may have uncompressed
_MAX_TRAILER_SIZE = 64 * 1024 * 1024  # bytes after the end of a tar; writers pad to at most 1 MiB


class PullCancelled(Exception):
    """The work was cancelled while a thread was busy with it."""


class Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...


class ByteSource(Protocol):
    def read(self, size: int, /) -> bytes:
        """Return about `size` bytes; none at the end."""
        ...


class _Decoder(Protocol):
    """One compressed member or frame, as `bz2.BZ2Decompressor`."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _GzipDecoder:
    """The decompressor of zlib-ng, which is faster than zlib, with the interface of the others."""

    def __init__(self) -> None:
        self._decoder = zlib_ng.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        produced = self._decoder.decompress(self._decoder.unconsumed_tail + data, max_length)
        self.needs_input = not self._decoder.unconsumed_tail and len(produced) < max_length
        return produced


def _compute_max_size(announced: int, received: int) -> int:
    """Return how many bytes a layer may have uncompressed, by its announced size and by what has arrived of it."""
    return max(_MIN_SIZE_LIMIT, _MAX_SIZE_RATIO * min(announced, received + _MAX_EARLY_SIZE))


def _make_decoder(head: bytes) -> _Decoder | None:
    """Return the decoder for data that starts with `head`; None: it is not compressed."""
    if head.startswith(b"\x1f\x8b"):
        return _GzipDecoder()
    if head.startswith(ZSTD_MAGIC):
        return zstd.ZstdDecompressor()
    if head.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_XZ_MEMORY)
    if head.startswith(b"BZh"):
        return bz2.BZ2Decompressor()
    return None


def _iter_decompressed(file: ByteSource) -> Iterator[bytes]:
    data = file.read(_INPUT_SIZE)
    if _make_decoder(data) is None:
        while data:
            yield data
            data = file.read(_OUTPUT_SIZE)
        return
    while data:
        decoder = _make_decoder(data)
        if decoder is None:
            raise EOFError("other data follows the compressed data")
        while not decoder.eof:
            if not data and decoder.needs_input and not (data := file.read(_INPUT_SIZE)):
                raise EOFError("the compressed data ends too early")
            yield decoder.decompress(data, _OUTPUT_SIZE)
            data = b""
        data = decoder.unused_data.lstrip(b"\0") or file.read(_INPUT_SIZE).lstrip(b"\0")  # zeros may follow


class _CountedSource:
    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.size = 0  # bytes read so far

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        self.size += len(data)
        return data


class LayerReader:
    """Reads a layer forward, for tarfile: `seek` can only skip. Hashes what passes, and ends once it is cancelled.

    BadArchive if the layer has too many bytes uncompressed for `announced_size`, its compressed bytes.
    """

    def __init__(
        self,
        source: ByteSource,
        *,
        digest: Hash | None = None,
        cancelled: threading.Event | None = None,
        announced_size: int | None = None,
    ) -> None:
        self._source = _CountedSource(source)
        self._chunks = _iter_decompressed(self._source)
        self._digest = digest
        self._cancelled = cancelled
        self._chunk = b""
        self._start = 0  # of the unread part of the chunk
        self._position = 0
        self._announced_size = announced_size
        self.size = 0  # bytes uncompressed so far

    def tell(self) -> int:
        return self._position

    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            raise ValueError("a layer is not read at once")
        pieces = []
        while size and self._fill():
            piece = self._chunk[self._start : self._start + size]
            self._start += len(piece)
            self._position += len(piece)
            size -= len(piece)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def iter_pieces(self, size: int) -> Iterator[memoryview]:
        """Yield the next `size` bytes without copying them."""
        while size:
            if not self._fill():
                raise EOFError("unexpected end of data")
            piece = memoryview(self._chunk)[self._start : self._start + size]
            self._start += len(piece)
            self._position += len(piece)
            size -= len(piece)
            yield piece

    def seek(self, offset: int, whence: int = 0) -> int:
        """Skip forward. A seek beyond the end stops there."""
        if whence or offset < self._position:
            raise ValueError("a layer is read forward only")
        if offset - self._position > _MAX_SKIP_SIZE:  # it would be decompressed for nothing
            raise BadArchive(msg("The archive is damaged: an entry that is not a file has data."))
        return self._skip_to(offset)

    def _skip_to(self, offset: int) -> int:
        while self._position < offset and self._fill():
            step = min(offset - self._position, len(self._chunk) - self._start)
            self._start += step
            self._position += step
        return self._position

    def drain(self) -> None:
        """Read to the end, so that the hash covers the padding after the tar."""
        end = self._position + _MAX_TRAILER_SIZE
        self._skip_to(end)
        if self._position == end and self._fill():
            raise BadArchive(msg("The archive is damaged: data follows its end."))

    def read_all(self) -> None:
        """Read the whole layer for its hash."""
        while self._fill():
            self._start = len(self._chunk)

    def _fill(self) -> bool:
        """Make sure that there is an unread byte. False at the end."""
        while self._start == len(self._chunk):
            if self._cancelled is not None and self._cancelled.is_set():
                raise PullCancelled
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self.size += len(chunk)
            self._check_size()
            if self._digest is not None:
                self._digest.update(chunk)
            self._chunk, self._start = chunk, 0
        return True

    def _check_size(self) -> None:
        if self._announced_size is None:
            return
        max_size = _compute_max_size(self._announced_size, self._source.size)
        if self.size > max_size:
            raise BadArchive(
                msg("A layer is too large for its compressed size: more than {max_size} bytes.", max_size=max_size)
            )


def open_zstd(file: Any) -> IO[bytes]:
    """Open a file compressed with zstd, with seeking."""
    return cast(IO[bytes], zstd.open(file, "rb"))
