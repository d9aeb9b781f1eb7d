"""From a physical line to what it says: states, ranks, times, stripped of what carriers added."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lucid_pipelines.logs.prefixes import NO_LABELS, Labels, rank_inside, split_prefix
from lucid_pipelines.logs.splitter import RawLine
from lucid_pipelines.logs.terminal import frames
from lucid_pipelines.logs.times import LineTime, find_time

_BAR_END = re.compile(r"\[[^\[\]<>]{1,40}<[^\[\]<>]{1,40}(?:, [^\[\]]{0,600})?\](?=[^\s\],;:|)]| {1,4}\d{1,3}%\|)")
MAX_TEXT_CHARS = 16_384
"""A display state longer than this is cut: no record that says anything is that long."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One display state of a physical line (most lines have exactly one).

    Attributes:
        number: 1-based number of the physical line, split at ``\\n`` only; ``None`` when unknown.
        offset: byte offset of the physical line.
        size: its length in bytes, newline included.
        state: 0-based index of this state within the line.
        state_count: how many states the line has (redraws and glued records).
        text: the program's own text: no control codes, no carrier prefix.
        prefix: what was taken off at the front.
        rank: from the prefix, else from the text itself.
        host: from a host label.
        time: the program's own timestamp, else the carrier's.
        complete: whether the line's newline was there.
    """

    number: int | None
    offset: int
    size: int
    state: int
    state_count: int
    text: str
    prefix: str = ""
    rank: int | None = None
    host: str | None = None
    time: LineTime | None = None
    complete: bool = True


def normalise(raw: RawLine, labels: Labels = NO_LABELS, *, newest: int | None = None) -> list[LogLine]:
    """The display states of one physical line, oldest first.

    Args:
        raw: the line.
        labels: which ambiguous labels this log uses.
        newest: keep only so many of the newest states (``None`` = all).
    """
    shown = [piece[:MAX_TEXT_CHARS] for frame in frames(raw.data) for piece in unglue(frame)]
    count = len(shown)
    kept = shown if newest is None else shown[-newest:]
    first = count - len(kept)
    return [_line(raw, first + i, count, text, labels) for i, text in enumerate(kept)]


def normalise_all(raws: Iterable[RawLine], labels: Labels = NO_LABELS) -> Iterator[LogLine]:
    """``normalise`` over many lines."""
    for raw in raws:
        yield from normalise(raw, labels)


def unglue(frame: str) -> list[str]:
    """Split a state at the closing bracket of a progress bar when another writer's text follows directly."""
    if "<" not in frame or "]" not in frame:
        return [frame]
    pieces, start = [], 0
    for match in _BAR_END.finditer(frame):
        pieces.append(frame[start : match.end()])
        start = match.end()
    pieces.append(frame[start:])
    return [piece for piece in pieces if piece.strip()]


def _line(raw: RawLine, index: int, count: int, text: str, labels: Labels) -> LogLine:
    prefix = split_prefix(text, labels)
    own = text[prefix.size :]
    return LogLine(
        number=raw.number,
        offset=raw.offset,
        size=raw.size,
        state=index,
        state_count=count,
        text=own,
        prefix=text[: prefix.size],
        rank=prefix.rank if prefix.rank is not None else rank_inside(own),
        host=prefix.host,
        time=find_time(own) or prefix.carrier_time,
        complete=raw.complete,
    )
