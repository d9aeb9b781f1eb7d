"""From display lines to tracebacks: put together again, per rank, through whatever stands between (R-9)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from lucid_pipelines.failures.records import Frame, Record, RecordKind, exception_name
from lucid_pipelines.logs import LogLine, find_time

_HEADER = re.compile(r"Traceback \(most recent call last\)")
_CHAIN = re.compile(r"^\s*(Original Traceback|During handling of|The above exception was the direct cause|\s*Caught )")
_FRAME = re.compile(
    r'^(?P<indent>\s*)(?:[│|]\s*)?File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+?))?\s*$'
)
_BOX_FRAME = re.compile(r"^(?P<indent>)\s*[│|]\s*(?P<file>/\S+\.py):(?P<line>\d+) in (?P<function>\S+)")
_DETAIL = re.compile(
    r"^\s*(\[ERROR\] \d{4}-|E[A-Z0-9]\d{4}: |Solution:|Possible Cause|Reason:|TraceBack |\[Hint:|\[operator <)"
)
"""Lines that go on explaining the error above, whatever they begin with (CANN, Paddle)."""
_OTHER_RECORD = re.compile(
    r"^\s*(\[rank|\[E |\[W |\[I |srun:|slurmstepd:|Traceback|\S+:\d+:\d+ \[\d+\] |Exception in thread|Exception ignored"
    r"|WARNING|ERROR[: ]|INFO[: ]|terminate called|frame #|\S+\|\s)"
)
_BAR = re.compile(r"[%█|]|it/s|s/it")
_MAX_DETAIL = 8
_MAX_STRAY = 3
_MAX_OPEN_LINES = 120
_MAX_OPEN = 16
_MAX_FRAMES = 200


@dataclass(slots=True)
class _Open:
    """A traceback whose exception line has not come yet.

    Attributes:
        indent: spaces before its header.
        carrier: what a logger writes before every line of it, as a pattern.
        frame_indent: spaces before its frames; an exception line has fewer.
    """

    header: LogLine
    at: int
    lead: str
    indent: int
    first: int
    first_number: int | None
    carrier: re.Pattern[str] | None = None
    frame_indent: int = 2
    frames: list[Frame] = field(default_factory=list)
    last_fed: int = 0
    chain: tuple[str, ...] = ()

    def own(self, text: str) -> str:
        """The text without the logger's carrier."""
        match = self.carrier.match(text) if self.carrier is not None else None
        return text[match.end() :] if match else text


@dataclass(slots=True)
class _Closed:
    record: Record
    stray: int = 0
    detail: list[str] = field(default_factory=list)

    def final(self) -> Record:
        return replace(self.record, detail=tuple(self.detail))


