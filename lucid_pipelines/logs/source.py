"""Where log bytes come from: plain, growing and compressed files behind one small interface."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from lucid_pipelines.domain.errors import ExternalError, InputError, NotFoundError
from lucid_pipelines.near_files import near_file

BLOCK_BYTES = 1 << 20
COUNT_LINES_BELOW_BYTES = 1 << 28
_MAGIC = ((b"\x1f\x8b", "gz"), (b"BZh", "bz2"), (b"\xfd7zXZ\x00", "xz"))
_UNREADABLE_MAGIC = (
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -d"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -d"),
    (b"PK\x03\x04", "zip", "unzip"),
)
_BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError)


class LogSource(Protocol):
    """Random access to the bytes of a log, as far as they exist now."""

    def size(self) -> int:
        """How many bytes there are."""
        ...

    def read_at(self, offset: int, size: int) -> bytes:
        """At most ``size`` bytes from ``offset``; fewer at the end."""
        ...


@dataclass(frozen=True, slots=True)
class FileSource:
    """A plain file, which may be growing. Raises ``NotFoundError`` and ``ExternalError``."""

    path: Path

    def size(self) -> int:
        return self._stat().st_size

    def mode(self) -> int:
        """What kind of file it is, as ``stat`` tells it."""
        return self._stat().st_mode

    def _stat(self) -> os.stat_result:
        try:
            return self.path.stat()
        except FileNotFoundError as error:
            raise NotFoundError(f"there is no log at {self.path}{near_file(self.path)}") from error
        except OSError as error:
            raise ExternalError(f"the log cannot be read: {error}") from error

    def read_at(self, offset: int, size: int) -> bytes:
        try:
            # Opening a named pipe waits for a writer, for ever if none comes: not with O_NONBLOCK.
            opened = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if (other := _other_kind(os.fstat(opened).st_mode)) is not None:
                    raise ExternalError(f"the log cannot be read: {self.path} is {other}; give a regular file")
                return os.pread(opened, size, offset)
            finally:
                os.close(opened)
        except FileNotFoundError as error:
            raise NotFoundError(f"there is no log at {self.path}{near_file(self.path)}") from error
        except OSError as error:
            raise ExternalError(f"the log cannot be read: {error}") from error


def compression_of(path: Path) -> str | None:
    """``gz``, ``bz2``, ``xz`` by the file's first bytes, ``None`` for anything else."""
    start = FileSource(path).read_at(0, 6)
    return next((name for magic, name in _MAGIC if start.startswith(magic)), None)


def require_log_file(path: Path) -> None:
    """For files that a person names: say that it is no log file, rather than that the log tells nothing.

    A job's own log is not asked: it may begin with any bytes, and is then read as text.

    Raises:
        NotFoundError, ExternalError: there is no such file, or it cannot be read.
        InputError: it is no regular file, or it is packed as zstd, lz4 or zip.
    """
    if (other := _other_kind(FileSource(path).mode())) is not None:
        raise InputError(f"give a log file; this is {other}: {path}")
    start = FileSource(path).read_at(0, 6)
    for magic, name, tool in _UNREADABLE_MAGIC:
        if start.startswith(magic):
            raise InputError(
                f"the log {path} is packed with {name}, which is not read here: unpack it first ({tool} FILE); "
                "gz, bz2 and xz are read as they are"
            )


def _other_kind(mode: int) -> str | None:
    if stat.S_ISREG(mode):
        return None
    return "a folder" if stat.S_ISDIR(mode) else "a named pipe" if stat.S_ISFIFO(mode) else "a device or socket"


def iter_blocks(path: Path, *, offset: int = 0) -> Iterator[bytes]:
    """The (decompressed) bytes of a file from ``offset`` on, block by block.

    A compressed file that was cut off gives what could be read.

    Raises:
        NotFoundError, ExternalError: the file is not there or cannot be read.
    """
    kind = compression_of(path)
    try:
        with _open(path, kind) as stream:
            if kind is None:
                stream.seek(offset)
            else:
                offset = _skip(stream, offset)
            while block := _read_block(stream, kind):
                yield block
    except OSError as error:
        raise ExternalError(f"the log cannot be read: {error}") from error


