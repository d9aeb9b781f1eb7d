"""Follow the logs of running attempts: one look at each per interval, its cursor and values stored together.

Values go to ``store.metrics`` under these names, per attempt:

=============== ==========================================================================================
``loss``        training loss; ``step`` as printed, ``at`` spread evenly over the time between two looks
``step_time_s`` seconds per step over the newest steady steps, one a look; ``None`` where the log does not tell
``throughput``  newest printed, in the unit that ``Tracked.progress["throughput_unit"]`` names
``step``        steps done: as printed, but counted on where a counter begins again with each epoch
=============== ==========================================================================================

A look that finds nothing new stores no value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from lucid_pipelines.control.notices import Occasion, tell
from lucid_pipelines.control.pulse import hang_settings, look_at_pulse, pulse_after, pulse_without_blind_time
from lucid_pipelines.control.system import System
from lucid_pipelines.domain.errors import ExternalError, InputError, NotFoundError
from lucid_pipelines.domain.job import Attempt, Job
from lucid_pipelines.ports import LanguageModel
from lucid_pipelines.store import ActiveAttempt, MetricPoint, Tracked
from lucid_pipelines.tracker.attempt_log import AttemptLog
from lucid_pipelines.tracker.classes import LineClass, LineClassifier, newest_activity
from lucid_pipelines.tracker.eta import estimate_end, pause_share
from lucid_pipelines.tracker.fields import RecordParser
from lucid_pipelines.tracker.follow import Followed, FollowState, follow
from lucid_pipelines.tracker.hang import judge_hang
from lucid_pipelines.tracker.progress import Progress, StepSample
from lucid_pipelines.tracker.straggler import PeerPace, find_stragglers

WHO = "metric_tracker"
LOSS, STEP, STEP_TIME, THROUGHPUT = "loss", "step", "step_time_s", "throughput"
_TAIL_BYTES = 4096
_EVIDENCE_CHARS = 300
_MODEL_RETRY_KEY = "tracker.language_model.retry_at"
_MODEL_PAUSE = timedelta(minutes=10)
_LARGEST_STEP = 2**62


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the log of a running attempt gave.

    Attributes:
        tracked: the row as stored now; ``None`` while the log cannot be read and never was.
        log_bytes: how long the log is; ``None`` when it cannot be read now.
        last_line: the newest line that shows something.
    """

    job: Job
    attempt: Attempt
    tracked: Tracked | None
    log_bytes: int | None = None
    last_line: str | None = None


class Follower:
    """Looks at running attempts' logs; what was learnt about forms of lines is kept between looks."""

    def __init__(self) -> None:
        self._parser = RecordParser()
        self._classifier: LineClassifier | None = None

    def look(
        self, system: System, active: Sequence[ActiveAttempt], *, compare: bool = True, ask: bool = True
    ) -> list[Look]:
        """Look at attempts once and store what is new. One look that fails hides no other.

        Args:
            active: all that run, or those that somebody wants to know of now.
            compare: whether they are compared with one another; only where all that run are given.
            ask: whether a language model may be asked, which may take many seconds.
        """
        before = system.store.tracking.find([item.attempt.attempt_id for item in active])
        model = _model_to_ask(system) if ask else None
        looks: list[Look] = []
        steps: list[tuple[Tracked, Sequence[MetricPoint]]] = []
        for item in active:
            old = before.get(item.attempt.attempt_id)
            try:
                look, points, used = self._one(system, item, old, model)
            except (NotFoundError, ExternalError):
                looks.append(Look(item.job, item.attempt, old))
                continue
            if used is not None:
                model = None  # at most one question a pass: the others' turn comes with the next
            looks.append(look)
            if look.tracked is not None:
                steps.append((look.tracked, points))
        if compare:
            steps = _with_stragglers(system, looks, steps)
        stored = system.store.tracking.advance(steps, keep=system.settings.tracker.keep_values)
        newest = {row.attempt_id: row for row, _ in steps if row.attempt_id in stored}
        _tell(system, before, newest)
        return [replace(look, tracked=newest.get(look.attempt.attempt_id, look.tracked)) for look in looks]

    def _one(
        self, system: System, item: ActiveAttempt, old: Tracked | None, model: LanguageModel | None
    ) -> tuple[Look, list[MetricPoint], bool | None]:
        job, attempt, now = item.job, item.attempt, system.clock.now()
        source = AttemptLog(system.cluster, attempt.attempt_id)
        size = source.size()
        tail = source.read_at(max(0, size - _TAIL_BYTES), _TAIL_BYTES)
        look = Look(job, attempt, None, size, _last_line(tail))
        activity = newest_activity(tail, self._classes())
        state = _state(old)
        if old is not None and size == state.size:  # nothing new was written: only the pulse goes on
            pulse = pulse_without_blind_time(old, now, system.settings.tracker.interval_s)
            row = replace(old, version=old.version + 1, at=now, pulse=pulse)
            return replace(look, tracked=_judged(system, row, activity, now)), [], None
        ran_s = (now - attempt.started_at).total_seconds() if attempt.started_at else 0.0
        may_ask = model if ran_s >= system.settings.tracker.ask_after_s else None
        followed = follow(source, state, model=may_ask, parser=self._parser)
        used = _count_model_use(system, followed, now)
        pulse = pulse_after(old, followed, now)
        row = Tracked(
            attempt_id=attempt.attempt_id,
            job_id=job.job_id,
            version=old.version + 1 if old else 1,
            at=now,
            cursor=followed.state.to_json(),
            progress=progress_json(followed.progress, now, steps=pulse.get("steps_done"), run_s=ran_s),
            pulse=pulse,
            findings=old.findings if old else (),
        )
        begin = old.at if old else attempt.started_at or attempt.placed_at
        # What an ended attempt printed was printed before its end, however late somebody looks.
        until = now if attempt.ended_at is None else min(now, attempt.ended_at)
        points = _points(followed, row, begin, until, system.settings.tracker.values_per_look)
        return replace(look, tracked=_judged(system, row, activity, now)), points, used

    def _classes(self) -> LineClassifier:
        if self._classifier is None:
            self._classifier = LineClassifier(parser=self._parser)
        return self._classifier


