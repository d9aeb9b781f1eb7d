"""Reading a growing log by byte offset (R-11)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lucid_pipelines.domain.errors import ExternalError, InputError
from lucid_pipelines.ports import LogChunk

LARGEST_CHUNK_BYTES = 64 * 1024 * 1024


def read_chunk(path: Path, offset: int, max_bytes: int) -> LogChunk:
    """Bytes from ``offset``; from 0 when the file has shrunk below it; empty when there is no file yet.

    Raises:
        InputError: a negative offset or a ``max_bytes`` below 1.
        ExternalError: the file cannot be read.
    """
    checked_range(offset, max_bytes)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return LogChunk(b"", 0, 0, 0, restarted=offset > 0)
    except OSError as error:
        raise ExternalError(f"the log cannot be read: {error}") from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ExternalError(f"the log is no regular file any more: {path}")
        begin = offset if offset <= status.st_size else 0
        data = os.pread(fd, min(max_bytes, LARGEST_CHUNK_BYTES), begin)
    except OSError as error:
        raise ExternalError(f"the log cannot be read: {error}") from error
    finally:
        os.close(fd)
    identity = f"{status.st_dev:x}-{status.st_ino:x}"
    end = begin + len(data)
    return LogChunk(data, begin, end, max(status.st_size, end), begin != offset, identity)


def checked_range(offset: int, max_bytes: int) -> None:
    """Raises ``InputError`` for a piece of a log that cannot be."""
    if offset < 0 or max_bytes < 1:
        raise InputError(f"a log is read from an offset of 0 or more, at least one byte; got {offset}, {max_bytes}")
