"""One thing that a log says: a traceback with its exception, or a single line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lucid_pipelines.logs import LineTime, LogLine

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
    r"|call \w+ api failed|inner error|Bad StatusOr|Graph execution error|synStatus|nrt_\w+)",
    re.IGNORECASE,
)


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


def exception_name(text: str, frames: Sequence[Frame]) -> str | None:
    """The exception that a line names, or ``None``. With frames before it, unusual names are believed too."""
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
