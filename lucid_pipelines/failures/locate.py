"""Which record is the first true error: rules over a scan, read top to bottom.

Sources: SchedMate sections 2, 9 and 13; requirements R-5 to R-9.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lucid_pipelines.failures.clean_ends import ends_on_purpose, is_of_another, is_real_after_success, outweighs
from lucid_pipelines.failures.clock_order import in_time_order, is_older, times_disagree
from lucid_pipelines.failures.records import Record, RecordKind
from lucid_pipelines.failures.scan import Judged, Scan
from lucid_pipelines.failures.verdicts import CLEAN_EXIT, Verdict
from lucid_pipelines.failures.vocabulary import Category, Component, Ending, Role

_SURVIVED_LINES = 4
_QUIET_LINES = 25
_EXPECTED_TIMES = 2
_HANDLED_WITHIN = 4
_GOES_ON_LINES = 12
_HEAD_LINES = 3
_LINES_AFTER_SUCCESS = 40
_TRAILING_FLUSH_LINES = 150
_NEAR_LINES = 200
_SURELY_HARMFUL = 0.03
_LIKELY_HARMFUL = 0.30
_HANDLER = re.compile(
    r"(after|above|this|that|the|previous|following) (error|exception|failure)"
    r"|(error|exception|failure) (above|was|is) "
    r"|skipp\w* (this|the|a|bad|broken|corrupt\w*|batch|sample|file|record|step|image|item|shard)"
    r"|will (retry|continue|skip|be)|retry|attempt \d|continuing|ignoring|recovered|non-?fatal|caught|handled"
    r"|passed|as expected|\bexpected|caught"
    r"|fall\w* back|using (the |an? )?(default|sample|cached|next|other|previous|last|old|another)|instead",
    re.IGNORECASE,
)
_ENDS = frozenset({Role.ROOT, Role.CANCEL, Role.CASCADE})
_TIMEOUT_FAMILIES = frozenset({"collective-timeout", "rendezvous", "rpc-unavailable", "peer-reset"})


@dataclass(frozen=True, slots=True)
class SetAside:
    """A record that looked like a cause and was not taken, and why."""

    record: Record
    why: str


@dataclass(frozen=True, slots=True)
class Located:
    """Where the first true error stands.

    Attributes:
        ending: how the run ended; only ``FAILED`` has a culprit.
        root: the first true error, or the record that shows a blameless ending, or ``None``.
        set_aside: what else was seen and why it is not the cause, in file order.
        echoes: cascade records that say something.
        echo_numbers: lines of cascade that only fill the log (native stacks, abort notices).
        evidence: records that tell what kind of error it was.
        basis: which rule of this file decided.
        head_lost: the log begins in the middle of a failure.
        times_disagree: lines stand in another order than their timestamps say (R-8).
        strength: 2 = names a cause, 1 = only a symptom was left, 0 = nothing.
    """

    ending: Ending
    root: Judged | None
    basis: str
    strength: int
    set_aside: tuple[SetAside, ...] = ()
    echoes: tuple[Record, ...] = ()
    echo_numbers: tuple[int, ...] = ()
    evidence: tuple[Judged, ...] = ()
    head_lost: bool = False
    times_disagree: bool = False


Doubt = Callable[[Record], float]
"""Probability that an error-like line that no rule knows is harmless."""


def always_in_doubt(_: Record) -> float:
    """The doubt of somebody who cannot read: an error that is marked as one counts, nothing else does."""
    return 0.3


def locate(scan: Scan, harmless: Doubt = always_in_doubt) -> Located:
    """Find the first true error in a scan.

    Args:
        scan: a whole log, or the part of it around its end.
        harmless: judges error-like lines that no rule knows.
    """
    return _Locator(scan, harmless).run()


class _Locator:
    def __init__(self, scan: Scan, harmless: Doubt) -> None:
        self._scan = scan
        self._harmless = harmless
        self._aside: dict[int, SetAside] = {}
        self._head_lost = _head_lost(scan)

    def run(self) -> Located:
        causes = self._unhandled(self._scan.of_role(Role.ROOT, Role.WEAK, Role.UNKNOWN, Role.CANCEL))
        alive = [item for item in causes if not self._survived(item)]
        alive, finished = self._after_success(alive)
        if finished is not None:
            return self._blameless(Ending.SUCCEEDED, finished, "1: finished, and what follows is teardown")
        alive = self._last_burst(alive)
        roots = in_time_order([item for item in alive if item.role is Role.ROOT])
        cancel = next((item for item in alive if item.role is Role.CANCEL), None)
        if cancel is not None and self._cancel_came_first(cancel, alive, roots):
            ending = cancel.verdict.ending or Ending.CANCELLED
            return self._blameless(ending, cancel, "2: ended on purpose before any error")
        if roots:
            return self._failed(self._best_root(roots), "3: first error that names a cause", 2, alive)
        unknown = self._first_unknown(alive)
        weak = _best_weak(alive)
        if unknown is not None and (weak is None or unknown.position < weak.position):
            return self._failed(unknown, "4: first error-like record; no rule knows it", 2, alive)
        onset = self._rare_line_before(weak)
        if onset is not None:
            return self._failed(onset, "4b: a line of a rare form before the first echo, read as an error", 2, alive)
        if self._head_lost:
            return self._nothing(Ending.ROOT_LOST, "5: the log begins inside the failure: its cause is lost")
        if weak is not None:
            return self._failed(weak, "6: no rank names a cause: first symptom", 1, alive)
        doubtful = next((item for item in alive if item.role is Role.UNKNOWN), None)
        if doubtful is not None:
            return self._failed(doubtful, "7: it reads harmless, but nothing else is there", 1, alive)
        relaxed = self._cut_off_by_a_flush(causes)
        if relaxed is not None:
            return self._failed(relaxed, "8: last error before buffered output", 2, alive)
        echo = self._first_echo_that_says_something()
        if echo is not None:
            return self._failed(echo, "9: only echoes are left: first that says what happened", 1, alive)
        return self._nothing(Ending.UNKNOWN, "10: nothing in the log explains the end")

    # ------------------------------------------------------------ what was survived

    def _unhandled(self, items: Sequence[Judged]) -> list[Judged]:
        """Leave out errors that the program says it handled, provided that it really went on."""
        handled: dict[int, Judged] = {}
        tracebacks = {(i.record.first, i.record.rank): i for i in items if i.record.kind is RecordKind.TRACEBACK}
        last = max((item.position for item in (*items, *self._told_deaths()) if item.role in _ENDS), default=-1)
        for item in items:
            handler = self._handler_of(item)
            if handler is not None and (item.position < last or self._goes_on_after(item)):
                handled[item.position] = handler
        for item in items:
            # A logger's line that announces a traceback shares its fate.
            told = tracebacks.get((item.record.last + 1, item.record.rank)) if item.role is Role.UNKNOWN else None
            if told is not None and told.position in handled:
                handled.setdefault(item.position, handled[told.position])
        for item in items:
            if item.position in handled:
                self._set_aside(item, f"handled: {handled[item.position].record.text[:120]}")
        return [item for item in items if item.position not in handled]

    def _told_deaths(self) -> list[Judged]:
        """Uncaught exceptions that say how another process of the job died: an end of their own."""
        echoes = self._scan.of_role(Role.CASCADE)
        return [item for item in echoes if item.record.kind is RecordKind.TRACEBACK and _tells(item.record.text)]

    def _handler_of(self, item: Judged) -> Judged | None:
        if item.role is not Role.ROOT and item.role is not Role.UNKNOWN:
            return None
        record = item.record
        handlers = self._scan.of_role(Role.HANDLED)
        first = bisect_right(handlers, record.last, key=lambda other: other.position)
        for index in range(first, len(handlers)):
            other = handlers[index]
            if other.position - record.last > _HANDLED_WITHIN:
                return None
            same_writer = record.rank is None or other.record.rank in (None, record.rank)
            if same_writer and _HANDLER.search(other.record.text):
                return other
        return None

    def _goes_on_after(self, item: Judged) -> bool:
        if any(not other.verdict.soft and other.position > item.position for other in self._scan.of_role(Role.SUCCESS)):
            return True
        end = self._scan.line_count
        quiet = self._scan.quiet_between(item.record.last, end)
        return quiet >= _GOES_ON_LINES or self._scan.progress.lines_after(item.record.last) >= 1

    def _survived(self, item: Judged) -> bool:
        """The counter of the job climbed on after this record."""
        if self._scan.progress.lines_after(item.record.last) < _SURVIVED_LINES:
            return False
        self._set_aside(item, "survived: the job went on making progress afterwards")
        return True

    def _after_success(self, alive: list[Judged]) -> tuple[list[Judged], Judged | None]:
        """Errors after a success marker are teardown, unless a real one follows a weak marker (R-5)."""
        markers = [
            item
            for item in self._scan.of_role(Role.SUCCESS)
            if self._scan.progress.lines_after(item.position) < _SURVIVED_LINES
            and self._scan.quiet_between(item.position, self._scan.line_count) <= _LINES_AFTER_SUCCESS
        ]
        strong = [item for item in markers if not item.verdict.soft]
        if not strong:
            return alive, None
        marker = strong[0]
        before = [item for item in alive if item.position < marker.position and item.role is Role.ROOT]
        near = [item for item in before if self._scan.longest_quiet(item.record.last, marker.position) < _QUIET_LINES]
        if any(self._may_be_the_end(item, marker) for item in near):
            return alive, None
        if marker.verdict.rule_id == CLEAN_EXIT and ends_on_purpose(alive, marker):
            return alive, None
        later = [item for item in alive if item.position > marker.position]
        real = [item for item in later if is_real_after_success(item) or is_of_another(item, marker)]
        if real:
            return alive, None
        for item in alive:
            self._set_aside(item, f"teardown after success (line {marker.record.number})")
        return [], marker

    def _may_be_the_end(self, item: Judged, marker: Judged) -> bool:
        """Whether an error just before a success marker may have ended the job all the same.

        Not one of a kind that came, between ordinary lines, again and again: the program expects it.
        """
        if is_of_another(item, marker):
            return True
        if item.record.kind is not RecordKind.TRACEBACK:
            return False
        mine = item.record
        alike = [
            other.record
            for other in self._scan.of_role(Role.ROOT)
            if other.record.kind is RecordKind.TRACEBACK
            and (other.record.frames, other.record.rank) == (mine.frames, mine.rank)
            and other.record.exception_type == mine.exception_type
            and other.position <= mine.position
        ]
        apart = sum(self._scan.quiet_between(one.last, other.first) >= 1 for one, other in itertools.pairwise(alike))
        return apart < _EXPECTED_TIMES

    def _last_burst(self, alive: list[Judged]) -> list[Judged]:
        """Keep the errors from the last stretch without a long quiet run.

        A quiet run that ends in a time-out is explained: the other ranks were waiting. One that ends in
        another cause means that the earlier error did not end the job.
        """
        start = 0
        for i in range(1, len(alive)):
            quiet = self._scan.longest_quiet(alive[i - 1].record.last, alive[i].record.first)
            if quiet < _QUIET_LINES:
                continue
            waited = alive[i].role is Role.WEAK and alive[i].verdict.family_name in _TIMEOUT_FAMILIES
            fatal_before = any(item.role is Role.ROOT for item in alive[start:i])
            if waited and fatal_before:
                continue
            if alive[i].role in (Role.ROOT, Role.WEAK) or not fatal_before:
                start = i
        for item in alive[:start]:
            self._set_aside(item, "ordinary output went on for a while afterwards")
        return alive[start:]

    # ------------------------------------------------------------ which one came first

    def _cancel_came_first(self, cancel: Judged, alive: list[Judged], roots: list[Judged]) -> bool:
        if cancel.verdict.soft:
            return not roots and not any(
                item.role in (Role.WEAK, Role.UNKNOWN) and item.position < cancel.position for item in alive
            )
        earlier = [item for item in alive if item.position < cancel.position and item.role in (Role.ROOT, Role.WEAK)]
        if earlier:
            return False
        later_but_older = [item for item in roots if is_older(item.record, cancel.record)]
        return not later_but_older

    def _best_root(self, roots: list[Judged]) -> Judged:
        """The earliest; but a bare symptom yields to a hardware record just after it."""
        first = roots[0]
        if first.verdict.soft:
            first = next((item for item in roots[1:] if outweighs(item, first)), first)
        if not first.verdict.is_symptom:
            return first
        for item in roots[1:]:
            family = item.verdict.family
            near = item.position - first.record.last <= _NEAR_LINES
            if near and family is not None and family.component in (Component.GPU, Component.NVLINK):
                same = first.verdict.family is not None and first.verdict.family.category is Category.INFRASTRUCTURE
                return first if same else item
        return first

    def _first_unknown(self, alive: list[Judged]) -> Judged | None:
        for item in alive:
            if item.role is Role.UNKNOWN:
                if self._harmless(item.record) < 0.5:
                    return item
                self._set_aside(item, "reads like a harmless message")
        return None

    def _rare_line_before(self, weak: Judged | None) -> Judged | None:
        """A line that no rule knows and nobody marked as an error, but that reads like one and came just before.

        Only the text model can tell; so it must be sure, and the line must not be followed by progress.
        """
        if weak is not None and weak.verdict.family_name not in _TIMEOUT_FAMILIES:
            return None
        limit = weak.position if weak is not None else self._scan.line_count
        enough = _SURELY_HARMFUL if weak is not None else _LIKELY_HARMFUL
        best: tuple[float, Record] | None = None
        for record in self._scan.onset:
            if record.position >= limit or self._scan.progress.lines_after(record.position) >= _SURVIVED_LINES:
                continue
            if self._scan.longest_quiet(record.position, limit) > _QUIET_LINES:
                continue
            doubt = self._harmless(record)
            if doubt <= enough and (best is None or doubt < best[0]):
                best = (doubt, record)
        return Judged(best[1], Verdict(Role.UNKNOWN, why="reads like an error")) if best is not None else None

    def _cut_off_by_a_flush(self, causes: list[Judged]) -> Judged | None:
        """An uncaught error after which only buffered lines of progress were written out (R-8)."""
        end = self._scan.line_count
        for item in reversed(causes):
            if item.role is Role.ROOT and item.record.kind is RecordKind.TRACEBACK:
                return item if end - item.record.last <= _TRAILING_FLUSH_LINES else None
        return None

    def _first_echo_that_says_something(self) -> Judged | None:
        said = [item for item in self._scan.of_role(Role.CASCADE) if item.verdict.family is not None]
        echoes = said or [item for item in self._scan.of_role(Role.CASCADE) if _tells(item.record.text)]
        alive = [item for item in echoes if self._scan.progress.lines_after(item.position) < _SURVIVED_LINES]
        return alive[0] if alive else None

    # ------------------------------------------------------------ results

    def _failed(self, root: Judged, basis: str, strength: int, alive: list[Judged]) -> Located:
        for item in alive:
            if item is not root and item.role in (Role.ROOT, Role.WEAK, Role.UNKNOWN):
                self._set_aside(item, _why_not(item, root))
        return self._result(Ending.FAILED, root, basis, strength)

    def _blameless(self, ending: Ending, root: Judged, basis: str) -> Located:
        return self._result(ending, root, basis, 0)

    def _nothing(self, ending: Ending, basis: str) -> Located:
        return self._result(ending, None, basis, 0)

    def _result(self, ending: Ending, root: Judged | None, basis: str, strength: int) -> Located:
        echoes = tuple(item.record for item in self._scan.of_role(Role.CASCADE))
        return Located(
            ending=ending,
            root=root,
            basis=basis,
            strength=strength,
            set_aside=tuple(self._aside[key] for key in sorted(self._aside)),
            echoes=echoes,
            echo_numbers=self._scan.echo_numbers,
            evidence=self._scan.of_role(Role.EVIDENCE),
            head_lost=self._head_lost,
            times_disagree=times_disagree(self._scan.judged),
        )

    def _set_aside(self, item: Judged, why: str) -> None:
        self._aside.setdefault(item.position, SetAside(item.record, why))


def _best_weak(alive: list[Judged]) -> Judged | None:
    """The first symptom; but one that says what happened in a process is better than a lost peer."""
    symptoms = [item for item in alive if item.role is Role.WEAK]
    telling = [item for item in symptoms if item.verdict.family_name not in _TIMEOUT_FAMILIES]
    return next(iter(telling or symptoms), None)


def _head_lost(scan: Scan) -> bool:
    """The first lines are already echoes or the middle of a traceback: hardly any ordinary line came before."""
    if not scan.begins_at_start:
        return False
    places = [item.record.first for item in scan.judged if item.role in (Role.CASCADE, Role.WEAK, Role.UNKNOWN)]
    first = min((*places[:1], *scan.loud[:1]), default=None)
    return first is not None and bool(places or scan.echo_numbers) and scan.quiet_between(-1, first) <= _HEAD_LINES


_TELLING = re.compile(
    r"signal:? ?-?(9|11|4|7|8)\b|SIG(KILL|SEGV|ILL|BUS|FPE)|exit ?code:? ?-?(9|11|137|139|132|135|136)\b|"
    r"status -?(9|11|137|139)\b|Killed|Segmentation|Bus error|RayTaskError|exited on signal|died unexpectedly"
    r"|killed by signal|worker.{0,40} exited unexpectedly",
    re.IGNORECASE,
)


def _tells(text: str) -> bool:
    return _TELLING.search(text) is not None


def _why_not(item: Judged, root: Judged) -> str:
    if item.role is Role.WEAK:
        return "a symptom: what the loss of a peer looks like from outside"
    if item.verdict.rule_id is not None and item.verdict.rule_id == root.verdict.rule_id:
        return "the same error again, from another rank or thread"
    if item.position < root.position:
        return "stands earlier in the file but was written later, or is only a symptom"
    return "came later"
