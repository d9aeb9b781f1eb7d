"""From the two ends of a log to its newest records: what the tracker looks at, whatever the size of the log."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lucid_pipelines.logs import (
    Extent,
    Labels,
    LineTime,
    TimeKind,
    detect_labels_in,
    find_time,
    frames,
    split_prefix,
    unglue,
)
from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.forms import form_of, has_numbers, may_report
from lucid_pipelines.tracker.meaning import Role, meaning
from lucid_pipelines.tracker.phase import phase_of
from lucid_pipelines.tracker.records import Kind, Parsed, Shape
from lucid_pipelines.tracker.tables import Header, may_be_row, name_columns, read_header

NEWEST_PER_FORM = 64
MAX_RECORDS = 3000
MAX_PIECE_BYTES = 8192
MAX_HEADER_CHARS = 400
MAX_LONE_FORMS = 1500
"""Forms seen only once of which the newest are looked at: what reports progress recurs, a dump does not."""
_ANNOUNCEMENT = re.compile(
    rb"\b(?:running|start(?:ing|ed|s)?|begin(?:ning|s)?)\s+(?:the\s+)?(?:model\s+)?(?:pre-?|fine-?)?(?:training|tuning)\b"
    rb"|\btraining\s+(?:started|starts|begins|loop\b|for \d+ (?:epochs|steps|iter|kimg))"
    rb"|\xe5\xbc\x80\xe5\xa7\x8b\xe8\xae\xad\xe7\xbb\x83",
    re.IGNORECASE,
)
_CELL_MARKS = re.compile(r"[ ,;\t]")
_GIANT_LINE_BYTES = 32 * 1024
_CONTROLS = bytes([*range(1, 7), *range(14, 27), *range(28, 32), 127])
"""Control characters that text does not use: not NUL (holes), bell, blanks, line ends, escape."""
_BINARY_SHARE = 0.03
_NOT_SHOWN = bytes([*range(9), *range(13, 32), 127])
_GLUED = re.compile(rb"\](?:[^\s\],;:|)]| {1,4}\d{1,3}%\|)")
"""A closed bracket with another's text behind it."""
_DATED_TAIL_BYTES = 16 * 1024
_PEEKED = 4
_INTERESTING = frozenset(Role) - {
    Role.OTHER, Role.UNNAMED, Role.MEMORY, Role.SHARE, Role.PART_TIME, Role.BYTE_RATE, Role.METRIC, Role.FLOP_RATE,
}  # fmt: skip


class Record:
    """One display state that carries numbers.

    Attributes:
        order: position among all the states of the window, ascending in time.
        line_number: 1-based, ``None`` when unknown.
        offset: byte offset of its physical line.
        text: without carrier prefix.
        parsed: its shape and values; columns of a table carry the names of its header.
        rank: of the process that wrote it, when the line says so.
        complete: whether the line, or the state, was certainly finished.
        is_glued: whether another writer's text follows on the same line; its timestamp is not this record's.
    """

    __slots__ = (
        "_carrier_time",
        "_time",
        "_timed",
        "complete",
        "is_glued",
        "line_number",
        "offset",
        "order",
        "parsed",
        "rank",
        "text",
    )

    def __init__(
        self,
        order: int,
        line_number: int | None,
        offset: int,
        text: str,
        parsed: Parsed,
        rank: int | None,
        carrier_time: LineTime | None,
        complete: bool,
    ) -> None:
        self.order, self.line_number, self.offset = order, line_number, offset
        self.text, self.parsed, self.rank, self.complete = text, parsed, rank, complete
        self._carrier_time, self._time, self._timed = carrier_time, None, False
        self.is_glued = False

    @property
    def time(self) -> LineTime | None:
        """The program's own timestamp, else its carrier's."""
        if self.is_glued:
            return self._carrier_time
        if not self._timed:
            self._time, self._timed = find_time(self.text) or self._carrier_time, True
        return self._time

    @property
    def shape(self) -> Shape:
        return self.parsed.shape

    def with_parsed(self, parsed: Parsed) -> Record:
        """The same record, its numbers named otherwise."""
        return Record(
            self.order,
            self.line_number,
            self.offset,
            self.text,
            parsed,
            self.rank,
            self._carrier_time,
            self.complete,
        )


