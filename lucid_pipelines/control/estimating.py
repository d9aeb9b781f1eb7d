"""Duration estimates of waiting jobs: the promoted model on live history, and the plain ladder where it cannot answer.

The ladder is the cold start of the Workload Estimate Model (Lucid paper, section 9): a user with completed runs is
predicted by the mean of those (of the same GPU count if there are some), a new user by the mean of all runs with that
GPU count, and else by the mean of everything. Until a model is promoted it is the estimate, and its basis says so.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lucid_pipelines.domain.errors import LucidError
from lucid_pipelines.domain.history import DurationStats
from lucid_pipelines.domain.job import Estimate, Job
from lucid_pipelines.domain.states import JobState
from lucid_pipelines.domain.view import QueuedJob
from lucid_pipelines.models.kinds import ModelKind
from lucid_pipelines.settings import Settings
from lucid_pipelines.store import Store

# Models are imported where they are asked: most commands open the control plane and ask none.
if TYPE_CHECKING:
    from lucid_pipelines.models.artefacts.registry import Registry
    from lucid_pipelines.models.duration.remembering import Memory

_log = logging.getLogger(__name__)
_KIND = ModelKind.DURATION
NO_HISTORY = "no_history"
_COVERAGE_FRAC = 0.8
_REFRESH_S = 5.0
"""History is asked for new ends at most so often."""
_REWRITE_ABOVE = 500
"""The file of what is known of history is written anew once so many ends are not in it."""
_TRY_AGAIN = timedelta(seconds=60)
"""A model that could not be asked is left alone for so long: the fault may have been the database's, not its own."""
MAX_HISTORY = timedelta(days=365)
_WAITING = (JobState.QUEUED, JobState.PROFILE_QUEUED)
ESTIMATOR_BASES = frozenset({"model", NO_HISTORY, "user_gpus_mean", "user_mean", "same_gpus_mean", "global_mean"})
"""What estimates of this file are called; an advisor's has another name, and is not replaced here."""


def ladder_estimate(stats: DurationStats) -> Estimate:
    """Turn what history says into an estimate.

    The interval spans the 10 % and 90 % quantiles of the same runs; with fewer than three it is unknown.
    """
    best = stats.best
    if best is None:
        return Estimate(duration_s=None, basis=NO_HISTORY)
    has_interval = best.count >= 3
    return Estimate(
        duration_s=best.mean_s,
        basis=best.rung.value,
        low_s=best.q10_s if has_interval else None,
        high_s=best.q90_s if has_interval else None,
        coverage_frac=_COVERAGE_FRAC if has_interval else None,
        evidence_job_ids=best.newest_job_ids,
        sample_count=best.count,
    )


def models_root(settings: Settings) -> Path:
    """Where the models of a home folder are kept."""
    return settings.artefacts / "models"


@dataclass
class _Serving:
    version: str
    memory: Memory
    refreshed_at: datetime | None = None


