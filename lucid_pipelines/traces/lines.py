"""Lines and records of a delimited text, in blocks, with bounded memory whatever the bytes are."""

from __future__ import annotations

import codecs
import csv
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.traces.contract import Reason
from lucid_pipelines.traces.files import ByteSource, TraceFile, open_bytes

READ_BYTES = 1 << 22
LINE_LIMIT = 1 << 18
"""Characters; a longer line is no row of a trace."""
QUOTED_LINES_LIMIT = 20
"""A quoted cell that spans more lines than this is a stray quote."""
REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Consecutive lines without their ends. ``first_number`` counts from 1.

    ``cut`` are positions of lines that were longer than ``LINE_LIMIT``; only their beginning is kept.
    """

    first_number: int
    lines: list[str]
    cut: frozenset[int] = frozenset()


@dataclass(slots=True)
class Rejected:
    """A row that could not even be split into cells."""

    number: int
    reason: Reason
    raw: str


@dataclass(slots=True)
class RecordBlock:
    """Rows of equal width; ``numbers`` are the lines on which they begin."""

    numbers: list[int] = field(default_factory=list)
    raws: list[str] = field(default_factory=list)
    rows: list[Sequence[str]] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


def line_blocks(source: ByteSource) -> Iterator[LineBlock]:
    """Decode UTF-8 (a byte-order mark is dropped, bad bytes become U+FFFD) and split at line ends."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    number, carried, is_cut, is_last = 1, "", False, False
    while not is_last:
        data = source.read(READ_BYTES)
        is_last = not data
        text = decoder.decode(data, final=is_last)
        parts = text.split("\n")
        parts[0] = carried + parts[0] if not is_cut else carried
        carried = parts.pop()
        cut = {0} if is_cut and parts else set[int]()
        is_cut = is_cut and not parts
        if len(carried) > LINE_LIMIT:
            carried, is_cut = carried[:LINE_LIMIT], True
        if is_last and carried:
            if is_cut:
                cut.add(len(parts))
            parts.append(carried)
        for i, line in enumerate(parts):
            if len(line) > LINE_LIMIT:
                parts[i] = line[:LINE_LIMIT]
                cut.add(i)
            elif line.endswith("\r"):
                parts[i] = line[:-1]
        if parts:
            yield LineBlock(number, parts, frozenset(cut))
            number += len(parts)


def read_header(blocks: Iterator[LineBlock], label: str) -> tuple[str, Iterator[LineBlock]]:
    """The first line that is not blank, and the blocks after it.

    Raises:
        InputError: the file has no line at all.
    """
    for block in blocks:
        for i, line in enumerate(block.lines):
            if line.strip():
                rest = LineBlock(
                    block.first_number + i + 1,
                    block.lines[i + 1 :],
                    frozenset(position - i - 1 for position in block.cut if position > i),
                )
                return line, _chain(rest, blocks)
    raise InputError(f"the trace file is empty: {label}")


def peek_line(file: TraceFile) -> str:
    """The first line of a file that is not blank.

    Raises:
        InputError: the file is empty or damaged.
    """
    with open_bytes(file) as source:
        return read_header(line_blocks(source), file.label)[0]


def split_header(line: str, separator: str) -> list[str]:
    """Cells of a header line; quotes are taken off."""
    if '"' not in line or separator != ",":
        return [cell.strip().strip('"') for cell in line.split(separator)]
    return _quoted(line, separator) or [line]


def records(blocks: Iterator[LineBlock], width: int, separator: str, header: str = "") -> Iterator[RecordBlock]:
    """Split lines into rows of ``width`` cells; what cannot be split is rejected with a reason.

    Blank lines are not rows. A quoted cell may hold separators and line ends.
    """
    carry: deque[tuple[int, str]] = deque()
    for block in blocks:
        out = RecordBlock()
        if not carry and not block.cut and not any('"' in line for line in block.lines):
            _split_plain(block, width, separator, header, out)
        else:
            carry.extend(_numbered(block, out))
            _split_quoted(carry, width, separator, header, out, is_last=False)
        yield out
    out = RecordBlock()
    _split_quoted(carry, width, separator, header, out, is_last=True)
    if out.numbers or out.rejected:
        yield out


def reject_damaged(number: int, line: str, out: RecordBlock) -> bool:
    """Whether the line holds bytes that were not UTF-8; it is rejected then."""
    if REPLACEMENT in line:
        out.rejected.append(Rejected(number, Reason.NOT_UTF8, line))
        return True
    return False


def _chain(first: LineBlock, rest: Iterator[LineBlock]) -> Iterator[LineBlock]:
    if first.lines:
        yield first
    yield from rest


def _numbered(block: LineBlock, out: RecordBlock) -> list[tuple[int, str]]:
    numbered = list(enumerate(block.lines, block.first_number))
    for position in sorted(block.cut, reverse=True):
        number, line = numbered.pop(position)
        out.rejected.append(Rejected(number, Reason.LINE_TOO_LONG, line))
    return numbered


def _split_plain(block: LineBlock, width: int, separator: str, header: str, out: RecordBlock) -> None:
    rows: list[Sequence[str]] = [line.split(separator) for line in block.lines]
    good = [
        len(cells) == width and REPLACEMENT not in line and line != header
        for line, cells in zip(block.lines, rows, strict=True)
    ]
    numbers = range(block.first_number, block.first_number + len(rows))
    for number, line, is_good in zip(numbers, block.lines, good, strict=True):
        if not is_good and line.strip():
            _reject(number, line, header, out)
    out.numbers = list(compress(numbers, good))
    out.raws = list(compress(block.lines, good))
    out.rows = list(compress(rows, good))


def _split_quoted(
    carry: deque[tuple[int, str]], width: int, separator: str, header: str, out: RecordBlock, *, is_last: bool
) -> None:
    while carry:
        number, text = carry[0]
        used = 1
        while text.count('"') % 2 and used <= QUOTED_LINES_LIMIT:
            if used >= len(carry):
                if not is_last:
                    return  # the rest of the quoted cell is in the next block
                break
            text += "\n" + carry[used][1]
            used += 1
        if text.count('"') % 2:
            text, used = carry[0][1], 1
            cells = None
        else:
            cells = _quoted(text, separator) if '"' in text else text.split(separator)
        for _ in range(used):
            carry.popleft()
        if not text.strip():
            continue
        if cells is not None and len(cells) == width and REPLACEMENT not in text and text != header:
            out.numbers.append(number)
            out.raws.append(text)
            out.rows.append(cells)
        else:
            _reject(number, text, header, out)


def _reject(number: int, line: str, header: str, out: RecordBlock) -> None:
    if line == header:
        out.rejected.append(Rejected(number, Reason.REPEATED_HEADER, line))
    elif not reject_damaged(number, line, out):
        out.rejected.append(Rejected(number, Reason.MALFORMED_ROW, line))


def _quoted(text: str, separator: str) -> list[str] | None:
    try:
        rows = list(csv.reader([text], delimiter=separator, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None
