"""Bytes of a trace file, whatever wraps them: plain, gzip, or one member of a tar archive."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO

from lucid_pipelines.domain.errors import InputError, NotFoundError, did_you_mean
from lucid_pipelines.near_files import near_file

Progress = Callable[[float], None]
"""Called now and then with the share of the file that has been read, 0 to 1."""

MEMBER_SEPARATOR = "::"
_GZIP_MAGIC = b"\x1f\x8b"
_TAR_SUFFIXES = (".tar.gz", ".tgz", ".tar")
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file, or one member of an archive (``archive.tar.gz::folder/member.csv``)."""

    path: Path
    member: str | None = None

    @classmethod
    def of(cls, path: str | Path) -> TraceFile:
        """Split off the member and check that the file can be opened.

        Raises:
            NotFoundError: there is no such file; the nearest name in its folder is named.
        """
        text, _, member = str(path).partition(MEMBER_SEPARATOR)
        file = Path(text)
        if not file.exists():
            raise NotFoundError(f"there is no file{near_file(file)}: {text}")
        return cls(file, member or None)

    @property
    def label(self) -> str:
        """Its name without the folder, for messages and metadata."""
        return self.path.name + (f"{MEMBER_SEPARATOR}{self.member}" if self.member else "")

    @property
    def content_name(self) -> str:
        """The name of the data itself: the member's, or the file's without a ``.gz`` ending."""
        return Path(self.member).name if self.member else self.path.name.removesuffix(".gz")

    def sibling(self, *names: str) -> Path | None:
        """The first of these files that lies beside it, plain or with ``.gz``."""
        for name in names:
            for candidate in (self.path.parent / name, self.path.parent / f"{name}.gz"):
                if candidate.is_file():
                    return candidate
        return None


@contextmanager
def open_bytes(file: TraceFile, progress: Progress | None = None) -> Iterator[ByteSource]:
    """Open for reading, decompressed.

    Raises:
        InputError: the file cannot be read, is empty, or its compression is damaged.
    """
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(file.path.open("rb"))
        except OSError as error:
            raise InputError(f"the trace cannot be read ({error.strerror}): {file.path}") from error
        stream: IO[bytes] | gzip.GzipFile = raw
        if file.member or file.path.name.endswith(_TAR_SUFFIXES):
            stream = stack.enter_context(_open_member(file))
        elif raw.peek(2)[:2] == _GZIP_MAGIC:
            stream = stack.enter_context(gzip.open(raw))
        yield ByteSource(stream, raw, file.label, progress)


class ByteSource:
    """Reads blocks and turns every way in which bytes can be damaged into one clear error."""

    def __init__(
        self, stream: IO[bytes] | gzip.GzipFile, raw: BufferedReader, label: str, progress: Progress | None
    ) -> None:
        self._stream = stream
        self._raw = raw
        self._size = max(1, Path(raw.name).stat().st_size)
        self._progress = progress
        self._count = 0
        self.label = label

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; empty at the end.

        Raises:
            InputError: the compressed data is truncated or damaged.
        """
        try:
            data = self._stream.read(size)
        except EOFError as error:
            raise InputError(
                f"the compressed file ends too early, after its {self._size:,} bytes; "
                f"fetch or write it again: {self.label}"
            ) from error
        except (OSError, zlib.error, tarfile.TarError) as error:
            raise InputError(
                f"the compressed file is damaged after {self._count} bytes ({error}): {self.label}"
            ) from error
        if self._count == 0 and data[:2] in _UTF16_MARKS:
            raise InputError(f"the file is written in UTF-16; convert it to UTF-8: {self.label}")
        self._count += len(data)
        if self._progress is not None:
            self._progress(min(1.0, self._raw.tell() / self._size))
        return data


@contextmanager
def _open_member(file: TraceFile) -> Iterator[IO[bytes]]:
    try:
        with tarfile.open(file.path, "r:*") as archive:
            names = [info.name for info in archive if info.isfile()]
            name = _member_name(file, names)
            stream = archive.extractfile(name)
            if stream is None:
                raise InputError(f"the archive member is not a file: {file.label}")
            yield stream
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"the archive is damaged or not a tar file ({error}): {file.label}") from error


def _member_name(file: TraceFile, names: list[str]) -> str:
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    if file.member is None:
        if len(names) == 1:
            return names[0]
        raise InputError(
            f"the archive holds {len(names)} files; name one as "
            f"{file.path.name}{MEMBER_SEPARATOR}MEMBER, of: {shown or 'none'}"
        )
    for name in names:
        if name.removeprefix("./") == file.member.removeprefix("./"):
            return name
    raise NotFoundError(
        f"the archive {file.path.name} has no member {file.member!r}"
        f"{did_you_mean(file.member, names)}; it holds {shown or 'none'}"
    )