@dataclass(frozen=True, slots=True)
class Window:
    """The newest records of a log, oldest first, and a few facts about it.

    Attributes:
        records: at most ``NEWEST_PER_FORM`` of each form.
        last_order: order of the very last display state, with or without numbers.
        extent: the bytes that it was built from.
        labels: what carriers put before every line.
        training_announced: whether a line says that training starts.
    """

    records: tuple[Record, ...]
    last_order: int
    extent: Extent
    labels: Labels
    training_announced: bool

    def span_s(self) -> float | None:
        """Seconds between the first and the last complete date near the log's ends, ``None`` without dates."""
        return _span_s(self.extent)


def build_window(
    extent: Extent, parser: RecordParser, *, newest_per_form: int = NEWEST_PER_FORM, wide: bool = False
) -> Window:
    """Sort the tail of a log into forms, keep the newest lines of each that may report, and parse those.

    Of a form whose newest lines carry no number of interest only these few are kept. The result depends on the
    bytes alone, never on how they arrived.

    Args:
        extent: both ends of the log.
        parser: keeps what it learnt of the forms of lines.
        newest_per_form: how many lines of one form are kept.
        wide: keep every form with numbers that recurs, whatever its words: a language model may know them.
    """
    labels = detect_labels_in(extent.head, extent.tail)
    kept: dict[bytes, deque[_Piece] | None] = {}
    headers: list[tuple[int, Header]] = []
    header_of: dict[bytes, Header] = {}
    order = -1
    first_header, announced = _head_facts(extent.head, labels)
    for piece in _pieces(extent):
        data = piece[3]
        form = form_of(data)
        if form in kept:
            pieces = kept[form]
        else:
            own = _own_text(data, labels)
            header = _header(own)
            if header is not None:
                header_of[form] = header
            reports = header is None and _may_report(own, wide=wide)
            pieces = kept[form] = deque(maxlen=newest_per_form) if reports else None
            announced = announced or _announces([data])
        if pieces is not None:
            pieces.append(piece)
        elif form in header_of:
            headers.append((piece[0], header_of[form]))
        order = piece[0]
    tables = _Tables(headers, first_header if extent.tail_offset else None)
    oldest = _oldest_lone(kept)
    records: list[Record] = []
    for pieces in kept.values():
        if pieces and (len(pieces) > 1 or pieces[0][0] >= oldest):
            records += _records(pieces, parser, labels, tables, wide)
    records.sort(key=lambda record: record.order)
    return Window(tuple(records[-MAX_RECORDS:]), order, extent, labels, announced)


def _oldest_lone(kept: Mapping[bytes, deque[_Piece] | None]) -> int:
    """Order of the oldest line that is alone in its form and still looked at."""
    lone = [pieces[0][0] for pieces in kept.values() if pieces and len(pieces) == 1]
    return sorted(lone)[-MAX_LONE_FORMS] if len(lone) > MAX_LONE_FORMS else 0


def _records(
    pieces: Sequence[_Piece], parser: RecordParser, labels: Labels, tables: _Tables, wide: bool
) -> list[Record]:
    """The records of one form, oldest first; only the newest few where they carry nothing of interest."""
    newest = [_record(piece, parser, labels, tables) for piece in list(pieces)[-_PEEKED:]]
    if len(pieces) > _PEEKED and (wide or any(_is_interesting(record.shape) for record in newest)):
        older = [_record(piece, parser, labels, tables) for piece in list(pieces)[:-_PEEKED]]
        newest = older + newest
    return [record for record in newest if record.shape.fields]


@lru_cache(maxsize=16_384)
def _is_interesting(shape: Shape) -> bool:
    """Whether records of this shape could carry a counter, a time, a rate or a loss of training."""
    if not phase_of(shape).may_be_training:
        return False
    return any(
        meaning(field).role in _INTERESTING or field.kind is Kind.FRACTION or (index < 2 and not field.name)
        for index, field in enumerate(shape.fields)
    )


@lru_cache(maxsize=768)
def _head_facts(head: bytes, labels: Labels) -> tuple[Header | None, bool]:
    """The last table header in the start of a log, and whether it says that training starts."""
    lines = head.split(b"\n")
    found = [header for line in lines if (header := _header(_own_text(line.rstrip(b"\r"), labels)))]
    return found[-1] if found else None, _announces(lines)


def _announces(lines: Iterable[bytes]) -> bool:
    return any(b"ing" in line and _ANNOUNCEMENT.search(line[:400]) for line in lines)


