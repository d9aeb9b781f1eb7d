"""One pass over the lines of a log: what they say, and how the job went on in between."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from lucid_pipelines.failures.allocator import memory_held_by_others
from lucid_pipelines.failures.memo import Memo
from lucid_pipelines.failures.progress import ProgressIndex
from lucid_pipelines.failures.records import Record, RecordKind, line_record
from lucid_pipelines.failures.stems import is_hot
from lucid_pipelines.failures.tracebacks import RecordReader
from lucid_pipelines.failures.verdicts import Condition, Judge, Verdict
from lucid_pipelines.failures.vocabulary import Role
from lucid_pipelines.logs import Labels, LogLine, RawLine, normalise

_LOST_WINDOW = 400
_HOT_BYTES = 16_384
_MEMO_LIMIT = 50_000
_MAX_KEPT_BYTES = 64 << 20
_MAX_RECORDS = 50_000
_MAX_LOUD = 2_000_000
_MAX_ECHO_NUMBERS = 10_000
_ONSET_LINES = 12
_MAX_ONSETS = 40
_RARE = 2
_ALIKE = bytes.maketrans(b"123456789", b"0" * 9)
_ZEROS = re.compile(rb"00+")
_LEADS = ("Exception", "Error")
"""How a line begins that says something of the line after it."""


_ORDINARY = frozenset({Role.BENIGN, Role.SUCCESS, Role.HANDLED, Role.RESTARTED})
"""Roles of lines that a running program prints: they do not end a quiet stretch."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A record and its verdict."""

    record: Record
    verdict: Verdict

    @property
    def position(self) -> int:
        return self.record.position

    @property
    def role(self) -> Role:
        return self.verdict.role


@dataclass(frozen=True, slots=True)
class Scan:
    """What one pass found.

    Attributes:
        judged: records of interest in file order.
        progress: the lines that say nothing of the kind.
        line_count: physical lines seen.
        loud: places of lines that belong to errors and echoes, ascending.
        begins_at_start: whether the first line seen is the first line of the log.
        undecodable: lines with bytes that are not UTF-8 (R-11).
        onset: lines of a rare form just before a noisy stretch or the end, which no rule knows but which hold a
            word that failures are told in.
        echo_numbers: lines of native stacks and abort notices, of which no record is kept.
    """

    judged: tuple[Judged, ...]
    progress: ProgressIndex
    line_count: int
    loud: tuple[int, ...]
    begins_at_start: bool
    undecodable: int
    echo_numbers: tuple[int, ...] = ()
    onset: tuple[Record, ...] = ()
    _of_roles: dict[tuple[Role, ...], tuple[Judged, ...]] = field(default_factory=dict, compare=False, repr=False)

    def quiet_between(self, first: int, last: int) -> int:
        """How many ordinary lines stand between two places."""
        if last <= first + 1:
            return 0
        inside = bisect_left(self.loud, last) - bisect_right(self.loud, first)
        return max(0, last - first - 1 - inside)

    def longest_quiet(self, first: int, last: int) -> int:
        """The longest run of ordinary lines between two places."""
        low, high = bisect_right(self.loud, first), bisect_left(self.loud, last)
        edges = [first, *self.loud[low:high], last]
        return max((b - a - 1 for a, b in itertools.pairwise(edges)), default=0)

    def of_role(self, *roles: Role) -> tuple[Judged, ...]:
        found = self._of_roles.get(roles)
        if found is None:
            found = self._of_roles[roles] = tuple(item for item in self.judged if item.role in roles)
        return found


def scan(raws: Iterable[RawLine], labels: Labels, judge: Judge, *, begins_at_start: bool = True) -> Scan:
    """Read lines once, in file order, in memory bounded by what they say.

    Args:
        raws: physical lines.
        labels: which ambiguous rank and host labels this log uses.
    """
    return _Scanner(labels, judge).run(raws, begins_at_start)


