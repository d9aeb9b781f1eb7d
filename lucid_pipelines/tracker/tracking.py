"""From a log to its progress: the tracker's path from end to end, a pure function of the log's two ends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from lucid_pipelines.logs import (
    Extent,
    compression_of,
    extent_of_blocks,
    is_damaged,
    iter_blocks,
    rank_from_path,
    read_extent,
)
from lucid_pipelines.ports import LanguageModel
from lucid_pipelines.tracker.asking import STEP_NAME, LearnedTemplate, ModelUse, ask_model, relabel
from lucid_pipelines.tracker.counters import MAX_STEPS, Counter, find_counter
from lucid_pipelines.tracker.epochs import Joined, join_epochs
from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.groups import Group, group_records
from lucid_pipelines.tracker.losses import Reading, find_epoch, find_loss, find_throughput
from lucid_pipelines.tracker.meaning import Role
from lucid_pipelines.tracker.pace import Pace, find_pace
from lucid_pipelines.tracker.progress import Evidence, Progress, StepSample
from lucid_pipelines.tracker.records import Kind
from lucid_pipelines.tracker.steady import STEADY_STEPS
from lucid_pipelines.tracker.window import NEWEST_PER_FORM, Record, Window, build_window

HEAD_BYTES = 32 * 1024
TAIL_BYTES = (64 * 1024, 512 * 1024, 3 * 1024 * 1024, 12 * 1024 * 1024)
"""How much of the end is read: more only while the answer is not confident."""
ENOUGH_READINGS = 24
MAX_REPEATS = 16
MIN_CONFIDENCE = 0.5
"""Below this, a language model is asked where one is configured."""
MAX_SAMPLES = 256
EVIDENCE_CHARS = 400
_PARSER = RecordParser()
_EMPTY = "the log is empty"
_DAMAGED = "nothing could be unpacked: the file is damaged or cut off near its start"


@dataclass(frozen=True, slots=True)
class Tracked:
    """An answer and what it took to find it.

    Attributes:
        readings: how many different steps it rests on.
        lines: how many lines print them; more than ``readings`` where several ranks do.
        counter_name: the printed name of the counter that was chosen.
        model_use: whether a language model was asked, and how that ended.
        template: what the model taught, to be remembered for this job.
    """

    progress: Progress
    readings: int
    lines: int = 0
    counter_name: str | None = None
    model_use: ModelUse = field(default_factory=ModelUse)
    template: LearnedTemplate | None = None


def track_file(path: Path, *, parser: RecordParser | None = None, model: LanguageModel | None = None) -> Progress:
    """Progress of the job whose log this is; plain, growing or compressed, of any size.

    Args:
        path: the log.
        parser: keeps what it learnt of the forms of lines; shared by default.
        model: asked only when the log's own structure gives no confident answer.

    Raises:
        NotFoundError, ExternalError: the file is not there or cannot be read.
    """
    if compression_of(path) is not None:
        found = track_blocks(iter_blocks(path), parser=parser, model=model)
        return Progress(fallback_reason=_DAMAGED) if found.fallback_reason == _EMPTY and is_damaged(path) else found
    return _track_ends(
        (read_extent(path, head_bytes=HEAD_BYTES, tail_bytes=tail_bytes) for tail_bytes in TAIL_BYTES), parser, model
    )


def track_blocks(
    blocks: Iterable[bytes], *, parser: RecordParser | None = None, model: LanguageModel | None = None
) -> Progress:
    """Progress of a job whose log comes as a stream, block by block; read to its end, in bounded memory."""
    whole = extent_of_blocks(blocks, head_bytes=HEAD_BYTES, tail_bytes=TAIL_BYTES[-1])
    return _track_ends(_widening(whole), parser, model)


def _track_ends(extents: Iterable[Extent], parser: RecordParser | None, model: LanguageModel | None) -> Progress:
    tracked = Tracked(Progress(fallback_reason=_EMPTY), 0)
    for extent in extents:
        is_last = extent.tail_offset == 0 or len(extent.tail) >= TAIL_BYTES[-1]
        tracked = track_extent(extent, parser=parser, model=model if is_last else None)
        if is_last or (tracked.progress.step is not None and tracked.readings >= ENOUGH_READINGS):
            break
    return tracked.progress


def _widening(whole: Extent) -> Iterator[Extent]:
    """Longer and longer ends of a log that was read once."""
    for tail_bytes in TAIL_BYTES:
        cut = max(0, len(whole.tail) - tail_bytes)
        before = whole.newlines_before_tail
        newlines = None if before is None else before + whole.tail.count(b"\n", 0, cut)
        yield Extent(whole.size, whole.head, whole.tail[cut:], whole.tail_offset + cut, newlines)


def track_files(paths: Sequence[Path], *, parser: RecordParser | None = None) -> Progress:
    """Progress of one job that writes a log per rank: the most confident answer, of equal ones the lowest rank's."""
    answers = [(track_file(path, parser=parser), rank_from_path(path)) for path in paths]
    if not answers:
        return Progress(fallback_reason="no log was given")
    best, _ = max(
        answers,
        key=lambda item: (
            item[0].step is not None,
            round(item[0].confidence, 1),
            -(item[1] if item[1] is not None else 0),
        ),
    )
    return best