@dataclass
class Durations:
    """Estimates by the model in service; loads it when it changes, and keeps its history up to date.

    One object per process; it reads score tables only, so that nothing of what training needs is imported.
    """

    _serving: _Serving | None = None
    _refused_at: dict[str, datetime] = field(default_factory=dict)

    def estimate(self, store: Store, settings: Settings, jobs: Sequence[Job], now: datetime) -> list[Estimate]:
        """An estimate of each job, as of now. Never raises for what is wrong with the model: the ladder answers then,
        and the counter ``estimates_without_model_<reason>`` says how often.
        """
        by_model, reason = self._by_model(store, settings, jobs, now)
        missing = Counter[str]()
        found: list[Estimate] = []
        for job, estimate in zip(jobs, by_model, strict=True):
            if estimate is not None:
                found.append(estimate)
                continue
            if reason is not None:
                missing[f"estimates_without_model_{reason}"] += 1
            found.append(ladder_estimate(store.history.duration_stats(job.spec.user, job.spec.gpus, now)))
        if missing:
            store.counters.add_many(missing, now=now)
        return found

    def prepare(self, store: Store, settings: Settings, now: datetime) -> str | None:
        """Load the model in service and write down what it knows of history, so that the next process starts fast.

        Returns:
            Its version; ``None`` when none is in service.

        Raises:
            LucidError: the model cannot be used.
        """
        registry = _registry(settings)
        version = registry.in_service(_KIND)
        if version is None:
            return None
        serving = self._load(registry, version, settings)
        self._refresh(serving, store, settings, now)
        serving.memory.write(_memory_path(settings))
        return version

    def version(self, settings: Settings, now: datetime) -> str | None:
        """The version that answers; ``None``: none is in service, it was just refused, or the journal is damaged."""
        try:
            version = _registry(settings).in_service(_KIND)
        except LucidError as error:
            self._note_refusal(None, error, now)
            return None
        return None if version is None or self._is_left_alone(version, now) else version

    def _by_model(
        self, store: Store, settings: Settings, jobs: Sequence[Job], now: datetime
    ) -> tuple[Sequence[Estimate | None], str | None]:
        nothing = [None] * len(jobs)
        version: str | None = None
        try:
            registry = _registry(settings)
            version = registry.in_service(_KIND)
            if version is None:
                return nothing, None  # nothing was ever promoted: the ladder is what is in service
            if self._is_left_alone(version, now):
                return nothing, "refused"
            serving = self._load(registry, version, settings)
            self._refresh(serving, store, settings, now)
            return serving.memory.predictor.estimate_many([_queued(job) for job in jobs], now.timestamp()), NO_HISTORY
        except LucidError as error:
            self._note_refusal(version, error, now)
            return nothing, "refused"
        except Exception as error:  # noqa: BLE001  a model must never keep a job out of the queue
            self._note_refusal(version, error, now)
            return nothing, "failed"

    def _is_left_alone(self, version: str, now: datetime) -> bool:
        at = self._refused_at.get(version)
        return at is not None and timedelta() <= now - at < _TRY_AGAIN

    def _note_refusal(self, version: str | None, error: Exception, now: datetime) -> None:
        _log.error("the duration model %s is not used: %s", version, error)
        if version is not None:
            self._refused_at[version] = now
            self._serving = None  # what it remembers may be half told

    def _load(self, registry: Registry, version: str, settings: Settings) -> _Serving:
        from lucid_pipelines.models.duration.model import DurationModel
        from lucid_pipelines.models.duration.remembering import remember

        serving = self._serving
        if serving is None or serving.version != version:
            model = DurationModel.from_document(registry.read(_KIND, version))
            serving = self._serving = _Serving(version, remember(model, _memory_path(settings)))
        return serving

    def _refresh(self, serving: _Serving, store: Store, settings: Settings, now: datetime) -> None:
        from lucid_pipelines.models.duration.history import RunningAttempt

        at = serving.refreshed_at
        if at is not None and 0 <= (now - at).total_seconds() < _REFRESH_S:
            return
        memory = serving.memory
        memory.tell(store.history.rows(since=memory.since or now - MAX_HISTORY), now)
        memory.predictor.index.forget_running()
        for item in store.queue.view().active:
            started_at = item.attempt.started_at
            if started_at is not None:
                spec = item.job.spec
                memory.predictor.started(RunningAttempt(item.attempt.attempt_id, spec.user, spec.gpus, started_at))
        serving.refreshed_at = now
        if memory.told > _REWRITE_ABOVE:
            memory.write(_memory_path(settings))


def refresh_estimates(
    store: Store, settings: Settings, durations: Durations, now: datetime, *, who: str = "estimator"
) -> int:
    """Estimate waiting jobs anew whose estimate is another model's, or was made before they were profiled.

    A job is asked about once per model version and once more when its profile is known. Returns how many changed.
    """
    version = durations.version(settings, now)
    if version is None:
        return 0
    stale = [job for job in store.queue.view().waiting if job.state in _WAITING and _is_stale(store, job, version)]
    if not stale:
        return 0
    fresh: Mapping[str, Estimate] = {
        job.job_id: estimate
        for job, estimate in zip(stale, durations.estimate(store, settings, stale, now), strict=True)
        if job.estimate is None or estimate.model_version is not None
    }
    if fresh:
        store.estimates.record(fresh, now=now, who=who)
    return len(fresh)


def _is_stale(store: Store, job: Job, version: str) -> bool:
    if job.estimate is None:
        return True
    if job.estimate.basis not in ESTIMATOR_BASES:
        return False
    if job.estimate.model_version != version:
        return True
    if job.profile is None or not job.attempt_count:
        return False
    made = store.estimates.of_job(job.job_id)
    ended_at = store.attempts.of_job(job.job_id)[-1].ended_at
    return bool(made) and ended_at is not None and made[-1].made_at < ended_at


def _memory_path(settings: Settings) -> Path:
    return models_root(settings) / _KIND.value / "live" / "history.json"


def _registry(settings: Settings) -> Registry:
    from lucid_pipelines.models.artefacts.registry import Registry

    return Registry(models_root(settings))


def _queued(job: Job) -> QueuedJob:
    return QueuedJob(
        job.job_id,
        job.spec.vc,
        job.spec.gpus,
        job.submitted_at.timestamp(),
        user=job.spec.user,
        name=job.spec.name,
        profile=job.profile,
    )