class _Scanner:
    def __init__(self, labels: Labels, judge: Judge) -> None:
        self._labels, self._judge = labels, judge
        self._reader = RecordReader()
        self._progress = ProgressIndex()
        self._records: list[Record] = []
        self._loud: list[int] = []
        self._ordinary: set[bytes] = set()
        self._benign: set[bytes] = set()
        self._hot: set[bytes] = set()
        self._kept_bytes = 0
        self._short: Memo[bytes, bytes] = Memo()
        self._echoes: set[bytes] = set()
        self._echo_numbers: list[int] = []
        self._forms: Counter[bytes] = Counter()
        self._recent: deque[tuple[int, RawLine, bytes]] = deque(maxlen=_ONSET_LINES)
        self._onsets: deque[tuple[tuple[int, RawLine, bytes], ...]] = deque(maxlen=_MAX_ONSETS)
        self._undecodable = 0

    def run(self, raws: Iterable[RawLine], begins_at_start: bool) -> Scan:
        at = 0
        for raw in raws:
            self._take(at, raw)
            at += raw.blank_lines
        self._records.extend(self._reader.finish())
        records = sorted(self._records, key=lambda r: (r.position, r.kind is RecordKind.LINE))
        first = [self._judge.judge(r) for r in records]
        lost_at = [r.position for r, v in zip(records, first, strict=True) if v.family_name == "gpu-missing"]
        judged = tuple(
            Judged(r, self._judge.judge(r, met) if v.role is Role.ROOT and (met := _met(r, lost_at)) else v)
            for r, v in zip(records, first, strict=True)
        )
        told = (item.record for item in judged if item.role not in _ORDINARY)
        loud = sorted({*self._loud, *(place for r in told for place in (r.first, r.position))})
        return Scan(
            judged,
            self._progress,
            at,
            tuple(loud),
            begins_at_start,
            self._undecodable,
            tuple(self._echo_numbers),
            self._onset_records(),
        )

    def _take(self, at: int, raw: RawLine) -> None:
        data = raw.data
        wanted = self._reader.wants_every_line
        alike = data.translate(_ALIKE)
        masked = self._shortened(alike)
        if not data.isascii() and not _is_utf8(data):
            self._undecodable += 1
        if not wanted and masked in self._echoes:
            self._reader.skip()
            self._hear_echo(at, raw)
            return
        if not wanted and alike in self._benign:
            self._reader.skip(lambda: normalise(raw, self._labels)[-1].text)
            self._progress.add(at, data)
            self._count_form(masked)
            return
        hot = masked not in self._ordinary and self._is_hot(data, masked)
        if not wanted and not hot:
            self._reader.skip()
            self._progress.add(at, data)
            self._count_form(masked)
            self._remember(masked)
            return
        ordinary = True
        before = len(self._records)
        shown = normalise(raw, self._labels)
        for line in shown:
            ordinary &= self._take_line(line, at, hot)
        silent = len(self._records) == before
        if len(shown) == 1 and self._last_is_mere_echo(before):
            self._records.pop()
            self._echoes.add(masked)
            self._hear_echo(at, raw)
            return
        if len(shown) == 1 and self._last_is_benign(before):
            self._records.pop()
            if not wanted and self._may_keep(alike, self._benign):
                self._benign.add(alike)
        if ordinary:
            self._progress.add(at, data)
            self._count_form(masked)
            if silent:
                self._remember(masked)
                if hot:
                    self._recent.append((at, raw, masked))
        elif at not in self._loud[-1:]:
            self._hear(at)

    def _last_is_mere_echo(self, before: int) -> bool:
        if len(self._records) != before + 1 or len(self._echoes) >= _MEMO_LIMIT:
            return False
        record = self._records[-1]
        return record.kind is RecordKind.LINE and self._judge.judge(record).is_mere_echo

    def _last_is_benign(self, before: int) -> bool:
        """Whether the line is harmless whatever its digits: such records tell nothing and need not be kept."""
        if len(self._records) != before + 1:
            return False
        record = self._records[-1]
        if record.kind is not RecordKind.LINE or self._judge.judge(record).role is not Role.BENIGN:
            return False
        return not record.lead.startswith(_LEADS) and self._judge.is_blind_to_digits(record)

    def _shortened(self, alike: bytes) -> bytes:
        """A line with every number as one zero."""
        short = self._short.get(alike)
        if short is None:
            short = _ZEROS.sub(b"0", alike)
            if len(alike) <= _HOT_BYTES:
                self._short.put(alike, short)
        return short

    def _is_hot(self, data: bytes, masked: bytes) -> bool:
        if masked in self._hot:
            return True
        hot = is_hot(data)
        # A stem that is there without the digits is there whatever the digits are.
        if hot and is_hot(masked) and self._may_keep(masked, self._hot):
            self._hot.add(masked)
        return hot

    def _hear(self, at: int) -> None:
        """A noisy line; the first of a stretch keeps what stood just before it."""
        if self._recent and (not self._loud or at - self._loud[-1] > 1):
            self._onsets.append(tuple(self._recent))
            self._recent.clear()
        self._loud.append(at)

    def _count_form(self, masked: bytes) -> None:
        if masked in self._forms or self._may_keep(masked, self._forms):
            self._forms[masked] += 1

    def _onset_records(self) -> tuple[Record, ...]:
        found: list[Record] = []
        for at, raw, masked in (*itertools.chain.from_iterable(self._onsets), *self._recent):
            if self._forms[masked] <= _RARE:
                found += [line_record(line, at, "") for line in normalise(raw, self._labels, newest=1)]
        return tuple(found)

    def _hear_echo(self, at: int, raw: RawLine) -> None:
        self._hear(at)
        if raw.number is not None and len(self._echo_numbers) < _MAX_ECHO_NUMBERS:
            self._echo_numbers.append(raw.number)
        self._forget_the_oldest()

    def _forget_the_oldest(self) -> None:
        """Keep memory bounded (R-12): the newest records tell how a run ended, the oldest half may go."""
        if len(self._records) > _MAX_RECORDS:
            del self._records[: _MAX_RECORDS // 2]
        if len(self._loud) > _MAX_LOUD:
            del self._loud[: _MAX_LOUD // 2]

    def _remember(self, masked: bytes) -> None:
        """That lines of this form, whatever their numbers, say nothing."""
        if masked not in self._ordinary and self._may_keep(masked, self._ordinary):
            self._ordinary.add(masked)

    def _may_keep(self, form: bytes, kept: Collection[bytes]) -> bool:
        """Whether another form may be remembered; its size is counted."""
        if len(form) > _HOT_BYTES or len(kept) >= _MEMO_LIMIT or self._kept_bytes + len(form) > _MAX_KEPT_BYTES:
            return False
        self._kept_bytes += len(form)
        return True

    def _take_line(self, line: LogLine, at: int, hot: bool) -> bool:
        """Feed one display state; says whether it is ordinary output."""
        lead = self._reader.lead
        mine, done = self._reader.feed(line, at)
        self._records.extend(done)
        if mine:
            return False
        if not hot:
            return True
        record = line_record(line, at, lead)
        role = self._judge.judge(record).role
        if role is Role.NONE:
            return True
        self._records.append(record)
        self._forget_the_oldest()
        return role in _ORDINARY


def _met(record: Record, lost_at: list[int]) -> frozenset[Condition]:
    met: set[Condition] = set()
    following = bisect_left(lost_at, record.position)
    if following < len(lost_at) and lost_at[following] - record.position <= _LOST_WINDOW:
        met.add(Condition.GPU_LOST_LATER)
    if memory_held_by_others(record.judged_text):
        met.add(Condition.MEMORY_HELD_BY_OTHERS)
    return frozenset(met)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