def track_extent(
    extent: Extent,
    *,
    parser: RecordParser | None = None,
    template: LearnedTemplate | None = None,
    model: LanguageModel | None = None,
) -> Tracked:
    """Progress from the two ends of a log.

    Args:
        extent: both ends.
        parser: keeps what it learnt of the forms of lines.
        template: names that a language model gave to this job's numbers before.
        model: asked only when the log's own structure gives no confident answer.
    """
    if not extent.size:
        return Tracked(Progress(fallback_reason=_EMPTY), 0)
    parser = parser or _PARSER
    window = build_window(extent, parser, wide=template is not None)
    tracked = _answer(_usable(window, template), window)
    repeats = tracked.lines // max(1, tracked.readings) if tracked.readings else _writers(window)
    if repeats > 1 and tracked.readings < STEADY_STEPS:
        # Every rank prints every step: look further back, so that as many different steps are seen.
        deeper = NEWEST_PER_FORM * min(repeats, MAX_REPEATS)
        window = build_window(extent, parser, newest_per_form=deeper, wide=template is not None)
        tracked = _answer(_usable(window, template), window)
    if model is None or template is not None or _is_confident(tracked.progress):
        return tracked
    window = build_window(extent, parser, wide=True)
    learned, use = ask_model(_usable(window, None), model)
    if learned is None:
        return replace(tracked, model_use=use)
    again = _answer(_usable(window, learned), window)
    if again.progress.step is None or again.counter_name != STEP_NAME:
        return replace(tracked, model_use=replace(use, rejected=1))
    return replace(again, model_use=replace(use, accepted=1), template=learned)


def _usable(window: Window, template: LearnedTemplate | None) -> list[Record]:
    """The records that are certainly whole, with learned names where there are any."""
    records = [r for r in window.records if r.complete or _looks_finished(r, window)]
    return relabel(records, template) if template is not None else records


def _writers(window: Window) -> int:
    """How many processes print their rank before their lines."""
    return len({record.rank for record in window.records if record.rank is not None})


def _is_confident(progress: Progress) -> bool:
    return progress.step is not None and progress.confidence >= MIN_CONFIDENCE


def _answer(records: Sequence[Record], window: Window) -> Tracked:
    groups = group_records(records)
    counter, reason = find_counter(groups, window.last_order, training_announced=window.training_announced)
    loss = find_loss(groups, counter)
    pace = find_pace(counter, groups, window.span_s) if counter else None
    throughput = find_throughput(groups, counter)
    epoch = find_epoch(groups, counter) if counter or loss else None
    progress = _compose(groups, counter, pace, loss, throughput, epoch, reason, window.extent.head)
    ticks = counter.ticks if counter else ()
    distinct = sum(b.step != a.step for a, b in pairwise(ticks)) + bool(ticks)
    return Tracked(progress, distinct, counter.lines if counter else 0, counter.column.field.name if counter else None)


def _looks_finished(record: Record, window: Window) -> bool:
    """Whether an unterminated last state is whole: it has the shape of an earlier one and ends alike."""
    for other in reversed(window.records):
        if other is not record and other.complete and other.shape == record.shape:
            return other.text[-1:] == record.text[-1:] or (other.text[-1:].isdigit() and record.text[-1:].isdigit())
    return False


