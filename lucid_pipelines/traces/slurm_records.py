"""Logical records of ``sacct --parsable2``: rejoins broken lines, repairs separators inside texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lucid_pipelines.domain.errors import InputError
from lucid_pipelines.traces.contract import Reason
from lucid_pipelines.traces.lines import LineBlock, RecordBlock, Rejected, reject_damaged

SEPARATORS = ("^|^", "|", ";", "\t", ",")
JOB_ID = re.compile(r"\d+(?:_(?:\d+|\[[^\]]*\]))?(?:\+\d+)?(?:\.\S+)?")
RECORD_LINES_LIMIT = 50
_TEXT_COLUMNS = ("jobname", "submitline", "comment", "admincomment", "systemcomment", "workdir", "reason", "extra")
_CHECKED_COLUMNS = ("submit", "start", "end", "eligible")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*|\d{9,}|Unknown|None|")


def separator_of(header: str) -> str:
    """The separator that a header line uses."""
    return next((s for s in SEPARATORS if s in header), "|")


@dataclass(slots=True)
class SlurmRecords:
    """Turns lines into records of the header's width.

    A job name, command or comment may hold line ends: lines are joined until the record has its cells. It may
    hold the separator: the surplus cells are joined where all times and the job id then make sense.

    Attributes:
        header: column names in lower case.
        repairs: joined lines and repaired separators, counted.
    """

    header: Sequence[str]
    separator: str
    header_line: str
    repairs: Counter[str] = field(default_factory=Counter)
    _pending: list[tuple[int, str]] = field(default_factory=list)
    _done: RecordBlock = field(default_factory=RecordBlock)

    def __post_init__(self) -> None:
        if "jobid" not in self.header:
            raise InputError(f"sacct output needs the column JobID; its columns are {', '.join(self.header)}")

    def blocks(self, lines: Iterator[LineBlock]) -> Iterator[RecordBlock]:
        for block in lines:
            for i, line in enumerate(block.lines):
                number = block.first_number + i
                if i in block.cut:
                    self._flush()
                    self._done.rejected.append(Rejected(number, Reason.LINE_TOO_LONG, line))
                else:
                    self._line(number, line)
            # The last record stays: the next line may continue its last cell.
            yield self._release(keep=1)
        self._flush()
        yield self._release(keep=0)

    def _line(self, number: int, line: str) -> None:
        width, count = len(self.header), line.count(self.separator) + 1
        if line == self.header_line:
            self._flush()
            self._done.rejected.append(Rejected(number, Reason.REPEATED_HEADER, line))
        elif not self._pending and (count == width or (count > width and self._repaired(line) is not None)):
            self._emit(number, line)
        elif count == width and self._is_record(line.split(self.separator)):
            self._flush()
            self._emit(number, line)
        elif self._pending or line.strip():
            self._pending.append((number, line))
            joined = "\n".join(text for _, text in self._pending)
            cells = joined.count(self.separator) + 1
            if cells == width and self._is_record(joined.split(self.separator)):
                first = self._pending[0][0]
                self.repairs["lines_joined"] += len(self._pending) - 1
                self._pending.clear()
                self._emit(first, joined)
            elif cells > width or len(self._pending) > RECORD_LINES_LIMIT:
                self._flush()

    def _emit(self, number: int, text: str) -> None:
        cells = text.split(self.separator)
        if len(cells) != len(self.header):
            repaired = self._repaired(text)
            assert repaired is not None
            cells = repaired
            self.repairs["separators_in_text_joined"] += 1
        if not reject_damaged(number, text, self._done):
            self._done.numbers.append(number)
            self._done.raws.append(text)
            self._done.rows.append(cells)

    def _flush(self) -> None:
        """Pending lines that make no record continue the last cell before them, or are rejected."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        is_text = not any(self.separator in line for _, line in pending)
        if is_text and self._done.rows and self.header[-1] in _TEXT_COLUMNS:
            self.repairs["lines_joined"] += len(pending)
            return  # the text of the last cell is not used, so only its lines are accounted for
        text = "\n".join(line for _, line in pending)
        if text.strip() and not reject_damaged(pending[0][0], text, self._done):
            self._done.rejected.append(Rejected(pending[0][0], Reason.MALFORMED_ROW, text))

    def _release(self, keep: int) -> RecordBlock:
        done = self._done
        split = max(0, len(done.rows) - keep)
        self._done = RecordBlock(done.numbers[split:], done.raws[split:], done.rows[split:])
        return RecordBlock(done.numbers[:split], done.raws[:split], done.rows[:split], done.rejected)

    def _is_record(self, cells: Sequence[str]) -> bool:
        """Whether the cells that can be checked (job id and times) make sense."""
        row = dict(zip(self.header, cells, strict=True))
        if not JOB_ID.fullmatch(row["jobid"].strip()):
            return False
        return all(_TIME.fullmatch(row[name].strip()) for name in _CHECKED_COLUMNS if name in row)

    def _repaired(self, line: str) -> list[str] | None:
        """Join surplus cells at the one text column where the record then makes sense."""
        cells = line.split(self.separator)
        surplus = len(cells) - len(self.header)
        found: list[list[str]] = []
        for i, name in enumerate(self.header):
            if name in _TEXT_COLUMNS:
                joined = [*cells[:i], self.separator.join(cells[i : i + surplus + 1]), *cells[i + surplus + 1 :]]
                if self._is_record(joined):
                    found.append(joined)
        return found[0] if len(found) == 1 else None
