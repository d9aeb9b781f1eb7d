"""The fast path for huge logs: bisection over chunks, verified backward, and a slower path when order is broken.

SchedMate (sections 9, 13) bisects over chunks: before the first true error chunks are healthy, after it they are
ill. That order is not trusted here: later chunks are probed for health, the chunk before the answer is walked
back to the last progress of the job, and when the region does not explain the failure the end of the log is
scanned instead.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from lucid_pipelines.domain.errors import ExternalError
from lucid_pipelines.failures.locate import locate
from lucid_pipelines.failures.scan import Scan, scan
from lucid_pipelines.failures.verdicts import Judge
from lucid_pipelines.failures.vocabulary import Ending
from lucid_pipelines.logs import FileSource, Labels, LineSplitter, LogSource, RawLine, SplitterState, detect_labels_in

CHUNK_BYTES = 32 << 10
_HEAD_BYTES = 64 << 10
_REGION_BYTES = 1 << 20
_WALK_BACK_BYTES = 8 << 20
_SLOW_BYTES = 256 << 20
_COUNT_BYTES = 1 << 30
_PROBES_AFTER = 12
_MAX_RETRIES = 4
_MAX_EXTENTS = 100_000
_AFTER_LOUD = 3


class Health(StrEnum):
    """What one chunk of a log looks like."""

    HEALTHY = "healthy"
    """The job's counter climbs to the chunk's end."""
    ILL = "ill"
    MUTE = "mute"
    """Neither progress nor errors."""


@dataclass(frozen=True, slots=True)
class HugeLog:
    """What was read of a huge log.

    Attributes:
        path: ``bisected``, or ``scanned`` when the order was broken and the end was read instead.
        bytes_read: bytes of file content that were looked at (counting newlines not included).
        size: apparent size of the file.
        is_numbered: whether line numbers are known.
    """

    scan: Scan
    path: str
    bytes_read: int
    size: int
    is_numbered: bool


@dataclass(slots=True)
class _Reader:
    """The stored parts of a sparse file, seen as one run of bytes."""

    source: LogSource
    starts: list[int]
    ends: list[int]
    dense_starts: list[int]
    bytes_read: int = 0

    @property
    def dense_size(self) -> int:
        return self.dense_starts[-1] + self.ends[-1] - self.starts[-1] if self.starts else 0

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """File offset and bytes of the stored parts between two dense positions."""
        index = max(0, bisect_right(self.dense_starts, start) - 1)
        while index < len(self.starts) and self.dense_starts[index] < end:
            skipped = max(0, start - self.dense_starts[index])
            offset = self.starts[index] + skipped
            size = min(self.ends[index], self.starts[index] + end - self.dense_starts[index]) - offset
            while size > 0:
                data = self.source.read_at(offset, min(size, 1 << 20))
                if not data:
                    return
                self.bytes_read += len(data)
                yield offset, data
                offset, size = offset + len(data), size - len(data)
            index += 1

    def newlines_before(self, offset: int) -> int:
        """How many newlines the stored parts hold before a file offset."""
        count = 0
        for start, end in zip(self.starts, self.ends, strict=True):
            position, stop = start, min(end, offset)
            while position < stop:
                block = self.source.read_at(position, min(1 << 20, stop - position))
                if not block:
                    return count
                count += block.count(b"\n")
                position += len(block)
        return count

    def offset_of(self, dense: int) -> int:
        index = max(0, bisect_right(self.dense_starts, dense) - 1)
        return self.starts[index] + dense - self.dense_starts[index]


def read_around_end(path: Path, judge: Judge) -> HugeLog:
    """Read the part of a plain log that holds the first true error.

    Memory and time do not grow with the log when its order is sane: a few dozen chunks, then a few MiB. When
    the region found does not explain the end, the last 256 MiB are scanned (the slower path).

    Raises:
        NotFoundError, ExternalError: the file is not there or cannot be read.
    """
    source = FileSource(path)
    reader = _open(path, source)
    head = b"".join(data for _, data in reader.pieces(0, _HEAD_BYTES))
    tail = b"".join(data for _, data in reader.pieces(max(0, reader.dense_size - _HEAD_BYTES), reader.dense_size))
    labels = detect_labels_in(head, tail)
    numbered = reader.dense_size <= _COUNT_BYTES
    turn = _turn(reader, labels, judge)
    start = _last_progress_before(reader, labels, judge, turn)
    end = min(reader.dense_size, turn + _REGION_BYTES)
    parts = [(start, end), (max(end, reader.dense_size - _HEAD_BYTES), reader.dense_size)]
    found = _scan_parts(reader, labels, judge, parts, numbered=numbered)
    if _explains(found):
        return HugeLog(found, "bisected", reader.bytes_read, source.size(), numbered)
    start = max(0, reader.dense_size - _SLOW_BYTES)
    found = _scan_parts(reader, labels, judge, [(start, reader.dense_size)], numbered=numbered)
    return HugeLog(found, "scanned", reader.bytes_read, source.size(), numbered)


def health_of(raws: list[RawLine], labels: Labels, judge: Judge) -> Health:
    """What a chunk looks like: the cheap classifier of the bisection."""
    found = scan(raws, labels, judge, begins_at_start=False)
    loud = found.loud
    last = found.progress.last_place()
    if last is not None and (not loud or last > loud[-1] + _AFTER_LOUD):
        return Health.HEALTHY
    return Health.ILL if loud else Health.MUTE


def _turn(reader: _Reader, labels: Labels, judge: Judge) -> int:
    """Dense position of the first ill chunk after the last healthy one, by bisection and probes."""
    chunks = max(1, -(-reader.dense_size // CHUNK_BYTES))
    low, high = 0, chunks - 1
    seen: dict[int, Health] = {}

    def health(chunk: int) -> Health:
        if chunk not in seen:
            begin = chunk * CHUNK_BYTES
            raws = list(_raw_lines(reader, begin, min(reader.dense_size, begin + CHUNK_BYTES), None))
            seen[chunk] = health_of(raws, labels, judge)
        return seen[chunk]

    for _ in range(_MAX_RETRIES):
        left, right = low, high
        while left < right:
            middle = (left + right) // 2
            if health(middle) is Health.ILL:
                right = middle
            else:
                left = middle + 1
        later = _later_healthy(health, left, chunks)
        if later is None:
            return left * CHUNK_BYTES
        low = later
    return low * CHUNK_BYTES


def _later_healthy(health: object, turn: int, chunks: int) -> int | None:
    """The last of a dozen probes behind ``turn`` that is healthy: then the job went on after it."""
    assert callable(health)
    distance = chunks - 1 - turn
    places = {turn + max(1, round(distance * i / _PROBES_AFTER)) for i in range(1, _PROBES_AFTER + 1)}
    for place in sorted((p for p in places if turn < p < chunks), reverse=True):
        if health(place) is Health.HEALTHY:
            return place
    return None


def _last_progress_before(reader: _Reader, labels: Labels, judge: Judge, turn: int) -> int:
    """Walk back from the turn to the last chunk in which the job makes progress; start one chunk before it."""
    position = turn
    while position > 0 and turn - position < _WALK_BACK_BYTES:
        begin = max(0, position - CHUNK_BYTES)
        raws = list(_raw_lines(reader, begin, position, None))
        if health_of(raws, labels, judge) is Health.HEALTHY:
            return max(0, begin - 2 * CHUNK_BYTES)
        position = begin
    return position


def _scan_parts(reader: _Reader, labels: Labels, judge: Judge, parts: list[tuple[int, int]], *, numbered: bool) -> Scan:
    """One scan over some parts of the log, in order; the last of them tells how it ended."""

    def lines() -> Iterator[RawLine]:
        for start, end in parts:
            if start < end:
                number = 1 + reader.newlines_before(reader.offset_of(start)) if numbered else None
                yield from _raw_lines(reader, start, end, number)

    return scan(lines(), labels, judge, begins_at_start=parts[0][0] == 0)


def _explains(found: Scan) -> bool:
    """Whether the region tells how the run ended, and its lines are in the order of their times."""
    located = locate(found)
    if located.times_disagree or located.ending in (Ending.UNKNOWN, Ending.ROOT_LOST):
        return False
    return located.ending is not Ending.FAILED or located.strength >= 1


def _raw_lines(reader: _Reader, start: int, end: int, number: int | None) -> Iterator[RawLine]:
    """Lines between two dense positions; a first line that may be cut is left out, unless it starts the log.

    A hole in the file ends a line: the bytes on its two sides are not one record.
    """
    splitter: LineSplitter | None = None
    expected = -1
    skip_first = start > 0
    for offset, data in reader.pieces(start, end):
        if splitter is None or offset != expected:
            if splitter is not None:
                yield from _rest(splitter)
                number = splitter.state.number
            splitter = LineSplitter(SplitterState(offset, number))
        expected = offset + len(data)
        for line in splitter.feed_folded(data):
            if skip_first:
                skip_first = False
                continue
            yield line
    if splitter is not None:
        yield from _rest(splitter)


def _rest(splitter: LineSplitter) -> list[RawLine]:
    """The line that nothing ended."""
    last = splitter.pending()
    return [] if last is None else [last]


def _open(path: Path, source: LogSource) -> _Reader:
    starts, ends, dense = [], [], []
    total = 0
    for start, end in _extents(path, source.size()):
        starts.append(start)
        ends.append(end)
        dense.append(total)
        total += end - start
    return _Reader(source, starts, ends, dense)


def _extents(path: Path, size: int) -> list[tuple[int, int]]:
    """The stored parts of a file; the whole file where the file system does not tell."""
    found: list[tuple[int, int]] = []
    try:
        with path.open("rb") as file:
            position = 0
            while position < size and len(found) < _MAX_EXTENTS:
                try:
                    start = os.lseek(file.fileno(), position, os.SEEK_DATA)
                except OSError as error:
                    if error.errno == errno.ENXIO:
                        return found
                    return [(0, size)]
                end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
                found.append((start, end))
                position = end
    except OSError as error:
        raise ExternalError(f"the log cannot be read: {error}") from error
    return found if len(found) < _MAX_EXTENTS else [(0, size)]