def _compose(
    groups: Sequence[Group],
    counter: Counter | None,
    pace: Pace | None,
    loss: Reading | None,
    throughput: tuple[Reading, str] | None,
    epoch: Reading | None,
    reason: str | None,
    head: bytes,
) -> Progress:
    if counter is None and loss is None:
        return Progress(fallback_reason=reason)
    step = total = None
    joined = Joined()
    if counter is not None:
        step = int(counter.newest.step)
        total = _total(counter, groups)
        joined = join_epochs(counter, total, epoch, head)
    left = joined.left if counter and pace and pace.unit == counter.unit else None
    evidence = _evidence(counter, pace, loss)
    return Progress(
        step=step,
        total_steps=total,
        step_unit=counter.unit if counter else None,
        global_step=joined.step,
        global_total_steps=joined.total,
        steps_left=left if left is not None and left >= 0 else None,
        step_time_s=pace.seconds if pace else None,
        step_time_low_s=pace.steady.low if pace else None,
        step_time_high_s=pace.steady.high if pace else None,
        step_time_source=str(pace.source) if pace else None,
        step_time_unit=pace.unit if pace else None,
        loss=_finite(loss.value) if loss else None,
        throughput=throughput[0].value if throughput else None,
        throughput_unit=throughput[1] if throughput else None,
        epoch=epoch.value if epoch else None,
        eta_s=left * pace.seconds if left is not None and left >= 0 and pace else None,
        confidence=_confidence(counter, pace, loss),
        evidence=evidence,
        fallback_reason=_what_is_missing(counter, pace, loss, reason),
        samples=_samples(counter, loss),
    )


def _total(counter: Counter, groups: Sequence[Group]) -> int | None:
    """The counter's denominator, or one printed beside it: of the same count, or named as a total."""
    newest = counter.newest
    if newest.total is not None:
        return int(newest.total)
    for value, shown in zip(newest.record.parsed.values, newest.record.shape.fields, strict=False):
        if (
            shown.kind is Kind.FRACTION
            and value.total
            and value.total <= MAX_STEPS
            and abs(value.number - newest.step) <= 1
            and value.total >= newest.step
        ):
            return int(value.total)
    own = {id(tick.record) for tick in counter.ticks}
    for group in groups:
        if any(id(record) in own for record in group.records):
            for column in group.columns:
                is_total = column.role is Role.TOTAL_STEPS or (
                    column.role is Role.STEP and column.meaning.weight <= 0.55 and column is not counter.column
                )
                if is_total and len(set(column.values)) == 1 and MAX_STEPS >= column.values[-1] >= newest.step:
                    return int(column.values[-1])
    return None


def _evidence(counter: Counter | None, pace: Pace | None, loss: Reading | None) -> tuple[Evidence, ...]:
    records: dict[tuple[int, str], Record] = {}
    for record in (
        counter.newest.record if counter else None,
        loss.record if loss else None,
        pace.column.group.records[-1] if pace and pace.column else None,
    ):
        if record is not None:
            records.setdefault((record.offset, record.text), record)
    return tuple(Evidence(r.line_number, r.offset, r.text.strip()[:EVIDENCE_CHARS]) for r in records.values())


def _confidence(counter: Counter | None, pace: Pace | None, loss: Reading | None) -> float:
    if counter is None:
        return 0.4 if loss else 0.0
    confidence = min(0.95, 0.35 + counter.score / 16.0)
    if len(counter.ticks) < 3:
        confidence -= 0.15
    if pace is not None and pace.corroborated:
        confidence += 0.04
    if pace is not None and pace.disputed:
        confidence -= 0.15
    return max(0.05, min(confidence, 0.99))


def _what_is_missing(
    counter: Counter | None, pace: Pace | None, loss: Reading | None, reason: str | None
) -> str | None:
    missing: list[str] = []
    if counter is None:
        missing.append(reason or "no step counter")
    elif pace is None:
        missing.append("the log prints neither times nor rates of its steps")
    if loss is None:
        missing.append("the log prints no training loss")
    elif not math.isfinite(loss.value):
        missing.append(f"the newest training loss is {loss.value}")
    return "; ".join(missing) or None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _samples(counter: Counter | None, loss: Reading | None) -> tuple[StepSample, ...]:
    if counter is None:
        return ()
    values: dict[int, float] = {}
    if loss is not None:
        column = loss.column
        values = {id(r): v for r, v in zip(column.group.records, column.values, strict=True)}
    found = [
        StepSample(
            tick.step,
            _finite(values.get(id(tick.record))),
            tick.record.time.at_s if tick.record.time else None,
            tick.record.offset,
        )
        for tick in counter.ticks[-MAX_SAMPLES:]
    ]
    return tuple(found)