def is_damaged(path: Path) -> bool:
    """Whether a compressed file's first block cannot be unpacked.

    Raises:
        NotFoundError, ExternalError: the file is not there or cannot be read.
    """
    kind = compression_of(path)
    try:
        with _open(path, kind) as stream:
            stream.read(1)
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise ExternalError(f"the log cannot be read: {error}") from error
        return True
    return False


@dataclass(frozen=True, slots=True)
class Extent:
    """The two ends of a log, which is all that the tracker looks at.

    Attributes:
        size: bytes in the (decompressed) log.
        head: its first bytes.
        tail: its last bytes; overlaps ``head`` in a short log.
        tail_offset: where ``tail`` begins.
        newlines_before_tail: how many ``\\n`` come before; ``None`` when that was not counted.
    """

    size: int
    head: bytes
    tail: bytes
    tail_offset: int
    newlines_before_tail: int | None


def read_extent(
    path: Path, *, head_bytes: int, tail_bytes: int, count_lines_below_bytes: int = COUNT_LINES_BELOW_BYTES
) -> Extent:
    """Read both ends of a file in bounded memory, whatever its size (R-12).

    Lines are counted only in compressed files and in plain ones below ``count_lines_below_bytes``: counting
    must read everything.

    Raises:
        NotFoundError, ExternalError: the file is not there or cannot be read.
    """
    if compression_of(path) is None:
        return extent_of(
            FileSource(path),
            head_bytes=head_bytes,
            tail_bytes=tail_bytes,
            count_lines_below_bytes=count_lines_below_bytes,
        )
    return extent_of_blocks(iter_blocks(path), head_bytes=head_bytes, tail_bytes=tail_bytes)


def extent_of_blocks(blocks: Iterable[bytes], *, head_bytes: int, tail_bytes: int) -> Extent:
    """Both ends of a log that can only be read once, from its start to its end; in bounded memory."""
    head, size = bytearray(), 0
    recent: deque[bytes] = deque()
    recent_bytes = newlines = 0
    for block in blocks:
        if len(head) < head_bytes:
            head += block[: head_bytes - len(head)]
        size += len(block)
        recent.append(block)
        recent_bytes += len(block)
        while recent_bytes - len(recent[0]) >= tail_bytes:
            gone = recent.popleft()
            recent_bytes -= len(gone)
            newlines += gone.count(b"\n")
    kept = b"".join(recent)
    tail = kept[-tail_bytes:] if tail_bytes else b""
    newlines += kept.count(b"\n", 0, len(kept) - len(tail))
    return Extent(size, bytes(head), tail, size - len(tail), newlines)


def extent_of(
    source: LogSource, *, head_bytes: int, tail_bytes: int, count_lines_below_bytes: int = COUNT_LINES_BELOW_BYTES
) -> Extent:
    """Both ends of a log behind any source, as they are now."""
    size = source.size()
    start = max(0, size - tail_bytes)
    newlines = _count_newlines(source, start) if size <= count_lines_below_bytes else None
    head = source.read_at(0, min(head_bytes, size))
    return Extent(size, head, source.read_at(start, size - start), start, newlines)


def _count_newlines(source: LogSource, end: int) -> int:
    count = position = 0
    while position < end:
        block = source.read_at(position, min(BLOCK_BYTES, end - position))
        if not block:
            break
        count += block.count(b"\n")
        position += len(block)
    return count


def _open(path: Path, kind: str | None) -> BinaryIO:
    match kind:
        case "gz":
            return cast("BinaryIO", gzip.open(path, "rb"))
        case "bz2":
            return cast("BinaryIO", bz2.open(path, "rb"))
        case "xz":
            return cast("BinaryIO", lzma.open(path, "rb"))
        case _:
            return path.open("rb")


def _skip(stream: BinaryIO, offset: int) -> int:
    while offset > 0:
        block = _read_block(stream, "compressed", min(offset, BLOCK_BYTES))
        if not block:
            break
        offset -= len(block)
    return offset


def _read_block(stream: BinaryIO, kind: str | None, size: int = BLOCK_BYTES) -> bytes:
    try:
        return stream.read(size) if kind is None else cast("bytes", stream.read1(size))  # type: ignore[attr-defined]
    except _BROKEN as error:
        if kind is None or (isinstance(error, OSError) and error.errno is not None):
            raise
        return b""