FOLLOWER = Follower()
"""This process's: whoever looks at a running job's log does it through this one."""


def progress_json(
    progress: Progress, now: datetime, *, steps: float | None = None, run_s: float = 0.0
) -> dict[str, Any]:
    """Progress as the store keeps it: as ``lucid track`` prints it, with joined epochs, spread and remaining time."""
    share = pause_share(progress.step_time_s, steps, run_s) if progress.step_time_s and steps else 0.0
    eta = estimate_end(progress, now, pause_share_frac=share)
    row: dict[str, Any] = progress.to_json("")
    del row["file"]
    row |= {
        "step_unit": progress.step_unit,
        "global_step": progress.global_step,
        "global_total_steps": progress.global_total_steps,
        "step_time_low_s": progress.step_time_low_s,
        "step_time_high_s": progress.step_time_high_s,
        "step_time_source": progress.step_time_source,
        "step_time_unit": progress.step_time_unit,
        "steps_left": progress.steps_left,
        "evidence": [
            {"line": item.line, "offset": item.offset, "text": _plain(item.text)[:_EVIDENCE_CHARS]}
            for item in progress.evidence
        ],
        "remaining": None
        if eta is None
        else {"remaining_s": eta.remaining_s, "low_s": eta.low_s, "high_s": eta.high_s, "basis": eta.basis},
    }
    return {key: _kept(value) for key, value in row.items()}


