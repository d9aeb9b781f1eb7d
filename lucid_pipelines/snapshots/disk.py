"""Writing files so that they are whole, sparse where the content is, and on the disk when it matters."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.snapshots.errors import StoreFullError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FEW = 32
_HOLE_BYTES = 1 << 16
_ZEROS = bytes(1 << 20)


@contextmanager
def store_errors(place: Path) -> Iterator[None]:
    """Turn what the disk says into errors that say what to do.

    Raises:
        StoreFullError: no space, no quota, or the file-size limit.
        ExternalError: anything else that the operating system refused.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFullError(
                f"no room to write ({error.strerror}); free some space, raise the quota or choose another "
                f"place: {place}"
            ) from error
        raise ExternalError(f"cannot write ({error.strerror}); check the place and its owner: {place}") from error


def create_file(path: str | bytes, mode: int, *, dir_fd: int | None = None) -> BinaryIO:
    """A new unbuffered file of exactly these permission bits; fails when the name is taken."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600, dir_fd=dir_fd)
    os.fchmod(descriptor, mode)
    return os.fdopen(descriptor, "wb", buffering=0)


def write_all(stream: BinaryIO, data: bytes) -> None:
    """Write every byte: a raw write may be short when the disk is nearly full."""
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]


def write_sparsely(stream: BinaryIO, chunk: bytes) -> None:
    """Write a chunk of a longer file; long runs of zeros become holes. End with ``finish_sparse``."""
    if len(chunk) >= _HOLE_BYTES and chunk == _ZEROS[: len(chunk)]:
        stream.seek(len(chunk), os.SEEK_CUR)
    else:
        write_all(stream, chunk)


def finish_sparse(stream: BinaryIO) -> None:
    """Give the file its length, which a hole at the end does not."""
    stream.truncate(stream.tell())


def sync_paths(paths: Collection[str], place: Path) -> None:
    """The named files, and their names in their directories, are on the disk when this returns.

    A few are flushed one by one, which does not wait for what others write to the same disk. For many, one flush
    of the whole file system is faster than a journal commit each.

    Args:
        paths: files and directories below ``place``.

    Raises:
        OSError: the kernel reports a write that failed.
    """
    if len(paths) > _FEW:
        sync_file_system(place)
        return
    for path in sorted({*paths, *(os.path.dirname(path) for path in paths)}):  # noqa: PTH120 - strings throughout
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_file_system(place: Path) -> None:
    """Everything written so far to the file system of ``place`` is on the disk when this returns.

    Raises:
        OSError: the kernel reports a write that failed.
    """
    if not sys.platform.startswith("linux"):
        os.sync()
        return
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(place))
    finally:
        os.close(descriptor)
