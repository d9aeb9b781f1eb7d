"""Opening files below a root in such a way that no renamed path or planted link leads outside (R-43).

Every component is opened relative to the directory before it, never following a link. A path that was swapped
for a link since it was listed is refused by the kernel, not by a check that comes too early.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lucid_pipelines.domain.errors import InputError, NotFoundError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: should the file have become a FIFO, opening it must not wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_SWAPPED = {errno.ELOOP, errno.ENOTDIR, errno.EMLINK, errno.ENXIO}


class EntryGoneError(Exception):
    """The entry does not exist any more."""


class EntrySwappedError(Exception):
    """Something else stands where the entry stood."""


@contextmanager
def opened_root(source_dir: Path) -> Iterator[int]:
    """A descriptor of the source directory; links on the way to it are the caller's and are followed.

    Raises:
        NotFoundError, InputError: it does not exist, is no directory, or cannot be read.
    """
    try:
        descriptor = os.open(source_dir, _DIRECTORY)
    except FileNotFoundError:
        raise NotFoundError(f"the source directory does not exist: {source_dir}") from None
    except NotADirectoryError:
        raise InputError(f"the source must be a directory: {source_dir}") from None
    except OSError as error:
        raise InputError(f"the source directory cannot be read ({error.strerror}): {source_dir}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_directory(name: bytes, parent: int) -> int:
    """Open a directory of ``parent``; a link in its place is refused."""
    with _translated():
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)


def open_regular(name: bytes, parent: int) -> tuple[int, os.stat_result]:
    """Open a regular file of ``parent`` for reading, and its metadata."""
    with _translated():
        descriptor = os.open(name, _FILE, dir_fd=parent)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise EntrySwappedError
    return descriptor, found


class DirectoryChain:
    """Opens the files of a sorted list, keeping the directories on the way to the current one open."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._steps: list[bytes] = []
        self._descriptors: list[int] = []

    def open_regular(self, path: bytes) -> tuple[int, os.stat_result]:
        """Open a file by its path below the root."""
        *steps, name = path.split(b"/")
        shared = 0
        while shared < min(len(steps), len(self._steps)) and steps[shared] == self._steps[shared]:
            shared += 1
        self._close_from(shared)
        for step in steps[shared:]:
            self._descriptors.append(open_directory(step, self._descriptors[-1] if self._descriptors else self._root))
            self._steps.append(step)
        return open_regular(name, self._descriptors[-1] if self._descriptors else self._root)

    def close(self) -> None:
        self._close_from(0)

    def _close_from(self, depth: int) -> None:
        while len(self._descriptors) > depth:
            os.close(self._descriptors.pop())
            self._steps.pop()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise EntryGoneError from None
    except OSError as error:
        if error.errno in _SWAPPED:
            raise EntrySwappedError from error
        raise