class RecordReader:
    """Feeds on display lines in file order and gives tracebacks.

    Lines of several ranks may interleave; a rank prefix keeps them apart, and lines that belong to nobody are
    passed over. Memory is bounded: at most 16 open tracebacks a stream, each given up after 120 lines.
    """

    def __init__(self) -> None:
        self._open: dict[int | None, list[_Open]] = {}
        self._closed: dict[int | None, _Closed] = {}
        self._lead = ""
        self._unread: Callable[[], str] | None = None
        self._at = -1

    @property
    def wants_every_line(self) -> bool:
        """Whether a traceback or the detail of one is being put together, so that no line may be left out."""
        return bool(self._open or self._closed)

    @property
    def lead(self) -> str:
        """Text of the line before, when it was seen."""
        if self._unread is not None:
            self._lead, self._unread = self._unread(), None
        return self._lead

    def skip(self, read: Callable[[], str] | None = None) -> None:
        """Tell that a line went by which nobody needs to see.

        Args:
            read: gives its text, should the next line ask for it; ``None`` = it says nothing of the next one.
        """
        self._lead, self._unread = "", read

    def feed(self, line: LogLine, at: int) -> tuple[bool, list[Record]]:
        """Take the next display line.

        Args:
            line: the line.
            at: its ordinal place; states of one physical line share it.

        Returns:
            Whether the line belongs to a traceback (and so is no record of its own), and the records that are
            complete now.
        """
        self._at = at
        key = line.rank if line.prefix else None
        done = self._expire(at)
        mine = self._feed(line, at, key, done)
        self._lead, self._unread = line.text, None
        return mine, done

    def finish(self) -> list[Record]:
        """What is left at the end of the log: details so far, and tracebacks that never came to their end."""
        done = [closed.final() for closed in self._closed.values()]
        self._closed = {}
        for stack in self._open.values():
            done.extend(_unfinished(item, self._at) for item in stack if item.frames)
        self._open = {}
        return sorted(done, key=lambda record: record.position)

    def _feed(self, line: LogLine, at: int, key: int | None, done: list[Record]) -> bool:
        header = _HEADER.search(line.text)
        if header:
            escaped = _escaped_traceback(line, at, self.lead)
            if escaped is not None:
                done.append(escaped)
                return True
            self._begin(line, at, key, header.start(), done)
            return True
        if not self._open and key not in self._closed:
            return False
        stack = self._open.get(key)
        text = stack[-1].own(line.text) if stack else line.text
        frame = _FRAME.match(text) or _BOX_FRAME.match(text)
        if frame and self._add_frame(frame, line, at, key):
            return True
        if stack and self._ends_or_goes_on(text, line, at, key, done):
            return True
        return self._continue(line, at, key, done)

    def _ends_or_goes_on(self, text: str, line: LogLine, at: int, key: int | None, done: list[Record]) -> bool:
        stack = self._open[key]
        item = stack[-1]
        bare = text.strip(" │\t")
        indent = len(text) - len(text.lstrip(" │\t"))
        is_outdented = indent <= item.indent or (bool(item.frames) and indent < item.frame_indent)
        if is_outdented and exception_name(bare, item.frames) is not None:
            stack.pop()
            if not stack:
                del self._open[key]
            self._close(item, bare, line, at, key, done)
            return True
        if indent > item.indent or text[:1] in ("╭", "╰", "│"):
            item.last_fed = at
            return True
        return False

    def _begin(self, line: LogLine, at: int, key: int | None, start: int, done: list[Record]) -> None:
        chain: tuple[str, ...] = ()
        first, first_number = at, line.number
        lead = self.lead
        closed = self._closed.pop(key, None)
        if closed is not None and _is_chain(line.text, closed, lead):
            chain = (*closed.record.chain, closed.record.text)
            first, first_number = closed.record.first, closed.record.first_number
        elif closed is not None:
            done.append(closed.final())
        stack = self._open.setdefault(key, [])
        if len(stack) >= _MAX_OPEN:
            stack.pop(0)
        before = line.text[:start].removesuffix("Original ")
        item = _Open(line, at, "" if chain else lead, 0, first, first_number, last_fed=at, chain=chain)
        if before.isspace():
            item.indent = len(before)
        elif before and not _BAR.search(before):
            item.carrier = _carrier_of(before)
        stack.append(item)

    def _add_frame(self, match: re.Match[str], line: LogLine, at: int, key: int | None) -> bool:
        stack = self._open.get(key)
        if not stack:
            closed = self._closed.get(key)
            if closed is None or at - closed.record.last > _MAX_STRAY:
                return False
            record = closed.record
            del self._closed[key]
            again = _Open(line, at, record.lead, 0, record.first, record.first_number)
            again.chain = (*record.chain, record.text)
            stack = self._open.setdefault(key, [])
            stack.append(again)
        item = stack[-1]
        item.frame_indent = len(match["indent"])
        if len(item.frames) < _MAX_FRAMES:
            item.frames.append(Frame(match["file"], int(match["line"]), match["function"]))
        item.last_fed = at
        return True

    def _close(self, item: _Open, text: str, line: LogLine, at: int, key: int | None, done: list[Record]) -> None:
        if key in self._closed:
            done.append(self._closed.pop(key).final())
        record = Record(
            kind=RecordKind.TRACEBACK,
            first=item.first,
            position=at,
            last=at,
            number=line.number,
            first_number=item.first_number,
            last_number=line.number,
            offset=line.offset,
            text=text,
            rank=line.rank if line.prefix else item.header.rank,
            host=line.host or item.header.host,
            time=item.header.time if item.header.prefix or item.header.time else line.time,
            frames=tuple(item.frames),
            chain=item.chain,
            lead=item.lead,
        )
        self._closed[key] = _Closed(record)

    def _continue(self, line: LogLine, at: int, key: int | None, done: list[Record]) -> bool:
        closed = self._closed.get(key)
        if closed is None:
            return False
        # The carrier's time says nothing: a container runtime writes one before every line.
        foreign = _OTHER_RECORD.match(line.text) or find_time(line.text) is not None
        if (foreign and not _DETAIL.match(line.text)) or len(closed.detail) >= _MAX_DETAIL:
            closed.stray += 1
            if closed.stray > _MAX_STRAY or len(closed.detail) >= _MAX_DETAIL or _OTHER_RECORD.match(line.text):
                done.append(self._closed.pop(key).final())
            return False
        closed.detail.append(line.text[:500])
        return False

    def _expire(self, at: int) -> list[Record]:
        past = [k for k, c in self._closed.items() if at - c.record.last > _MAX_DETAIL + _MAX_STRAY]
        done = [self._closed.pop(key).final() for key in past]
        for key in list(self._open):
            stack = self._open[key]
            old = [item for item in stack if at - item.last_fed > _MAX_OPEN_LINES]
            done.extend(_unfinished(item, item.last_fed) for item in old if item.frames)
            kept = [item for item in stack if at - item.last_fed <= _MAX_OPEN_LINES]
            if kept:
                self._open[key] = kept
            else:
                del self._open[key]
        return done


