"""Reading a log that grows, turns over or shrinks, by byte offset (R-11), from either end (R-12)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.logs.lines import LogLine, normalise
from lucid_pipelines.logs.prefixes import Labels, detect_labels
from lucid_pipelines.logs.source import (
    BLOCK_BYTES,
    FileSource,
    LogSource,
    compression_of,
    iter_blocks,
    read_extent,
)
from lucid_pipelines.logs.splitter import LineSplitter, RawLine, SplitterState
from lucid_pipelines.logs.terminal import frames

_ANCHOR_BYTES = 64
_SAMPLE_BYTES = 64 * 1024
_SAMPLE_LINES = 48


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where reading stopped: enough to go on after a restart and to notice another file in its place.

    Attributes:
        offset: first byte of the line that was not complete.
        line_number: its number.
        inode: of the file, ``None`` when unknown.
        anchor: digest of the few bytes before ``offset`` and of the start of the file.
    """

    offset: int = 0
    line_number: int = 1
    inode: int | None = None
    anchor: str | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "offset": self.offset,
            "line_number": self.line_number,
            "inode": self.inode,
            "anchor": self.anchor,
        }

    @classmethod
    def from_json(cls, row: dict[str, object]) -> Cursor:
        """The inverse of ``to_json``. Raises ``InputError``."""
        offset, number, inode, anchor = (row.get(k) for k in ("offset", "line_number", "inode", "anchor"))
        if not isinstance(offset, int) or not isinstance(number, int) or offset < 0 or number < 1:
            raise InputError(f"a cursor has a byte offset and a line number; got {row!r}")
        return cls(
            offset,
            number,
            inode if isinstance(inode, int) else None,
            anchor if isinstance(anchor, str) else None,
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """What one pass of an incremental reader found.

    Attributes:
        lines: newly completed lines.
        pending: the unfinished last line; it will come again, complete, later.
        cursor: where to go on.
        restarted: the log was truncated or replaced, and reading began again at its start.
        at_end: nothing more could be read now. Not a sign that the job ended (R-2).
    """

    lines: tuple[RawLine, ...]
    pending: RawLine | None
    cursor: Cursor
    restarted: bool
    at_end: bool


def read_new(path: Path, cursor: Cursor | None = None, *, max_bytes: int = 8 * BLOCK_BYTES) -> Batch:
    """Read what was written since ``cursor``; the caller keeps the returned cursor.

    A log that was rotated away (same inode under a neighbouring name, ``train.log.1``) is read to its end
    before the new file is begun.

    Raises:
        NotFoundError, ExternalError: the file is not there or cannot be read.
    """
    cursor = cursor or Cursor()
    source = FileSource(path)
    inode = path.stat().st_ino if path.exists() else None
    size = source.size()
    if cursor.inode is not None and inode != cursor.inode:
        old = _rotated(path, cursor.inode)
        if old is not None and FileSource(old).size() > cursor.offset:
            batch = _read(FileSource(old), cursor, cursor.inode, max_bytes)
            if batch.lines:
                return Batch(batch.lines, batch.pending, batch.cursor, restarted=False, at_end=False)
            if batch.pending is not None:
                lines = (batch.pending._replace(complete=False),)
                return Batch(lines, None, Cursor(inode=inode), restarted=True, at_end=False)
        return _restart(source, inode, max_bytes)
    if size < cursor.offset or (cursor.anchor is not None and _anchor(source, cursor.offset) != cursor.anchor):
        return _restart(source, inode, max_bytes)
    return _read(source, cursor, inode, max_bytes)


def iter_raw_lines(path: Path, *, fold_blanks: bool = False) -> Iterator[RawLine]:
    """Every physical line of a plain or compressed log, oldest first, in bounded memory.

    Args:
        fold_blanks: long runs of blank lines come as one (see ``RawLine.blank_lines``).
    """
    splitter = LineSplitter()
    for block in iter_blocks(path):
        yield from splitter.feed_folded(block) if fold_blanks else splitter.feed(block)
    last = splitter.pending()
    if last is not None:
        yield last


def iter_lines(path: Path, labels: Labels | None = None) -> Iterator[LogLine]:
    """Every display state of a log, oldest first. ``labels=None`` finds out which labels it uses."""
    labels = labels_of(path) if labels is None else labels
    for raw in iter_raw_lines(path):
        yield from normalise(raw, labels)


def iter_raw_lines_backward(
    source: LogSource, *, end: int | None = None, block_bytes: int = BLOCK_BYTES // 4, max_line_bytes: int = 1 << 18
) -> Iterator[RawLine]:
    """Physical lines, newest first, without reading what comes before; their numbers are unknown.

    Of a line longer than ``max_line_bytes`` the end is kept.
    """
    end = source.size() if end is None else min(end, source.size())
    position, line_end, rest, complete = end, end, b"", False
    kept_from = end
    while position > 0:
        start = max(0, position - block_bytes)
        block = source.read_at(start, position - start)
        if len(block) < position - start:
            return
        pieces = block.split(b"\n")
        cut = position
        for index in range(len(pieces) - 1, -1, -1):
            piece = pieces[index]
            begin = cut - len(piece)
            rest = piece + rest
            kept_from = begin
            if index:
                if line_end > begin or complete:
                    yield _backward_line(rest, kept_from, line_end, complete, max_line_bytes)
                rest, line_end, complete = b"", begin - 1, True
                kept_from = line_end
            cut = begin - 1
        if len(rest) > 2 * max_line_bytes:
            rest = rest[-max_line_bytes:]
        position = start
    if line_end > 0 or complete:
        yield _backward_line(rest, 0, line_end, complete, max_line_bytes)


def labels_of(path: Path) -> Labels:
    """Look at both ends of a log to see whether task numbers or host names begin its lines."""
    extent = read_extent(path, head_bytes=_SAMPLE_BYTES, tail_bytes=_SAMPLE_BYTES, count_lines_below_bytes=0)
    return detect_labels_in(extent.head, extent.tail)


def detect_labels_in(*samples: bytes) -> Labels:
    """``detect_labels`` over raw bytes; the first and last line of each sample may be cut and are left out."""
    task = host = any(samples)
    for sample in samples:
        if sample and (task or host):
            found = detect_labels(_texts(sample))
            task, host = task and found.task, host and found.host
    return Labels(task=task, host=host)


def is_compressed(path: Path) -> bool:
    return compression_of(path) is not None


def _texts(sample: bytes) -> list[str]:
    lines = sample.split(b"\n")[1:-1]
    chosen = lines[:: max(1, len(lines) // _SAMPLE_LINES)]
    return [shown[-1] for line in chosen if (shown := frames(line[-2048:]))]


def _backward_line(data: bytes, start: int, end: int, complete: bool, limit: int) -> RawLine:
    size = end - start
    kept = data[-limit:]
    return RawLine(None, start, size + complete, kept, max(0, size - len(kept)), complete)


def _restart(source: FileSource, inode: int | None, max_bytes: int) -> Batch:
    batch = _read(source, Cursor(), inode, max_bytes)
    return Batch(batch.lines, batch.pending, batch.cursor, restarted=True, at_end=batch.at_end)


def _read(source: FileSource, cursor: Cursor, inode: int | None, max_bytes: int) -> Batch:
    splitter = LineSplitter(SplitterState(cursor.offset, cursor.line_number))
    lines: list[RawLine] = []
    position, at_end = cursor.offset, False
    while not lines or position - cursor.offset < max_bytes:
        block = source.read_at(position, min(BLOCK_BYTES, max_bytes))
        if not block:
            at_end = True
            break
        lines.extend(splitter.feed(block))
        position += len(block)
    state = splitter.state
    new = Cursor(state.offset, state.number or 1, inode, _anchor(source, state.offset))
    return Batch(tuple(lines), splitter.pending(), new, restarted=False, at_end=at_end)


def _anchor(source: LogSource, offset: int) -> str:
    start = source.read_at(0, min(_ANCHOR_BYTES, offset))
    before = source.read_at(max(0, offset - _ANCHOR_BYTES), min(_ANCHOR_BYTES, offset))
    return hashlib.blake2b(start + b"|" + before, digest_size=8).hexdigest()


def _rotated(path: Path, inode: int) -> Path | None:
    for neighbour in path.parent.glob(path.name + ".*"):
        try:
            if neighbour.stat().st_ino == inode:
                return neighbour
        except OSError:
            continue
    return None