def _span_s(extent: Extent) -> float | None:
    first = next((t for line in extent.head.split(b"\n", 400)[:400] if (t := _date(line))), None)
    if first is None:
        first = next((t for line in extent.head.split(b"\n")[400:] if b"20" in line and (t := _date(line))), None)
    last_lines = extent.tail[-_DATED_TAIL_BYTES:].split(b"\n")[-100:] if first is not None else []
    last = next((t for line in reversed(last_lines) if (t := _date(line))), None)
    return first.seconds_until(last) if first is not None and last is not None else None


def _date(line: bytes) -> LineTime | None:
    time = find_time(line[:400].decode("utf-8", "replace")) if b":" in line[:400] else None
    return time if time is not None and time.kind is TimeKind.FULL else None


_Piece = tuple[int, int | None, int, bytes, bool]
"""Order, line number, offset of the physical line, bytes, whether it was finished."""


def _pieces(extent: Extent) -> Iterator[_Piece]:
    """Display states of the tail, oldest first, from the first whole line (or state) on."""
    tail, offset, number = extent.tail, extent.tail_offset, extent.newlines_before_tail
    number = None if number is None else number + 1
    if offset:
        cut = tail.find(b"\n") + 1
        if cut == 0 or cut > _GIANT_LINE_BYTES:
            cut = tail.find(b"\r") + 1
        elif number is not None:
            number += 1
        tail, offset = tail[cut:], offset + cut
    order = 0
    lines = tail.split(b"\n")
    last = len(lines) - 1
    is_odd = _is_odd(tail)
    for index, line in enumerate(lines):
        if is_odd and _is_odd(line):
            shown = [] if _is_binary(line) else [piece for frame in frames(line) for piece in unglue(frame)]
            for position, text in enumerate(shown):
                complete = index < last or position < len(shown) - 1
                yield order, number, offset, text.encode("utf-8", "replace")[:MAX_PIECE_BYTES], complete
                order += 1
        elif line and not line.isspace():
            yield order, number, offset, line[:MAX_PIECE_BYTES], index < last
            order += 1
        offset += len(line) + 1
        if number is not None:
            number += 1


def _is_odd(data: bytes) -> bool:
    """Whether lines are more than plain text: redrawn, coloured, with holes, or glued to a progress bar."""
    if len(data.translate(None, _NOT_SHOWN)) < len(data):
        return True
    return b"<" in data and _GLUED.search(data) is not None


def _is_binary(line: bytes) -> bool:
    """Whether a line is no text: bytes that no terminal shows are more than a stray few."""
    controls = len(line) - len(line.translate(None, _CONTROLS))
    return controls > 1 and controls > _BINARY_SHARE * len(line)


class _Tables:
    """Which header is in force at a given place of the log."""

    def __init__(self, headers: list[tuple[int, Header]], first: Header | None) -> None:
        self._headers, self._first = headers, first
        self._named: dict[tuple[Shape, Header], Shape | None] = {}

    def name(self, order: int, parsed: Parsed, text: str) -> Parsed:
        if not may_be_row(parsed.shape) or not (self._headers or self._first):
            return parsed
        for header in self._candidates(order):
            key = (parsed.shape, header)
            if key not in self._named:
                self._named[key] = name_columns(parsed.shape, text, header)
            named = self._named[key]
            if named is not None:
                return Parsed(named, parsed.values)
        return parsed

    def _candidates(self, order: int) -> Iterator[Header]:
        seen: set[Header] = set()
        for at, header in reversed(self._headers):
            if at < order and header not in seen:
                seen.add(header)
                yield header
        if self._first is not None and self._first not in seen:
            yield self._first


def _own_text(data: bytes, labels: Labels) -> str:
    """A line without what carriers put before it."""
    text = data.decode("utf-8", "replace")
    return text[split_prefix(text, labels).size :]


def _may_report(own: str, *, wide: bool) -> bool:
    line = own.encode("utf-8", "replace")
    return has_numbers(line) if wide else may_report(form_of(line), line)


def _header(own: str) -> Header | None:
    return read_header(own) if len(own) <= MAX_HEADER_CHARS and len(_CELL_MARKS.findall(own)) >= 2 else None


def _record(piece: _Piece, parser: RecordParser, labels: Labels, tables: _Tables) -> Record:
    order, number, offset, data, complete = piece
    text = data.decode("utf-8", "replace").rstrip("\r")
    prefix = split_prefix(text, labels)
    text = text[prefix.size :]
    parsed = tables.name(order, parser.parse(text), text)
    return Record(order, number, offset, text, parsed, prefix.rank, prefix.carrier_time, complete)