def _carrier_of(before: str) -> re.Pattern[str]:
    """What a logger wrote before the header, as a pattern: other lines bear it with other numbers."""
    return re.compile(re.sub(r"\d+", r"\\d+", re.escape(before)))


def _is_chain(text: str, closed: _Closed, lead: str) -> bool:
    if "Original Traceback" in text:
        return True
    recent = (lead, *closed.detail[-3:])
    return any(_CHAIN.match(line) for line in recent)


def _escaped_traceback(line: LogLine, at: int, lead: str) -> Record | None:
    """A whole traceback on one line, its newlines escaped (JSON loggers)."""
    parts = line.text.split("\\n")
    if len(parts) < 3:
        return None
    frames: list[Frame] = []
    message = None
    for part in parts:
        frame = _FRAME.match(part.replace('\\"', '"'))
        if frame:
            frames.append(Frame(frame["file"], int(frame["line"]), frame["function"]))
        elif exception_name(part.split('"')[0].strip(), frames) is not None and frames:
            message = part.split('", "')[0].rstrip('"} ').strip()
    if message is None:
        return None
    return Record(
        kind=RecordKind.TRACEBACK,
        first=at,
        position=at,
        last=at,
        number=line.number,
        first_number=line.number,
        last_number=line.number,
        offset=line.offset,
        text=message,
        rank=line.rank,
        host=line.host,
        time=line.time,
        frames=tuple(frames),
        lead=lead,
    )


def _unfinished(item: _Open, last: int) -> Record:
    line = item.header
    return Record(
        kind=RecordKind.TRACEBACK,
        first=item.first,
        position=item.at,
        last=last,
        number=line.number,
        first_number=item.first_number,
        last_number=None,
        offset=line.offset,
        text="",
        rank=line.rank,
        host=line.host,
        time=line.time,
        frames=tuple(item.frames),
        chain=item.chain,
        lead=item.lead,
        complete=False,
    )
