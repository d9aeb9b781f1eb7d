"""From display lines to records: tracebacks put together again, per rank, through whatever stands between (R-9)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from lucid_pipelines.logs import LineTime, LogLine

HEADER = re.compile(r"Traceback \(most recent call last\)")
_CHAIN = re.compile(r"^\s*(Original Traceback|During handling of|The above exception was the direct cause|\s*Caught )")
_FRAME = re.compile(r'^\s*(?:[│|]\s*)?File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+?))?\s*$')
_BOX_FRAME = re.compile(r"^\s*[│|]\s*(?P<file>/\S+\.py):(?P<line>\d+) in (?P<function>\S+)")
_TYPE = r"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:\([\w.]+\))?(?P<rest>:(?: .*)?|)$"
_EXCEPTION = re.compile(r"^" + _TYPE)
_SURE_NAME = re.compile(
    r"(Error|Exception|Exit|Interrupt|Failure|Failed|Fault|Timeout|Expired|NotFound|Denied|Abort\w*|StopIteration"
    r"|StopAsyncIteration|EnforceNotMet|Unsupported|OutOfResources|OutOfMemory\w*|Cancelled|BadZipFile|Conflict)$"
)
_CAMEL = re.compile(r"^[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+$")
_OPEN_ENDED = re.compile(
    r"(:\s*$|NCCL error|unhandled (cuda|system) error|run with NCCL_DEBUG|Error building extension|Message Summary"
    r"|ExternalError|EnforceNotMet|ERR\d{5}|error code:? ?(is )?\d+\s*$|following (error|exception)|HCCL error"
    r"|call \w+ api failed"
    r"|[Ii]nner error|Bad StatusOr|Graph execution error|synStatus|nrt_\w+)",
    re.IGNORECASE,
)
_DETAIL = re.compile(
    r"^\s*(\[ERROR\] \d{4}-|E[A-Z0-9]\d{4}: |Solution:|Possible Cause|Reason:|TraceBack |\[Hint:|\[operator <)"
)
"""Lines that go on explaining the error above, whatever they begin with (CANN, Paddle)."""
_OTHER_RECORD = re.compile(
    r"^\s*(\[rank|\[E |\[W |\[I |srun:|slurmstepd:|Traceback|\S+:\d+:\d+ \[\d+\] |Exception in thread|Exception ignored"
    r"|WARNING|ERROR[: ]|INFO[: ]|terminate called|frame #|\S+\|\s)"
)
_MAX_DETAIL = 8
_MAX_STRAY = 3
_MAX_OPEN_LINES = 120
_MAX_OPEN = 16
_MAX_FRAMES = 200


class RecordKind(StrEnum):
    TRACEBACK = "traceback"
    LINE = "line"


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a traceback."""

    file: str
    line: int
    function: str | None

    @property
    def is_own_code(self) -> bool:
        """Whether the file is the job's own, not an installed package or the standard library."""
        return not re.search(
            r"(site|dist)-packages|/lib/python\d|\\lib\\|/pyenv/|<frozen|<string>|/usr/lib|^/opt/conda/(bin|lib)"
            r"|/bin/(torchrun|accelerate|deepspeed|horovodrun)$",
            self.file,
        )


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that the log says: a traceback with its exception, or a single line.

    Attributes:
        first, position, last: ordinal places (0-based, in display order of physical lines) of the first line,
            of the message and of the last line.
        number: 1-based physical line of the message, ``None`` where lines were not counted.
        first_number, last_number: the same for the first and last line.
        offset: byte offset of the message's physical line.
        text: the message: the exception line, or the line.
        detail: what follows the message and belongs to it.
        chain: earlier exceptions of the same chain, oldest first.
        lead: the line just before a traceback's header.
        time: the record's own time: of its message or its first line.
        complete: ``False`` for a traceback whose exception line never came.
    """

    kind: RecordKind
    first: int
    position: int
    last: int
    number: int | None
    first_number: int | None
    last_number: int | None
    offset: int
    text: str
    rank: int | None = None
    host: str | None = None
    time: LineTime | None = None
    detail: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()
    chain: tuple[str, ...] = ()
    lead: str = ""
    complete: bool = True

    @property
    def exception_type(self) -> str | None:
        """Dotted name of the exception, for a traceback or a bare exception line."""
        match = _EXCEPTION.match(self.text)
        return match["type"] if match else None

    @property
    def judged_text(self) -> str:
        """What rules are matched against: the message, and its detail where the message leaves it open."""
        if self.detail and _OPEN_ENDED.search(self.text):
            return "\n".join((self.text, *self.detail))
        return self.text


@dataclass(slots=True)
class _Open:
    header: LogLine
    at: int
    lead: str
    indent: int
    frames: list[Frame] = field(default_factory=list)
    last_fed: int = 0
    chain: tuple[str, ...] = ()
    first: int = 0
    first_number: int | None = None


@dataclass(slots=True)
class _Closed:
    record: Record
    stray: int = 0
    detail: list[str] = field(default_factory=list)
    ended: bool = False


class RecordReader:
    """Feeds on display lines in file order and gives records.

    Lines of several ranks may interleave; a rank prefix keeps them apart, and lines that belong to nobody are
    passed over. Memory is bounded: at most 16 open tracebacks a stream, each given up after 120 lines.
    """

    def __init__(self) -> None:
        self._open: dict[int | None, list[_Open]] = {}
        self._closed: dict[int | None, _Closed] = {}
        self._lead = ""
        self._at = -1

    @property
    def wants_every_line(self) -> bool:
        """Whether a traceback or the detail of one is being put together, so that no line may be left out."""
        return bool(self._open) or any(not closed.ended for closed in self._closed.values())

    @property
    def lead(self) -> str:
        """Text of the line before, when it was seen."""
        return self._lead

    def skip(self) -> None:
        """Tell that a line went by which nobody needs to see."""
        self._lead = ""

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
        self._lead = line.text
        return mine, done

    def finish(self) -> list[Record]:
        """What is left at the end of the log: details so far, and tracebacks that never came to their end."""
        done = [self._final(closed) for closed in self._closed.values()]
        self._closed = {}
        for stack in self._open.values():
            done.extend(_unfinished(item, self._at) for item in stack if item.frames)
        self._open = {}
        return sorted(done, key=lambda record: record.position)

    def _feed(self, line: LogLine, at: int, key: int | None, done: list[Record]) -> bool:
        text = line.text
        header = HEADER.search(text)
        if header:
            self._begin(line, at, key, header.start(), done)
            return True
        if not self._open and key not in self._closed:
            return False
        frame = _FRAME.match(text) or _BOX_FRAME.match(text)
        if frame and self._add_frame(frame, line, at, key):
            return True
        stack = self._open.get(key)
        if stack:
            if text[:1] in (" ", "\t", "│", "╭", "╰") or (stack[-1].indent and text[: stack[-1].indent].isspace()):
                ended = _exception_of(text.strip(" │"), stack[-1].frames) if _same_level(text, stack[-1]) else None
                if ended is None:
                    stack[-1].last_fed = at
                    return True
            if _exception_of(text.strip(), stack[-1].frames) is not None:
                self._close(stack.pop(), line, at, key, done)
                if not stack:
                    del self._open[key]
                return True
        return self._continue(line, at, key, done)

    def _begin(self, line: LogLine, at: int, key: int | None, start: int, done: list[Record]) -> None:
        chain: tuple[str, ...] = ()
        first, first_number = at, line.number
        lead = self._lead
        closed = self._closed.get(key)
        if closed is not None and _is_chain(line.text, closed, lead):
            chain = (*closed.record.chain, closed.record.text)
            first, first_number = closed.record.first, closed.record.first_number
            del self._closed[key]
        elif closed is not None:
            done.append(self._final(self._closed.pop(key)))
        stack = self._open.setdefault(key, [])
        if len(stack) >= _MAX_OPEN:
            stack.pop(0)
        indent = len(line.text[:start]) - len(line.text[:start].lstrip()) if line.text[:start].isspace() else 0
        stack.append(
            _Open(
                line,
                at,
                "" if chain else lead,
                indent,
                last_fed=at,
                chain=chain,
                first=first,
                first_number=first_number,
            )
        )

    def _add_frame(self, match: re.Match[str], line: LogLine, at: int, key: int | None) -> bool:
        stack = self._open.get(key)
        if not stack:
            closed = self._closed.get(key)
            if closed is None or closed.ended or at - closed.record.last > _MAX_STRAY:
                return False
            record = closed.record
            del self._closed[key]
            again = _Open(line, at, record.lead, 0, chain=(*record.chain, record.text), first=record.first)
            again.first_number = record.first_number
            stack = self._open.setdefault(key, [])
            stack.append(again)
        if len(stack[-1].frames) < _MAX_FRAMES:
            stack[-1].frames.append(Frame(match["file"], int(match["line"]), match["function"]))
        stack[-1].last_fed = at
        return True

    def _close(self, item: _Open, line: LogLine, at: int, key: int | None, done: list[Record]) -> None:
        if key in self._closed:
            done.append(self._final(self._closed.pop(key)))
        record = Record(
            kind=RecordKind.TRACEBACK,
            first=item.first,
            position=at,
            last=at,
            number=line.number,
            first_number=item.first_number,
            last_number=line.number,
            offset=line.offset,
            text=line.text.strip(" │"),
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
        if closed is None or closed.ended:
            return False
        foreign = _OTHER_RECORD.match(line.text) or line.time is not None
        if (foreign and not _DETAIL.match(line.text)) or len(closed.detail) >= _MAX_DETAIL:
            closed.stray += 1
            if closed.stray > _MAX_STRAY or len(closed.detail) >= _MAX_DETAIL or _OTHER_RECORD.match(line.text):
                closed.ended = True
                done.append(self._final(self._closed.pop(key)))
            return False
        closed.detail.append(line.text[:500])
        return False

    def _expire(self, at: int) -> list[Record]:
        past = [k for k, c in self._closed.items() if at - c.record.last > _MAX_DETAIL + _MAX_STRAY]
        done = [self._final(self._closed.pop(key)) for key in past]
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

    @staticmethod
    def _final(closed: _Closed) -> Record:
        record = closed.record
        return Record(
            kind=record.kind,
            first=record.first,
            position=record.position,
            last=record.last,
            number=record.number,
            first_number=record.first_number,
            last_number=record.last_number,
            offset=record.offset,
            text=record.text,
            rank=record.rank,
            host=record.host,
            time=record.time,
            detail=tuple(closed.detail),
            frames=record.frames,
            chain=record.chain,
            lead=record.lead,
        )


def line_record(line: LogLine, at: int, lead: str) -> Record:
    """A record of one line."""
    return Record(
        kind=RecordKind.LINE,
        first=at,
        position=at,
        last=at,
        number=line.number,
        first_number=line.number,
        last_number=line.number,
        offset=line.offset,
        text=line.text.strip(),
        rank=line.rank,
        host=line.host,
        time=line.time,
        lead=lead,
    )


def is_bare_exception(text: str) -> bool:
    """Whether a line outside any traceback is an exception line (its traceback was lost or never printed)."""
    match = _EXCEPTION.match(text)
    return match is not None and _SURE_NAME.search(match["type"]) is not None and match["rest"].startswith(":")


def own_frames(frames: tuple[Frame, ...]) -> Iterator[Frame]:
    """The frames in the job's own code, outermost first."""
    return (frame for frame in frames if frame.is_own_code)


def _exception_of(text: str, frames: list[Frame]) -> str | None:
    match = _EXCEPTION.match(text)
    if match is None:
        return None
    name = match["type"]
    last = name.rsplit(".", 1)[-1]
    if _SURE_NAME.search(last):
        return name
    if frames and "." in name and last[:1].isupper():
        return name
    return name if frames and _CAMEL.match(last) and match["rest"] else None


def _same_level(text: str, item: _Open) -> bool:
    return len(text) - len(text.lstrip(" │")) <= item.indent


def _is_chain(text: str, closed: _Closed, lead: str) -> bool:
    if "Original Traceback" in text:
        return True
    recent = (lead, *closed.detail[-3:])
    return any(_CHAIN.match(line) for line in recent)


def _unfinished(item: _Open, last: int) -> Record:
    line = item.header
    return Record(
        kind=RecordKind.TRACEBACK,
        first=item.first,
        position=item.at,
        last=last,
        number=line.number,
        first_number=line.number,
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