def _kept(value: Any) -> Any:
    """The value if the store can keep it; a number beyond all bounds is unknown."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < _LARGEST_STEP else None
    if isinstance(value, str):
        return _plain(value)
    if isinstance(value, dict):
        return {key: _kept(item) for key, item in value.items()}
    return value


def _state(old: Tracked | None) -> FollowState:
    if old is None:
        return FollowState()
    try:
        return FollowState.from_json(old.cursor)
    except InputError:  # written by another version of this program: begin again, once
        return FollowState()


def _points(followed: Followed, row: Tracked, begin: datetime, now: datetime, most: int) -> list[MetricPoint]:
    if not followed.new_samples:
        return []
    progress = followed.progress
    step = progress.global_step if progress.global_step is not None else progress.step
    shown = step if step is not None and abs(step) < _LARGEST_STEP else None
    points = [
        MetricPoint(STEP_TIME, now, progress.step_time_s, shown),
        MetricPoint(STEP, now, row.pulse.get("steps_done"), shown),
    ]
    if progress.throughput is not None:
        points.append(MetricPoint(THROUGHPUT, now, progress.throughput, shown))
    losses = [sample for sample in followed.new_samples if sample.loss is not None]
    chosen = _thinned(losses, most)
    span_s = max(0.0, (now - begin).total_seconds())
    for number, sample in enumerate(chosen, 1):
        at = begin + timedelta(seconds=span_s * number / len(chosen))
        whole = int(sample.step) if math.isfinite(sample.step) and abs(sample.step) < _LARGEST_STEP else None
        points.append(MetricPoint(LOSS, at, sample.loss, whole))
    return points


def _thinned(samples: Sequence[StepSample], most: int) -> list[StepSample]:
    """At most so many of them, evenly spread, the newest among them."""
    if len(samples) <= most:
        return list(samples)
    stride = len(samples) / most
    return [samples[len(samples) - 1 - int(stride * i)] for i in range(most)][::-1]


def _judged(system: System, row: Tracked, activity: LineClass, now: datetime) -> Tracked:
    """The row with its hang finding set or lifted."""
    hang = judge_hang(look_at_pulse(row, activity), now, hang_settings(system.settings.tracker))
    others = [finding for finding in row.findings if finding.get("kind") != "hang"]
    if not hang.is_suspected:
        return replace(row, findings=tuple(others))
    since = next((f["since"] for f in row.findings if f.get("kind") == "hang"), now.isoformat())
    return replace(row, findings=(*others, {"kind": "hang", "since": since, "text": hang.reason}))


def _with_stragglers(
    system: System, looks: Sequence[Look], steps: Sequence[tuple[Tracked, Sequence[MetricPoint]]]
) -> list[tuple[Tracked, Sequence[MetricPoint]]]:
    """The rows with their straggler findings set or lifted: jobs slower than equal ones elsewhere (R-20)."""
    chosen = system.settings.tracker
    types = {node.name: node.gpus[0].gpu_type or "" for node in system.cluster.inventory().nodes if node.gpus}
    paces = [
        PeerPace(
            job_id=look.job.job_id,
            node=",".join(look.attempt.placement.node_names),
            gpu_type=",".join(sorted({types.get(name, "") for name in look.attempt.placement.node_names})),
            fingerprint=_workload(look.job),
            gpus=look.job.spec.gpus,
            step_time_s=look.tracked.progress.get("step_time_s"),
            is_packed=look.attempt.partner_job_id is not None,
        )
        for look in looks
        if look.tracked is not None
    ]
    hints = {
        hint.job_id: hint
        for hint in find_stragglers(paces, min_ratio=chosen.straggler_min_ratio, min_peers=chosen.straggler_min_peers)
    }
    judged: list[tuple[Tracked, Sequence[MetricPoint]]] = []
    for row, points in steps:
        others = tuple(finding for finding in row.findings if finding.get("kind") != "straggler")
        hint = hints.get(row.job_id)
        if hint is not None:
            since = next((f["since"] for f in row.findings if f.get("kind") == "straggler"), row.at.isoformat())
            others = (*others, {"kind": "straggler", "since": since, "text": hint.reason})
        judged.append((replace(row, findings=others), points))
    return judged


def _workload(job: Job) -> str:
    """Equal for jobs that do the same: one command over the same sealed code (where none was sealed, of one user)."""
    return f"{job.spec.snapshot_digest or job.spec.user} {job.spec.workdir} {' '.join(job.spec.command)}"


def _tell(system: System, before: dict[str, Tracked], newest: dict[str, Tracked]) -> None:
    """A note in the job's story when a finding appears or goes away."""
    for attempt_id, row in newest.items():
        old = before[attempt_id].findings if attempt_id in before else ()
        had, has = {f["kind"] for f in old}, {f["kind"]: f for f in row.findings}
        for kind in sorted(has.keys() - had):
            system.store.counters.add(f"tracker_{kind}_suspected", now=row.at)
            why = f"{kind} suspected (advice only): {has[kind]['text']}"
            system.store.jobs.annotate(row.job_id, who=WHO, why=why, now=row.at, evidence=has[kind])
            facts = {"job": row.job_id, "attempt": attempt_id, "since": has[kind]["since"]}
            text = f"{has[kind]['text']}\n\nNothing was done. Look: `lucid metrics {row.job_id}`."
            key = f"{attempt_id}:{has[kind]['since']}"
            tell(system, Occasion(kind), key, f"{row.job_id}: {kind} suspected", text, facts)
        for kind in sorted(had - has.keys()):
            system.store.jobs.annotate(row.job_id, who=WHO, why=f"{kind} no longer suspected", now=row.at)


def _model_to_ask(system: System) -> LanguageModel | None:
    """The language model, unless there is none or it failed just before."""
    if system.language_model is None:
        return None
    retry_at = system.store.meta.get(_MODEL_RETRY_KEY)
    if retry_at is not None and system.clock.now() < datetime.fromisoformat(retry_at):
        return None
    return system.language_model


def _count_model_use(system: System, followed: Followed, now: datetime) -> bool | None:
    """Count what was asked. ``None`` when nothing was, else whether the answer could be used."""
    use = followed.model_use
    if not use.asked:
        return None
    amounts = {
        "tracker_model_asked": use.asked,
        "tracker_model_accepted": use.accepted,
        "tracker_model_rejected": use.rejected,
        "tracker_model_failed": use.failed,
    }
    system.store.counters.add_many({name: count for name, count in amounts.items() if count}, now=now)
    if use.failed:
        system.store.meta.set(_MODEL_RETRY_KEY, (now + _MODEL_PAUSE).isoformat(), now=now)
    return use.accepted > 0


def _last_line(tail: bytes) -> str | None:
    text = _plain(tail.decode("utf-8", errors="replace").replace("\r", "\n"))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else None


def _plain(text: str) -> str:
    """Text that the store and the UI can show: no control characters but line ends, no lone surrogates."""
    shown = "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)
    return shown.encode("utf-8", errors="replace").decode("utf-8")
