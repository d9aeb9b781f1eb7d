"""Bytes to physical lines: split at ``\\n`` only, any chunking, bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from lucid_pipelines.domain.errors import InputError

HEAD_BYTES = 64 * 1024
"""How much of the start of an over-long line is kept."""
TAIL_BYTES = 192 * 1024
"""How much of its end is kept: the newest state of a progress bar stands there."""
_PIECE_BYTES = 64 * 1024
_MIN_FOLDED = 32
_BLANKS = re.compile(rb"[ \t\r\n]{64,}")


class RawLine(NamedTuple):
    """One physical line, as bytes.

    Attributes:
        number: 1-based, counted by ``\\n``; ``None`` where reading did not begin at the start of the log.
        offset: byte offset of its first byte in the (decompressed) log.
        size: its length in bytes, newline included.
        data: its bytes without the newline; of an over-long line, the head and the tail.
        dropped_bytes: how many bytes of an over-long line were left out between head and tail.
        complete: whether its newline has been seen.
        blank_lines: how many lines of nothing but white space were read as this one; ``number`` and ``offset`` are
            the first one's, ``size`` is that of all. 1 everywhere else.
    """

    number: int | None
    offset: int
    size: int
    data: bytes
    dropped_bytes: int = 0
    complete: bool = True
    blank_lines: int = 1


@dataclass(frozen=True, slots=True)
class SplitterState:
    """Where a splitter stands, for a cursor: offset of the next line's first byte and its number."""

    offset: int = 0
    number: int | None = 1


class LineSplitter:
    """Turns a stream of chunks into lines; the answer does not depend on where the chunks are cut.

    Args:
        state: where the stream begins.
        head_bytes, tail_bytes: what is kept of a line longer than both together.

    Raises:
        InputError: a limit below one byte.
    """

    def __init__(
        self,
        state: SplitterState | None = None,
        *,
        head_bytes: int = HEAD_BYTES,
        tail_bytes: int = TAIL_BYTES,
    ) -> None:
        if head_bytes < 1 or tail_bytes < 1:
            raise InputError(f"keep at least one byte of a long line; got {head_bytes} and {tail_bytes}")
        self._head_limit, self._tail_limit = head_bytes, tail_bytes
        state = state or SplitterState()
        self._offset, self._number = state.offset, state.number
        self._head, self._tail, self._seen = bytearray(), bytearray(), 0

    @property
    def state(self) -> SplitterState:
        """Start of the line that is not finished yet: reading may begin again there."""
        return SplitterState(self._offset, self._number)

    def feed(self, chunk: bytes) -> list[RawLine]:
        """The lines that ``chunk`` completes."""
        first, *rest = chunk.split(b"\n")
        self._append(first)
        if not rest:
            return []
        lines = [self._finish(complete=True)]
        limit, offset, number = self._head_limit + self._tail_limit, self._offset, self._number
        for data in rest[:-1]:
            size = len(data) + 1
            if size > limit:
                self._offset, self._number = offset, number
                self._append(data)
                lines.append(self._finish(complete=True))
            else:
                lines.append(RawLine(number, offset, size, data))
            offset += size
            number = None if number is None else number + 1
        self._offset, self._number = offset, number
        self._append(rest[-1])
        return lines

    def feed_folded(self, chunk: bytes) -> Iterator[RawLine]:
        """The lines that ``chunk`` completes, a long run of blank ones as one (see ``RawLine.blank_lines``).

        Made piece by piece: a chunk of short lines takes little memory at a time.
        """
        at = 0
        for run in _BLANKS.finditer(chunk):
            # The run's first newline ends the line before it; what follows its last one begins the line after it.
            first_end, end = chunk.find(b"\n", *run.span()) + 1, chunk.rfind(b"\n", *run.span()) + 1
            count = chunk.count(b"\n", first_end, end) if first_end else 0
            if count < _MIN_FOLDED:
                continue
            yield from self._feed_pieces(chunk, at, first_end)
            yield RawLine(self._number, self._offset, end - first_end, b"", blank_lines=count)
            self._offset += end - first_end
            self._number = None if self._number is None else self._number + count
            at = end
        yield from self._feed_pieces(chunk, at, len(chunk))

    def _feed_pieces(self, chunk: bytes, start: int, end: int) -> Iterator[RawLine]:
        for at in range(start, end, _PIECE_BYTES):
            yield from self.feed(chunk[at : min(at + _PIECE_BYTES, end)])

    def pending(self) -> RawLine | None:
        """The unfinished last line, without consuming it; ``None`` when the stream ends in a newline."""
        return self._line(complete=False) if self._seen else None

    def _append(self, data: bytes) -> None:
        self._seen += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-self._tail_limit :]
            if len(self._tail) > 4 * self._tail_limit:
                del self._tail[: -self._tail_limit]

    def _finish(self, *, complete: bool) -> RawLine:
        line = self._line(complete=complete)
        self._offset += line.size
        self._number = None if self._number is None else self._number + 1
        self._head, self._tail, self._seen = bytearray(), bytearray(), 0
        return line

    def _line(self, *, complete: bool) -> RawLine:
        tail = bytes(self._tail[-self._tail_limit :])
        dropped = self._seen - len(self._head) - len(tail)
        if dropped > 0:
            tail = _from_boundary(tail)
            dropped = self._seen - len(self._head) - len(tail)
        data = bytes(self._head) + (b"\r" if dropped else b"") + tail
        return RawLine(self._number, self._offset, self._seen + complete, data, dropped, complete)


def _from_boundary(tail: bytes) -> bytes:
    """``tail`` from its first redraw on, so that no half bar is read; all of it when it has none."""
    cut = tail.find(b"\r")
    if cut < 0:
        cut = 0
        while cut < min(3, len(tail)) and tail[cut] & 0xC0 == 0x80:
            cut += 1
    return tail[cut:]
